package rlockprom_test

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockprom"
)

// fixed is a Source that a test makes up.
type fixed struct{ stats rlock.Stats }

func (f fixed) Stats() rlock.Stats { return f.stats }

// Every count of Stats, also one that comes later, is in some series, and none is in two.
func TestEachCountHasItsSeries(t *testing.T) {
	t.Parallel()
	names := map[string]string{
		"Acquired": "rlock_acquired_total", "Attempts": "rlock_attempts_total",
		"Contended": "rlock_contended_total", "HandedOver": "rlock_handed_over_total",
		"Attached": "rlock_attached_total",
		"Waiting":  "rlock_waiting", "Unanswered": "rlock_unanswered", "Held": "rlock_held",
		"Extended": "rlock_extended_total",
		"Released": `rlock_ended_total{how="released"}`, "ReleaseFailed": `rlock_ended_total{how="release_failed"}`,
		"Lost": `rlock_ended_total{how="lost"}`, "Expired": `rlock_ended_total{how="expired"}`,
		"Detached": `rlock_ended_total{how="detached"}`, "Closed": `rlock_ended_total{how="closed"}`,
		"CacheHits": `rlock_checks_total{cache="hit"}`,
	}
	elsewhere := map[string]bool{
		"Waited": true, "OldestWait": true, "Polling": true, "Waits": true, "Holds": true, "Checks": true,
		"AcquireFailed": true, "ExtendFailed": true,
	}
	reasons := map[string]string{
		"AcquireFailedBy": "rlock_acquire_failed_total", "ExtendFailedBy": "rlock_extend_failed_total",
		"ReleaseFailedBy": "rlock_release_failed_total",
	}
	var f fixed
	fields := reflect.ValueOf(&f.stats).Elem()
	for i := range fields.NumField() {
		switch field := fields.Field(i); field.Kind() {
		case reflect.Uint64:
			field.SetUint(uint64(100 + i))
		case reflect.Int, reflect.Int64:
			field.SetInt(int64(100 + i))
		case reflect.Bool:
			field.SetBool(true)
		case reflect.Array:
			for r := range field.Len() {
				field.Index(r).SetUint(uint64(1000*i + r))
			}
		}
	}
	f.stats.Checks, f.stats.OldestWait = 1000, 90*time.Second
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(rlockprom.NewCollector(f)))
	series := scrape(t, registry)
	for i := range fields.NumField() {
		field := fields.Type().Field(i).Name
		if elsewhere[field] {
			continue
		}
		if name := reasons[field]; name != "" {
			for r := 1; r < fields.Field(i).Len(); r++ {
				require.Equal(t, strconv.Itoa(1000*i+r), series[name+`{reason="`+rlock.FailureReason(r).String()+`"}`],
					field)
			}
			continue
		}
		require.Contains(t, names, field, "a field of Stats without a metric")
		require.Equal(t, strconv.Itoa(100+i), series[names[field]], field)
	}
	require.Equal(t, "90", series["rlock_oldest_wait_seconds"])
	require.Equal(t, "1", series["rlock_polling"])
	require.Equal(t, strconv.Itoa(1000-int(f.stats.CacheHits)), series[`rlock_checks_total{cache="miss"}`])
}

func TestHistograms(t *testing.T) {
	t.Parallel()
	var f fixed
	f.stats.Waits = rlock.Histogram{Sum: 12345.5}
	for i := range f.stats.Waits.Counts {
		f.stats.Waits.Counts[i] = 2
	}
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(rlockprom.NewCollector(f)))
	series := scrape(t, registry)
	require.Equal(t, "2", series[`rlock_wait_duration_seconds_bucket{le="6.103515625e-05"}`])
	require.Equal(t, "30", series[`rlock_wait_duration_seconds_bucket{le="1"}`])
	require.Equal(t, "56", series[`rlock_wait_duration_seconds_bucket{le="8192"}`])
	require.Equal(t, "58", series[`rlock_wait_duration_seconds_bucket{le="+Inf"}`])
	require.Equal(t, "58", series["rlock_wait_duration_seconds_count"])
	require.Equal(t, "12345.5", series["rlock_wait_duration_seconds_sum"])
	require.Equal(t, "0", series["rlock_hold_duration_seconds_count"])
}

