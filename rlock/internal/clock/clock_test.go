package clock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

func TestLeaseEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sent clock.Instant
		ttl  time.Duration
		want clock.Instant
	}{
		"the margin is a thousandth and a millisecond": {5, 10 * time.Second,
			5 + clock.Instant(10*time.Second-11*time.Millisecond)},
		"a short lease is over before it begins": {5, time.Millisecond / 2,
			5 - clock.Instant(time.Millisecond/2) - clock.Instant(500*time.Nanosecond)},
		"no expiry":              {5, clock.NoExpiry, clock.Never},
		"too long to be counted": {1 << 62, clock.NoExpiry - 1, clock.Never},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, clock.LeaseEnd(c.sent, c.ttl))
		})
	}
}

func TestInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := clock.Now()
		require.Equal(t, time.Minute, now.After(time.Minute).Until())
		require.Equal(t, time.Now().Add(time.Minute), now.After(time.Minute).Time())
		require.Equal(t, now-1, now.After(-1))
		require.Equal(t, clock.Never, clock.Instant(-time.Hour).After(clock.NoExpiry))
		require.Equal(t, clock.NoExpiry, clock.Never.Until())
		require.Positive(t, now, "the zero Instant is earlier, in this clock too")
		require.Equal(t, clock.Never, clock.Never.After(time.Hour))
	})
}

func TestSleep(t *testing.T) {
	t.Parallel()
	why := errors.New("why")
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		require.NoError(t, clock.Sleep(t.Context(), -1, nil))
		require.Equal(t, start, time.Now())
		require.NoError(t, clock.Sleep(t.Context(), time.Second, nil))
		require.Equal(t, start.Add(time.Second), time.Now())

		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
		defer cancel()
		err := clock.Sleep(ctx, time.Hour, nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, why)
		require.Equal(t, start.Add(2*time.Second), time.Now())

		stop := make(chan struct{})
		close(stop)
		require.ErrorIs(t, clock.Sleep(t.Context(), time.Hour, stop), clock.ErrStopped)
	})
}

func TestReceive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		signal := make(chan struct{}, 1)
		signal <- struct{}{}
		over, err := clock.Receive(t.Context(), signal, time.Hour, nil)
		require.NoError(t, err)
		require.False(t, over)
		over, err = clock.Receive(t.Context(), signal, time.Hour, nil)
		require.NoError(t, err)
		require.True(t, over)
	})
}

// A context ends at its limit, and without one not before its parent does.
func TestWithin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, end := clock.Within(t.Context(), 0)
		end()
		time.Sleep(time.Hour)
		require.NoError(t, ctx.Err())
		ctx, end = clock.Within(t.Context(), time.Second)
		defer end()
		time.Sleep(time.Second)
		synctest.Wait()
		require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
	})
}

func TestContextErrorKeepsAllInReach(t *testing.T) {
	t.Parallel()
	why, call := errors.New("why"), errors.New("call")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	err := clock.ContextError(ctx, call)
	for _, want := range []error{context.Canceled, why, call} {
		require.ErrorIs(t, err, want)
	}
	require.Equal(t, "context canceled: why", clock.ContextError(ctx, context.Canceled).Error())
}

// broken is a context whose methods panic once it is broken.
type broken struct {
	context.Context
	is atomic.Bool
}

func (b *broken) Done() <-chan struct{} {
	if b.is.Load() {
		panic("Done")
	}
	return b.Context.Done()
}

func (b *broken) Value(key any) any {
	if b.is.Load() {
		panic("Value")
	}
	return b.Context.Value(key)
}

// A context that has broken meanwhile panics where its caller can learn of it: neither a timer nor the end of
// another context calls a method of it.
func TestBrokenContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		defer cancel()
		ctx := &broken{Context: parent}
		limited, end := clock.Within(ctx, time.Second)
		other, over := context.WithCancel(t.Context())
		both, forget := clock.EndsWith(ctx, other)
		ctx.is.Store(true)
		over()
		<-limited.Done()
		<-both.Done()
		require.Panics(t, func() { end() })
		require.Panics(t, func() { forget() })
		ctx.is.Store(false)
	})
}
