package corpus_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock_test/corpus/bindings"
)

// The third of two allowed requests waits for the end of the window.
func fixedWindow(t *testing.T, e target) {
	p := bindings.FixedWindowParams{Window: e.key("window"), Limit: 2, Length: time.Hour}
	for i, want := range []bindings.FixedWindowResult{
		{Allowed: true, Remaining: 1},
		{Allowed: true, Remaining: 0},
		{Allowed: false, Remaining: 0},
	} {
		r := ask(t, e, e.FixedWindow, p)
		require.Equal(t, want.Allowed, r.Allowed, i)
		require.Equal(t, want.Remaining, r.Remaining, i)
		require.InDelta(t, time.Hour, r.Reset, float64(time.Minute))
	}

	p.Length = 0
	_, err := e.FixedWindow(t.Context(), e.client, p)
	var wrong *redislua.ParamError
	require.ErrorAs(t, err, &wrong)
	require.Equal(t, "length", wrong.Param)
}

// A request that leaves the window makes room for one.
func slidingLog(t *testing.T, e target) {
	p := bindings.SlidingLogParams{Log: e.key("log"), Limit: 2, Length: time.Hour, ID: "a"}
	require.Equal(t, bindings.SlidingLogResult{Allowed: true}, ask(t, e, e.SlidingLog, p))
	p.ID = "b"
	require.True(t, ask(t, e, e.SlidingLog, p).Allowed)
	p.ID = "c"
	r := ask(t, e, e.SlidingLog, p)
	require.False(t, r.Allowed)
	require.True(t, r.Retry.Valid)
	require.InDelta(t, time.Hour, r.Retry.V, float64(time.Minute))

	e.lives(t, p.Log, time.Hour)

	e.set(t, "ZADD", p.Log, "1", "a")
	require.True(t, ask(t, e, e.SlidingLog, p).Allowed)

	never := bindings.SlidingLogParams{Log: e.key("never"), Length: time.Second, ID: "a"}
	require.Equal(t, bindings.SlidingLogResult{Retry: some(time.Second)}, ask(t, e, e.SlidingLog, never))
}

// A quarter into a window, three quarters of the window before still count.
func slidingCounter(t *testing.T, e target) {
	start := time.UnixMilli(1_700_000_000_000).Truncate(time.Hour)
	p := bindings.SlidingCounterParams{Counts: e.key("counts"), Limit: 4, Length: time.Hour}
	for _, step := range []struct {
		at      time.Duration
		allowed bool
		used    float64
	}{
		{0, true, 1},
		{time.Minute, true, 2},
		{2 * time.Minute, true, 3},
		{3 * time.Minute, true, 4},
		{4 * time.Minute, false, 4},
		{time.Hour, false, 4},
		{75 * time.Minute, true, 4},
		{75 * time.Minute, false, 4},
		{74 * time.Minute, false, 4.066666666666666},
		{90 * time.Minute, true, 4},
		{2*time.Hour + 30*time.Minute, true, 2},
		{5 * time.Hour, true, 1},
		{time.Hour, true, 2}, // late, so it counts now
	} {
		p.At = start.Add(step.at)
		r := ask(t, e, e.SlidingCounter, p)
		require.Equal(t, step.allowed, r.Allowed, step.at)
		require.InDelta(t, step.used, r.Used, 1e-9, step.at)
	}
	e.lives(t, p.Counts, 2*time.Hour)
}

// A full bucket pays at once, an empty one tells how long it takes, and what it
// can never hold is an error.
func tokenBucket(t *testing.T, e target) {
	p := bindings.TokenBucketParams{Bucket: e.key("bucket"), Capacity: 3, Rate: 0.001, Cost: 2}
	r := ask(t, e, e.TokenBucket, p)
	require.True(t, r.Granted)
	require.InDelta(t, 1, r.Tokens, 0.01)
	require.False(t, r.Wait.Valid)

	r = ask(t, e, e.TokenBucket, p)
	require.False(t, r.Granted)
	require.InDelta(t, 1, r.Tokens, 0.01)
	require.InDelta(t, 1000*time.Second, r.Wait.V, float64(10*time.Second))

	e.lives(t, p.Bucket, 2001*time.Second) // it is full by then

	p.Cost = 4
	refused(t, e, bindings.ErrTooExpensive, e.TokenBucket, p)
}

