package metrics

import (
	"bytes"
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockprom"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Locks on a server are scraped by Prometheus, which answers the queries of a dashboard, and rings when one
// is lost.
func TestPrometheus(t *testing.T) {
	ctx := t.Context()
	registry := client.NewRegistry()
	observer, err := rlockprom.NewObserver(registry, func(key string) string {
		class, _, _ := strings.Cut(key, ":")
		return class
	})
	require.NoError(t, err)
	server := env.Start(t)
	locker := env.OpenOn(t, server, rlock.WithObserver(observer), rlock.WithTTL(time.Minute))
	require.NoError(t, registry.Register(rlockprom.NewCollector(locker)))
	target := httptest.NewServer(
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	defer target.Close()
	p := startPrometheus(t, alerts(t), strings.TrimPrefix(target.URL, "http://"))
	p.shows(`rlock_held`, 0)

	lock, err := locker.Acquire(ctx, "order:17")
	require.NoError(t, err)
	next := env.NextInLine(t, locker, "order:17")
	p.shows(`rlock_held`, 1)
	p.shows(`rlock_waiting`, 1)
	p.shows(`sum(rlock_ended_total)`, 0)
	time.Sleep(50 * time.Millisecond)
	require.NoError(t, lock.Release(ctx))
	lock = env.Receive(t, next)
	require.NotNil(t, lock)
	p.shows(`rlock_waiting`, 0)
	p.shows(`rlock_acquired_total{job="shop"}`, 2)
	p.shows(`rlock_ended_total{how="released"}`, 1)
	p.shows(`rlock_wait_duration_seconds_count`, 1)
	p.shows(`rlock_class_events_total{class="order",event="contended"}`, 1)
	p.shows(`rlock_class_hold_duration_seconds_count{class="order"}`, 1)
	p.soon(func() bool {
		longest, known := p.value(`histogram_quantile(1, rlock_wait_duration_seconds_bucket)`)
		return known && longest >= 0.05
	}, "the wait is in a bucket that is long enough")
	require.Empty(t, p.firing())

	server.Do(t, "DEL", "order:17")
	require.ErrorIs(t, lock.Release(ctx), rlock.ErrLost)
	p.shows(`rlock_ended_total{how="lost"}`, 1)
	p.shows(`rlock_held`, 0)
	p.soon(func() bool { return len(p.firing()) > 0 }, "it rings")
	require.Equal(t, []string{"RlockLost"}, p.firing())

	var series []map[string]string
	p.get(`/api/v1/series?match[]={__name__=~"rlock.*"}`, &series)
	require.NotEmpty(t, series)
	for _, labels := range series {
		for _, value := range labels {
			require.NotContains(t, value, "17", "a key is no label")
		}
	}
}

// When the server is killed, it rings for that and for nothing else; when it refuses, for that; and when one
// key is stuck, for that. The windows of the rules are cut, so that nobody has to wait for minutes.
func TestPrometheusInAnOutage(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	text, err := os.ReadFile(alerts(t))
	require.NoError(t, err)
	short := strings.NewReplacer("[1m]", "[6s]", "for: 1m", "for: 2s", "> 60", "> 3", "[10m]",
		"[1m]").Replace(string(text))
	rules := filepath.Join(t.TempDir(), "alerts.yml")
	require.NoError(t, os.WriteFile(rules, []byte(short), 0o600))
	registry := client.NewRegistry()
	server := env.Start(t)
	locker := env.OpenOn(t, server, rlock.WithTTL(time.Minute))
	require.NoError(t, registry.Register(rlockprom.NewCollector(locker)))
	target := httptest.NewServer(
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	defer target.Close()
	p := startPrometheus(t, rules, strings.TrimPrefix(target.URL, "http://"))
	p.shows(`rlock_held`, 0)
	rings := func(name string) {
		t.Helper()
		p.soon(func() bool { return slices.Contains(p.firing(), name) }, name+" rings")
		require.Equal(t, []string{name}, p.firing())
	}
	quiet := func() {
		t.Helper()
		p.soon(func() bool { return len(p.firing()) == 0 }, "it stops ringing")
	}

	// Callers with a second each find nobody, and neither does one that waits without an end.
	server.Kill()
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for i := range 10 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				brief, cancel := context.WithTimeout(ctx, time.Second)
				if lock, err := locker.Acquire(brief, fmt.Sprint("job", i)); err == nil {
					_ = lock.Release(ctx)
				}
				cancel()
			}
		})
	}
	rings("RlockNoAnswer")
	close(stop)
	callers.Wait()
	server.Restart(t)
	quiet()

	// A server without memory refuses.
	env.MustLock(t)(locker.Acquire(ctx, "before"))
	server.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	server.Do(t, "CONFIG", "SET", "maxmemory", "1")
	refused := time.NewTicker(200 * time.Millisecond)
	defer refused.Stop()
	p.soon(func() bool {
		<-refused.C
		_, err := locker.TryAcquire(ctx, "another")
		require.ErrorContains(t, err, "OOM")
		return slices.Contains(p.firing(), "RlockRefused")
	}, "RlockRefused rings")
	require.Equal(t, []string{"RlockRefused"}, p.firing())
	server.Do(t, "CONFIG", "SET", "maxmemory", "0")
	quiet()

	// One waits, while others get their locks.
	next := env.NextInLine(t, locker, "before")
	p.soon(func() bool {
		lock, err := locker.Acquire(ctx, "busy")
		require.NoError(t, err)
		require.NoError(t, lock.Release(ctx))
		return slices.Contains(p.firing(), "RlockStuck")
	}, "RlockStuck rings")
	require.Equal(t, []string{"RlockStuck"}, p.firing())
	for _, lock := range locker.Locks() {
		require.NoError(t, lock.Release(ctx))
	}
	require.NoError(t, (<-next).Release(ctx))
	quiet()
}

