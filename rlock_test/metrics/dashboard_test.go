package metrics

import (
	"context"
	"encoding/json"
	"math"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockprom"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// board is what the tests read of dashboard.json.
type board struct {
	Panels []struct {
		Type, Title, Description string
		Targets                  []struct{ Expr, LegendFormat string }
	}
	Templating struct {
		List []struct{ Name, Type, Query string }
	}
}

func readBoard(t *testing.T) (b board) {
	t.Helper()
	text, err := os.ReadFile("../../rlock/rlockprom/dashboard.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &b))
	require.NotEmpty(t, b.Panels)
	return b
}

// variables has a query look at everything, over as many seconds as the tests have.
var variables = strings.NewReplacer("$job", ".*", "$instance", ".*", "$__rate_interval", "10s")

// The metrics that the dashboard asks for are all that there are, and no others.
func TestDashboardShowsEachMetric(t *testing.T) {
	t.Parallel()
	registry := client.NewRegistry()
	require.NoError(t, registry.Register(rlockprom.NewCollector((*rlock.Locker)(nil))))
	observer, err := rlockprom.NewObserver(registry, strings.ToUpper)
	require.NoError(t, err)
	observer.Observe(t.Context(), rlock.Event{Kind: rlock.EventAcquired, Key: "job", Contended: true})
	observer.Observe(t.Context(), rlock.Event{Kind: rlock.EventReleased, Key: "job"})
	families, err := registry.Gather()
	require.NoError(t, err)
	exported := map[string]bool{}
	for _, f := range families {
		exported[f.GetName()] = false
	}
	for _, panel := range readBoard(t).Panels {
		for _, target := range panel.Targets {
			for _, name := range regexp.MustCompile(`\brlock_\w+`).FindAllString(target.Expr, -1) {
				name = strings.TrimSuffix(name, "_bucket")
				require.Contains(t, exported, name, panel.Title)
				exported[name] = true
			}
		}
	}
	for name, shown := range exported {
		require.True(t, shown, "no panel shows %s", name)
	}
}

// Prometheus answers each query of the dashboard with what real locks do: with a number, and with the labels
// that are shown.
func TestDashboardOnPrometheus(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	registry := client.NewRegistry()
	observer, err := rlockprom.NewObserver(registry, func(key string) string {
		class, _, _ := strings.Cut(key, ":")
		return class
	})
	require.NoError(t, err)
	locker := env.OpenOn(t, env.Start(t), rlock.WithObserver(observer), rlock.WithTTL(time.Minute))
	require.NoError(t, registry.Register(rlockprom.NewCollector(locker)))
	target := httptest.NewServer(
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	defer target.Close()
	p := startPrometheus(t, alerts(t), strings.TrimPrefix(target.URL, "http://"))

	// Something of each kind happens, until each query has seen it.
	stuck := env.MustLock(t)(locker.Acquire(ctx, "stuck:1"))
	next := env.NextInLine(t, locker, "stuck:1")
	cycle := func() {
		lock := env.MustLock(t)(locker.Acquire(ctx, "order:17"))
		brief, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		_, err := locker.Acquire(brief, "order:17")
		require.ErrorIs(t, err, rlock.ErrGaveUp)
		require.NoError(t, lock.Extend(ctx, time.Minute))
		_, err = locker.Check(ctx, "order:17")
		require.NoError(t, err)
		require.NoError(t, lock.Release(ctx))
	}
	b := readBoard(t)
	for _, panel := range b.Panels {
		for _, target := range panel.Targets {
			p.soon(func() bool {
				cycle()
				return p.shown(variables.Replace(target.Expr), target.LegendFormat)
			}, panel.Title+" shows "+target.Expr)
		}
	}
	for _, v := range b.Templating.List {
		if v.Type != "query" {
			continue
		}
		parts := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(v.Query)
		require.NotNil(t, parts, v.Query)
		var values []string
		p.get("/api/v1/label/"+parts[2]+"/values?match[]="+url.QueryEscape(variables.Replace(parts[1])), &values)
		require.NotEmpty(t, values, v.Name)
	}
	require.NoError(t, stuck.Release(ctx))
	require.NoError(t, env.Receive(t, next).Release(ctx))
}

// shown reports whether a query has numbers, each with what its legend says.
func (p *prometheus) shown(query, legend string) bool {
	p.t.Helper()
	var data struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	p.get("/api/v1/query?query="+url.QueryEscape(query), &data)
	numbers := 0
	for _, r := range data.Result {
		for _, label := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(legend, -1) {
			require.NotEmpty(p.t, r.Metric[label[1]], "%s has no label %s", query, label[1])
		}
		value, err := strconv.ParseFloat(r.Value[1].(string), 64)
		require.NoError(p.t, err)
		if !math.IsNaN(value) {
			numbers++
		}
	}
	return numbers > 0
}

// Each panel and each alert leads to a section of the runbook.
func TestDashboardLeadsToTheRunbook(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/RUNBOOK.md")
	require.NoError(t, err)
	sections := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(string(page), -1) {
		sections[strings.ReplaceAll(strings.ToLower(heading[1]), " ", "-")] = true
	}
	link := regexp.MustCompile(`https://github\.com/rlock-go/toolkit/blob/main/docs/RUNBOOK\.md#([\w-]+)`)
	for _, panel := range readBoard(t).Panels {
		if panel.Type == "row" {
			continue
		}
		to := link.FindStringSubmatch(panel.Description)
		require.NotNil(t, to, panel.Title)
		require.Contains(t, sections, to[1], panel.Title)
	}
	rules, err := os.ReadFile(alerts(t))
	require.NoError(t, err)
	parts := strings.Split(string(rules), "- alert: ")[1:]
	require.NotEmpty(t, parts)
	for _, rule := range parts {
		name, _, _ := strings.Cut(rule, "\n")
		to := link.FindStringSubmatch(rule)
		require.NotNil(t, to, name)
		require.Equal(t, strings.ToLower(name), to[1])
		require.Contains(t, sections, to[1])
	}
}
