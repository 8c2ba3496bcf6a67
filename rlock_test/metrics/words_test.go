package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockotel"
	"github.com/rlock-go/toolkit/rlock/rlockprom"
)

// fixed is a source that a test makes up.
type fixed struct{ stats rlock.Stats }

func (f fixed) Stats() rlock.Stats { return f.stats }

// numbered returns counts of which each is another number.
func numbered() fixed {
	var f fixed
	n := uint64(0)
	next := func(v reflect.Value) {
		switch n++; v.Kind() {
		case reflect.Uint64:
			v.SetUint(n)
		case reflect.Int, reflect.Int64:
			v.SetInt(int64(n))
		case reflect.Bool:
			v.SetBool(true)
		}
	}
	fields := reflect.ValueOf(&f.stats).Elem()
	for i := range fields.NumField() {
		next(fields.Field(i))
		if fields.Field(i).Kind() == reflect.Array {
			for r := range fields.Field(i).Len() {
				next(fields.Field(i).Index(r))
			}
		}
	}
	f.stats.Checks = f.stats.CacheHits + 7
	return f
}

// kinds are all kinds of events.
func kinds() (all []rlock.EventKind) {
	for kind := rlock.EventKind(1); !strings.HasPrefix(kind.String(), "EventKind("); kind++ {
		all = append(all, kind)
	}
	return all
}

// happened are events of each kind; those that have a reason fail for each.
func happened() (all []rlock.Event) {
	for _, kind := range kinds() {
		e := rlock.Event{Kind: kind, Key: "order:17", Contended: true, Waited: 2 * time.Second,
			Held: 3 * time.Second}
		all = append(all, e)
		if e.Reason() == 0 {
			continue
		}
		for _, err := range []error{rlock.ErrNoAnswer, rlock.ErrHeld, rlock.ErrGaveUp, rlock.ErrClosed,
			rlock.ErrExpired, errors.New("NOPERM")} {
			e.Err = err
			all = append(all, e)
		}
	}
	return all
}

func class(key string) string {
	class, _, _ := strings.Cut(key, ":")
	return class
}

// gathered has the series of a registry, as text with their type and help, and their values.
func gathered(t *testing.T, registry *client.Registry, label func(string) string) map[string]string {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	series := map[string]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				if name := label(l.GetName()); name != "" && l.GetValue() != "" {
					labels = append(labels, name+"="+l.GetValue())
				}
			}
			slices.Sort(labels)
			name := fmt.Sprintf("%s{%s}", f.GetName(), strings.Join(labels, ","))
			series[name] = fmt.Sprint(f.GetType(), " ", strings.ReplaceAll(f.GetHelp(), "rlock.", "rlock_"), " ",
				number(m))
		}
	}
	return series
}

func number(m *dto.Metric) string {
	switch {
	case m.Counter != nil:
		return fmt.Sprint(m.Counter.GetValue())
	case m.Gauge != nil:
		return fmt.Sprint(m.Gauge.GetValue())
	}
	h, buckets := m.GetHistogram(), ""
	for _, b := range h.GetBucket() {
		if b.GetUpperBound() <= 1e9 { // Prometheus adds the last one, which some write down
			buckets += fmt.Sprintf(" %v:%d", b.GetUpperBound(), b.GetCumulativeCount())
		}
	}
	return fmt.Sprint(h.GetSampleCount(), " in ", h.GetSampleSum(), buckets)
}