// The rules are what promtool accepts, and ring when they must.
func TestPrometheusRules(t *testing.T) {
	t.Parallel()
	promtool := unpacked(t, "promtool")
	cases, err := os.ReadFile("testdata/alerts_test.yml")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "alerts_test.yml")
	require.NoError(t, os.WriteFile(path,
		bytes.ReplaceAll(cases, []byte(`rule_files: ["{{alerts}}"]`), []byte("rule_files: ['"+alerts(t)+"']")),
		0o600))
	for _, args := range [][]string{{"check", "rules", alerts(t)}, {"test", "rules", path}} {
		output, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput()
		require.NoError(t, err, "promtool %q: %s", args, output)
	}
}

// Each rule has a case in which it rings.
func TestEachRuleHasItsCase(t *testing.T) {
	t.Parallel()
	rules, err := os.ReadFile(alerts(t))
	require.NoError(t, err)
	cases, err := os.ReadFile("testdata/alerts_test.yml")
	require.NoError(t, err)
	found := 0
	for line := range strings.Lines(string(rules)) {
		if _, name, is := strings.Cut(strings.TrimSpace(line), "- alert: "); is {
			found++
			require.Contains(t, string(cases), "alertname: "+name+"\n        exp_alerts:", name)
		}
	}
	require.Equal(t, 8, found)
}

// What Prometheus's own linter says of the names and texts of metrics is nothing.
func TestPrometheusLint(t *testing.T) {
	t.Parallel()
	registry := client.NewRegistry()
	require.NoError(t, registry.Register(rlockprom.NewCollector((*rlock.Locker)(nil))))
	observer, err := rlockprom.NewObserver(registry, strings.ToUpper)
	require.NoError(t, err)
	observer.Observe(t.Context(), rlock.Event{Kind: rlock.EventReleased, Key: "job"})
	page := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(page,
		httptest.NewRequest("GET", "/metrics", nil))
	command := exec.CommandContext(t.Context(), unpacked(t, "promtool"), "check", "metrics")
	command.Stdin = page.Body
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Empty(t, string(output))
}
