package rlockotel_test

import (
	"reflect"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockotel"
)

// fixed is a Source that a test makes up.
type fixed struct{ stats rlock.Stats }

func (f fixed) Stats() rlock.Stats { return f.stats }

// Every count of Stats, also one that comes later, is in some series, and none is in two.
func TestEachCountHasItsSeries(t *testing.T) {
	t.Parallel()
	names := map[string]string{
		"Acquired": "rlock.acquired", "Attempts": "rlock.attempts", "Contended": "rlock.contended",
		"HandedOver": "rlock.handed_over", "Attached": "rlock.attached",
		"Waiting": "rlock.waiting", "Unanswered": "rlock.unanswered", "Held": "rlock.held",
		"Extended": "rlock.extended",
		"Released": "rlock.ended{how=released}", "ReleaseFailed": "rlock.ended{how=release_failed}",
		"Lost":    "rlock.ended{how=lost}",
		"Expired": "rlock.ended{how=expired}", "Detached": "rlock.ended{how=detached}",
		"Closed":    "rlock.ended{how=closed}",
		"CacheHits": "rlock.checks{cache=hit}",
	}
	reasons := map[string]string{
		"AcquireFailedBy": "rlock.acquire_failed", "ExtendFailedBy": "rlock.extend_failed",
		"ReleaseFailedBy": "rlock.release_failed",
	}
	elsewhere := map[string]bool{
		"Waited": true, "OldestWait": true, "Polling": true, "Waits": true, "Holds": true, "Checks": true,
		"AcquireFailed": true, "ExtendFailed": true, // the sum of their reasons
	}
	f := fixed{rlock.Stats{
		Polling: true, Checks: 1000, OldestWait: 90 * time.Second, Waited: 1500 * time.Millisecond,
		Holds: rlock.Histogram{Sum: 2.5},
	}}
	fields := reflect.ValueOf(&f.stats).Elem()
	for i := range fields.NumField() {
		if elsewhere[fields.Type().Field(i).Name] {
			continue
		}
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
	provider, read := meters(t)
	_, err := rlockotel.Register(provider, f)
	require.NoError(t, err)
	series := read()
	for i := range fields.NumField() {
		field := fields.Type().Field(i).Name
		if elsewhere[field] {
			continue
		}
		if counter := reasons[field]; counter != "" {
			for r := 1; r < fields.Field(i).Len(); r++ {
				name := counter + "{error.type=" + rlock.FailureReason(r).String() + "}"
				require.Equal(t, strconv.Itoa(1000*i+r), series[name], field)
			}
			continue
		}
		require.Contains(t, names, field, "a field of Stats without an instrument")
		require.Equal(t, strconv.Itoa(100+i), series[names[field]], field)
	}
	require.Equal(t, "1", series["rlock.polling"])
	require.Equal(t, strconv.Itoa(1000-int(f.stats.CacheHits)), series["rlock.checks{cache=miss}"])
	require.Equal(t, "90", series["rlock.oldest_wait"])
	require.Equal(t, "1.5", series["rlock.wait.time"])
	require.Equal(t, "2.5", series["rlock.hold.time"])
}

// What happens to locks is what is read, until the registration ends.
func TestLocker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		locker := inMemory(t)
		provider, read := meters(t)
		registration, err := rlockotel.Register(provider, locker)
		require.NoError(t, err)
		require.Equal(t, "0", read()["rlock.held"])
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		require.Equal(t, "1", read()["rlock.held"])
		time.Sleep(3 * time.Second)
		require.NoError(t, lock.Release(t.Context()))
		series := read()
		require.Equal(t, "0", series["rlock.held"])
		require.Equal(t, "3", series["rlock.hold.time"])
		require.Equal(t, "1", series["rlock.acquired"])
		for name := range series {
			require.NotContains(t, name, "job")
		}
		require.NoError(t, registration.Unregister())
		require.Empty(t, read())
	})
}

// Attributes tell several Lockers apart.
func TestTwoLockers(t *testing.T) {
	t.Parallel()
	provider, read := meters(t)
	for name, held := range map[string]int{"jobs": 3, "carts": 5} {
		_, err := rlockotel.Register(provider, fixed{rlock.Stats{Held: held, Lost: 1}},
			attribute.String("locker", name))
		require.NoError(t, err)
	}
	series := read()
	require.Equal(t, "3", series["rlock.held{locker=jobs}"])
	require.Equal(t, "5", series["rlock.held{locker=carts}"])
	require.Equal(t, "1", series["rlock.ended{how=lost,locker=carts}"])
}

// Nothing reaches the global providers unless they are passed.
func TestNoGlobal(t *testing.T) {
	global, read := meters(t)
	former := otel.GetMeterProvider()
	otel.SetMeterProvider(global)
	defer otel.SetMeterProvider(former)
	provider, own := meters(t)
	_, err := rlockotel.Register(provider, fixed{})
	require.NoError(t, err)
	require.NotEmpty(t, own())
	require.Empty(t, read())
	_, err = rlockotel.Register(nil, fixed{})
	require.ErrorContains(t, err, "rlockotel: the MeterProvider is nil")
}