// What OpenTelemetry makes of rlockotel's metrics for Prometheus are rlockprom's: the same names, types,
// texts, labels and values, but for the histograms of a Locker, which a meter cannot read.
func TestBothModulesAreAlike(t *testing.T) {
	t.Parallel()
	source := numbered()
	own, others := client.NewPedanticRegistry(), client.NewRegistry()
	require.NoError(t, own.Register(rlockprom.NewCollector(source)))
	observer, err := rlockprom.NewObserver(own, class)
	require.NoError(t, err)
	reader, err := exporter.New(exporter.WithRegisterer(others), exporter.WithoutScopeInfo(),
		exporter.WithoutTargetInfo())
	require.NoError(t, err)
	meters := metric.NewMeterProvider(metric.WithReader(reader))
	_, err = rlockotel.Register(meters, source)
	require.NoError(t, err)
	another, err := rlockotel.NewObserver(meters, class)
	require.NoError(t, err)
	for _, e := range happened() {
		rlock.Observers(observer, another).Observe(t.Context(), e)
	}

	prom := gathered(t, own, func(label string) string { return label })
	otel := gathered(t, others, func(label string) string {
		if label == "error_type" {
			return "reason"
		}
		return strings.TrimPrefix(label, "rlock_")
	})
	for _, instead := range []string{"rlock_wait_time_seconds_total{}", "rlock_hold_time_seconds_total{}"} {
		require.Contains(t, otel, instead)
		delete(otel, instead)
	}
	for _, histogram := range []string{"rlock_wait_duration_seconds{}", "rlock_hold_duration_seconds{}"} {
		require.Contains(t, prom, histogram)
		delete(prom, histogram)
	}
	require.Equal(t, prom, otel)
}

// snake makes a word of a name in Go: ReleaseFailed is release_failed.
func snake(name string) string {
	return strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(name, "${1}_$2"))
}

// The log, the counts, events and metrics have one word for one thing: that of Stats and EventKind.
func TestOneWordForOneThing(t *testing.T) {
	t.Parallel()
	registry := client.NewPedanticRegistry()
	require.NoError(t, registry.Register(rlockprom.NewCollector(numbered())))
	observer, err := rlockprom.NewObserver(registry, class)
	require.NoError(t, err)
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for _, e := range happened() {
		log.Reset()
		// a new one, which counts nothing
		rlock.Observers(observer, rlock.SlogObserver(logger)).Observe(t.Context(), e)
		word := e.Kind.String()
		require.Regexp(t, `^[a-z]+(_[a-z]+)*$`, word)
		require.Regexp(t, `msg="?rlock: `+word+`\b`, log.String())
		if reason := e.Reason(); reason != 0 {
			require.Regexp(t, `^[a-z]+(_[a-z]+)*$`, reason.String())
			require.Contains(t, log.String(), " reason="+reason.String())
		}
	}
	series := gathered(t, registry, func(label string) string { return label })
	has := func(name string) bool { _, has := series[name]; return has }

	counts := map[string]bool{}
	stats := reflect.TypeFor[rlock.Stats]()
	for i := range stats.NumField() {
		word := snake(strings.TrimSuffix(stats.Field(i).Name, "By"))
		counts[word] = true
		switch word {
		case "waited": // the sum of the waits
		case "waits", "holds":
			require.True(t, has("rlock_"+strings.TrimSuffix(word, "s")+"_duration_seconds{}"), word)
		case "cache_hits", "checks": // those that the cache answered, and with them the others
			require.True(t, has("rlock_checks_total{cache=hit}"))
			require.True(t, has("rlock_checks_total{cache=miss}"))
		default:
			found := has("rlock_ended_total{how=" + word + "}")
			for _, form := range []string{"{}", "_total{}", "_seconds{}",
				"_total{reason=" + rlock.ReasonNoAnswer.String() + "}"} {
				found = found || has("rlock_"+word+form)
			}
			require.True(t, found, "no metric has the word %s", word)
		}
	}
	for _, kind := range kinds() {
		word := kind.String()
		// which is told once
		require.True(t, counts[word] || kind == rlock.EventShortLease, "Stats has no %s", word)
		require.Condition(t, func() bool {
			for name := range series {
				if strings.HasPrefix(name, "rlock_class_events_total{class=order,event="+word) {
					return true
				}
			}
			return false
		}, word)
	}
	for name := range series {
		if _, reason, is := strings.Cut(name, "reason="); is && !strings.HasPrefix(name, "rlock_class") {
			known := false
			for r := range len(rlock.Failures{}) {
				known = known || rlock.FailureReason(r).String()+"}" == reason
			}
			require.True(t, known, name)
		}
		if _, how, is := strings.Cut(name, "how="); is {
			require.True(t, slices.ContainsFunc(kinds(),
				func(k rlock.EventKind) bool { return k.String()+"}" == how }), name)
		}
	}
}
