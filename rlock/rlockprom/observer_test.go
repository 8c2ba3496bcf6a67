package rlockprom_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockprom"
)

// sort is what is before the first colon of a key.
func sort(key string) string {
	class, _, _ := strings.Cut(key, ":")
	return class
}

func TestClasses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		observer, err := rlockprom.NewObserver(registry, sort)
		require.NoError(t, err)
		locker := inMemory(t, rlock.WithObserver(observer), rlock.WithTTL(time.Minute))
		ctx := t.Context()
		order, err := locker.Acquire(ctx, "order:17")
		require.NoError(t, err)
		_, err = locker.TryAcquire(ctx, "order:17")
		require.ErrorIs(t, err, rlock.ErrHeld)
		_, err = locker.Acquire(ctx, "order:17", rlock.WithRetry(rlock.Fixed(time.Second).MaxTime(3*time.Second)))
		require.ErrorIs(t, err, rlock.ErrGaveUp)
		require.NoError(t, order.Extend(ctx, time.Minute))
		require.NoError(t, order.Release(ctx))
		_, err = locker.Acquire(ctx, "cart:1", rlock.WithTTL(10*time.Second))
		require.NoError(t, err)
		time.Sleep(time.Minute)

		series := scrape(t, registry)
		for name, want := range map[string]string{
			`rlock_class_events_total{class="order",event="acquired",reason=""}`:              "1",
			`rlock_class_events_total{class="order",event="acquire_failed",reason="held"}`:    "1",
			`rlock_class_events_total{class="order",event="acquire_failed",reason="gave_up"}`: "1",
			`rlock_class_events_total{class="order",event="contended",reason=""}`:             "2",
			`rlock_class_events_total{class="order",event="extended",reason=""}`:              "1",
			`rlock_class_events_total{class="order",event="released",reason=""}`:              "1",
			`rlock_class_events_total{class="cart",event="expired",reason=""}`:                "1",
			`rlock_class_wait_duration_seconds_count{class="order"}`:                          "1",
			`rlock_class_wait_duration_seconds_bucket{class="order",le="1"}`:                  "0",
			`rlock_class_wait_duration_seconds_bucket{class="order",le="4"}`:                  "1",
			`rlock_class_hold_duration_seconds_count{class="order"}`:                          "1",
			`rlock_class_hold_duration_seconds_bucket{class="cart",le="4"}`:                   "0",
			`rlock_class_hold_duration_seconds_bucket{class="cart",le="16"}`:                  "1",
		} {
			require.Equal(t, want, series[name], name)
		}
		for name := range series {
			require.NotContains(t, name, "17")
		}
	})
}

// Without a function, all keys count together.
func TestNoClasses(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	observer, err := rlockprom.NewObserver(registry, nil)
	require.NoError(t, err)
	for _, key := range []string{"order:17", "cart:1"} {
		observer.Observe(t.Context(), rlock.Event{Kind: rlock.EventReleased, Key: key, Held: time.Second})
	}
	series := scrape(t, registry)
	require.Equal(t, "2", series[`rlock_class_events_total{class="",event="released",reason=""}`])
	require.Equal(t, "2", series[`rlock_class_hold_duration_seconds_count{class=""}`])
}

// A function that answers with the key does not fill the memory of Prometheus, and one that
// answers with what is no text fails no lock.
func TestTooManyClasses(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	observer, err := rlockprom.NewObserver(registry, func(key string) string { return key })
	require.NoError(t, err)
	ctx := t.Context()
	observer.Observe(ctx, rlock.Event{Kind: rlock.EventAcquired, Key: "bad\xff"})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 1000 {
				observer.Observe(ctx, rlock.Event{Kind: rlock.EventReleased, Key: fmt.Sprint("key", i),
					Held: time.Second})
			}
		})
	}
	group.Wait()
	series := scrape(t, registry)
	require.Equal(t, "1", series["rlock_class_events_total{class=\"bad\uFFFD\",event=\"acquired\",reason=\"\"}"])
	classes, others, rest := 0, "", 0
	for name, value := range series {
		if !strings.HasPrefix(name, "rlock_class_events_total") || strings.Contains(name, "bad") {
			continue
		}
		if strings.Contains(name, `"other"`) {
			others = value
			continue
		}
		classes++
		require.Equal(t, "4", value)
		rest += 4
	}
	require.Equal(t, 99, classes, "with the one that is no text there are 100")
	require.Equal(t, fmt.Sprint(4000-rest), others)
}

func BenchmarkObserve(b *testing.B) {
	observer, err := rlockprom.NewObserver(prometheus.NewRegistry(), sort)
	require.NoError(b, err)
	for b.Loop() {
		observer.Observe(b.Context(),
			rlock.Event{Kind: rlock.EventAcquired, Key: "order:17", Contended: true, Waited: time.Millisecond})
		observer.Observe(b.Context(),
			rlock.Event{Kind: rlock.EventReleased, Key: "order:17", Held: time.Millisecond})
	}
}

func BenchmarkCollect(b *testing.B) {
	registry := prometheus.NewRegistry()
	require.NoError(b, registry.Register(rlockprom.NewCollector(fixed{})))
	for b.Loop() {
		_, _ = registry.Gather()
	}
}