// After the time that an empty bucket names, it pays.
func tokenBucketRefills(t *testing.T, e target) {
	p := bindings.TokenBucketParams{Bucket: e.key("bucket"), Capacity: 1, Rate: 20, Cost: 1}
	require.True(t, ask(t, e, e.TokenBucket, p).Granted)
	for {
		r := ask(t, e, e.TokenBucket, p)
		if r.Granted {
			return
		}
		require.LessOrEqual(t, r.Wait.V, 50*time.Millisecond)
		time.Sleep(r.Wait.V)
	}
}

// A burst passes, and the next request waits for the interval.
func leakyBucket(t *testing.T, e target) {
	p := bindings.LeakyBucketParams{Due: e.key("due"), Interval: time.Hour, Burst: 2}
	for range 3 {
		require.Equal(t, bindings.LeakyBucketResult{Allowed: true}, ask(t, e, e.LeakyBucket, p))
	}
	r := ask(t, e, e.LeakyBucket, p)
	require.False(t, r.Allowed)
	require.InDelta(t, time.Hour, r.Wait, float64(time.Minute))
}

// Whoever leaves makes room, once.
func concurrencyLimit(t *testing.T, e target) {
	for i, step := range []struct {
		enter bool
		want  bindings.InFlightResult
	}{
		{true, bindings.InFlightResult{OK: true, Count: 1}},
		{true, bindings.InFlightResult{OK: true, Count: 2}},
		{true, bindings.InFlightResult{OK: false, Count: 2}},
		{false, bindings.InFlightResult{OK: true, Count: 1}},
		{false, bindings.InFlightResult{OK: true, Count: 0}},
		{false, bindings.InFlightResult{OK: false, Count: 0}},
	} {
		p := bindings.InFlightParams{Count: e.key("count"), Enter: step.enter, Limit: 2}
		require.Equal(t, step.want, ask(t, e, e.InFlight, p), i)
	}
	require.Equal(t, int64(-1), e.number(t, "PTTL", e.key("count")))

	ask(t, e, e.InFlight, bindings.InFlightParams{Count: e.key("count"), Enter: true, Limit: 2,
		Forget: time.Hour})
	require.Positive(t, e.number(t, "PTTL", e.key("count")))
}

// Permits are bounded, confirmed, given back, and lost with their lease.
func semaphore(t *testing.T, e target) {
	p := bindings.SemaphoreAcquireParams{Permits: e.key("permits"), Holder: "a", Most: 2, Lease: time.Hour}
	require.Equal(t, bindings.SemaphoreAcquireResult{Acquired: true, Free: 1}, ask(t, e, e.SemaphoreAcquire, p))
	require.Equal(t, bindings.SemaphoreAcquireResult{Acquired: true, Free: 1}, ask(t, e, e.SemaphoreAcquire, p),
		"confirmed")
	p.Holder = "b"
	require.Equal(t, bindings.SemaphoreAcquireResult{Acquired: true}, ask(t, e, e.SemaphoreAcquire, p))
	p.Holder = "c"
	require.Equal(t, bindings.SemaphoreAcquireResult{}, ask(t, e, e.SemaphoreAcquire, p))

	refresh := bindings.SemaphoreRefreshParams{Permits: p.Permits, Holder: "b", Lease: 2 * time.Hour}
	until := ask(t, e, e.SemaphoreRefresh, refresh).Until
	require.WithinDuration(t, time.Now().Add(2*time.Hour), until, time.Minute)
	e.lives(t, p.Permits, 2*time.Hour)
	require.Equal(t, until.UnixMilli(), e.number(t, "ZSCORE", p.Permits, "b"))

	e.set(t, "ZADD", p.Permits, "1", "a")
	refresh.Holder = "a"
	refused(t, e, bindings.ErrPermitLost, e.SemaphoreRefresh, refresh)
	require.True(t, ask(t, e, e.SemaphoreAcquire, p).Acquired, "an ended lease makes room")

	released := ask(t, e, e.SemaphoreRelease,
		bindings.SemaphoreReleaseParams{Permits: p.Permits, Holders: []string{"a", "b", "c"}})
	require.Equal(t, int64(2), released)
}