// What happens to locks is what is scraped.
func TestLocker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		locker := inMemory(t)
		registry := prometheus.NewPedanticRegistry()
		require.NoError(t, registry.Register(rlockprom.NewCollector(locker)))
		require.Equal(t, "0", scrape(t, registry)["rlock_acquired_total"])

		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() {
			next, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Minute))
			if err == nil {
				time.Sleep(time.Second)
				err = next.Release(t.Context())
			}
			done <- err
		}()
		synctest.Wait()
		series := scrape(t, registry)
		require.Equal(t, "1", series["rlock_held"])
		require.Equal(t, "1", series["rlock_waiting"])
		time.Sleep(10 * time.Second)
		require.NoError(t, lock.Release(t.Context()))
		require.NoError(t, <-done)
		series = scrape(t, registry)
		require.Equal(t, "0", series["rlock_held"])
		require.Equal(t, "0", series["rlock_waiting"])
		require.Equal(t, "2", series["rlock_acquired_total"])
		require.Equal(t, "2", series[`rlock_ended_total{how="released"}`])
		require.Equal(t, "0", series[`rlock_wait_duration_seconds_bucket{le="8"}`])
		require.Equal(t, "1", series[`rlock_wait_duration_seconds_bucket{le="16"}`])
		require.Equal(t, "1", series[`rlock_hold_duration_seconds_bucket{le="1"}`])
		require.Equal(t, "2", series["rlock_hold_duration_seconds_count"])
		locker.Close()
		require.Equal(t, "2", scrape(t, registry)["rlock_acquired_total"], "it goes on after Close")
		for name := range series {
			require.NotContains(t, name, "job")
		}
	})
}

// Two Lockers need labels, with which a Registerer is wrapped.
func TestTwoLockers(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(rlockprom.NewCollector(fixed{})))
	require.ErrorAs(t, registry.Register(rlockprom.NewCollector(fixed{})),
		new(prometheus.AlreadyRegisteredError))

	registry = prometheus.NewPedanticRegistry()
	for name, held := range map[string]int{"jobs": 3, "carts": 5} {
		labelled := prometheus.WrapRegistererWith(prometheus.Labels{"locker": name}, registry)
		require.NoError(t, labelled.Register(rlockprom.NewCollector(fixed{rlock.Stats{Held: held}})))
	}
	series := scrape(t, registry)
	require.Equal(t, "3", series[`rlock_held{locker="jobs"}`])
	require.Equal(t, "5", series[`rlock_held{locker="carts"}`])
}

// Nothing reaches a registry that was not passed.
func TestNoGlobal(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(rlockprom.NewCollector(fixed{})))
	_, err := rlockprom.NewObserver(registry, strings.ToUpper)
	require.NoError(t, err)
	families, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, f := range families {
		require.NotContains(t, f.GetName(), "rlock")
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	_, err := rlockprom.NewObserver(nil, strings.ToUpper)
	require.ErrorContains(t, err, "rlockprom: the Registerer is nil")

	full := &most{Registerer: prometheus.NewRegistry(), left: 2}
	_, err = rlockprom.NewObserver(full, strings.ToUpper)
	require.ErrorIs(t, err, errFull)
	require.Equal(t, 2, full.left, "it has left nothing behind")

	registry := prometheus.NewRegistry()
	_, err = rlockprom.NewObserver(registry, strings.ToUpper)
	require.NoError(t, err)
	_, err = rlockprom.NewObserver(registry, strings.ToUpper)
	require.ErrorAs(t, err, new(prometheus.AlreadyRegisteredError))
}

var errFull = errors.New("full")

// most is a Registerer that takes so many and no more.
type most struct {
	prometheus.Registerer
	left int
}

func (m *most) Register(c prometheus.Collector) error {
	if m.left == 0 {
		return errFull
	}
	m.left--
	return m.Registerer.Register(c)
}

func (m *most) Unregister(c prometheus.Collector) bool {
	m.left++
	return m.Registerer.Unregister(c)
}
