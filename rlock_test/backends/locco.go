// Package backends shows what works on every backend. It uses the claims of a library that has several
// backends.
package backends

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// shown is what a row of the table works with. The other Locker stands for another process, and holds
// "taken".
type shown struct {
	locker, other *rlock.Locker
	taken         *rlock.Lock
}

// rows are the claims of npm @kontsedal/locco about all its backends. Each row has a shortened sentence of
// its document, and the same in rlock.
var rows = []struct {
	says string
	show func(ctx context.Context, t *testing.T, s shown)
}{
	{"lock(key, ttl).acquire(), release() in a finally block", func(ctx context.Context, t *testing.T, s shown) {
		lock := env.MustLock(t)(s.locker.Acquire(ctx, "user:123", rlock.WithTTL(time.Minute)))
		require.ErrorIs(t, env.ErrorOf(s.other.TryAcquire(ctx, "user:123")), rlock.ErrHeld)
		require.NoError(t, lock.Release(ctx))
		free(ctx, t, s, "user:123")
	}},
	{"retries if the resource is already locked", func(ctx context.Context, t *testing.T, s shown) {
		got := make(chan error, 1)
		go func() { got <- env.ErrorOf(s.locker.Acquire(ctx, "taken")) }()
		env.AwaitWaiting(t, s.locker, 1)
		require.NoError(t, s.taken.Release(ctx))
		require.NoError(t, env.Receive(t, got))
	}},
	{"retryDelay, retryTimes: the maximum number of retry attempts",
		func(ctx context.Context, t *testing.T, s shown) {
			var failed *rlock.AcquireError
			_, err := s.locker.Acquire(ctx, "taken", rlock.WithRetry(rlock.Fixed(time.Millisecond).MaxAttempts(3)))
			require.ErrorAs(t, err, &failed)
			require.Equal(t, 3, failed.Attempts)
		}},
	{"totalTime: hard cap on total retry duration", func(ctx context.Context, t *testing.T, s shown) {
		start := time.Now()
		policy := rlock.Fixed(time.Millisecond).MaxAttempts(1_000_000).MaxTime(50 * time.Millisecond)
		_, err := s.locker.Acquire(ctx, "taken", rlock.WithRetry(policy))
		require.ErrorIs(t, err, rlock.ErrGaveUp)
		require.GreaterOrEqual(t, time.Since(start), 50*time.Millisecond)
	}},
	{
		"retryDelayFn({attemptNumber, startedAt, previousDelay, stop})",
		func(ctx context.Context, t *testing.T, s shown) {
			var seen []rlock.Attempt
			_, err := s.locker.Acquire(ctx, "taken", rlock.WithRetry(rlock.RetryFunc(
				func(a rlock.Attempt) (time.Duration, bool) {
					seen = append(seen, a)
					return time.Duration(a.Number) * time.Millisecond, a.Number < 3
				})))
			require.ErrorIs(t, err, rlock.ErrGaveUp)
			require.Len(t, seen, 3)
			require.Equal(t, 2, seen[1].Number)
			require.Equal(t, time.Millisecond, seen[1].Previous)
			require.Positive(t, seen[1].Elapsed)
		},
	},
	{"setRetrySettings: overridden retry settings", func(ctx context.Context, t *testing.T, s shown) {
		_, err := s.locker.Acquire(ctx, "taken", rlock.WithRetry(rlock.Fixed(time.Hour).MaxTime(time.Millisecond)))
		require.ErrorIs(t, err, rlock.ErrGaveUp)
	}},
	{
		"acquire(callback): released when the callback finishes; returns its value",
		func(ctx context.Context, t *testing.T, s shown) {
			work := func(ctx context.Context, lock *rlock.Lock) (string, error) {
				return "success", lock.Extend(ctx, 20*time.Second)
			}
			value, err := rlock.DoValue(ctx, s.locker, "user:123", work, rlock.WithTTL(3*time.Second))
			require.NoError(t, err)
			require.Equal(t, "success", value)
			free(ctx, t, s, "user:123")
		},
	},
	{"or throws", func(ctx context.Context, t *testing.T, s shown) {
		mine := errors.New("mine")
		require.Equal(t, mine, s.locker.Do(ctx, "job", func(context.Context, *rlock.Lock) error { return mine }))
		require.Panics(t, func() {
			_ = s.locker.Do(ctx, "job", func(context.Context, *rlock.Lock) error { panic("thrown") })
		})
		free(ctx, t, s, "job")
	}},
	{
		"release: silently succeeds also if the lock was taken by another; with throwOnFail it throws",
		func(ctx context.Context, t *testing.T, s shown) {
			thief := env.MustLock(t)(s.locker.Acquire(ctx, "taken", rlock.WithToken(s.taken.Token())))
			require.NoError(t, thief.Release(ctx))
			require.ErrorIs(t, s.taken.Release(ctx), rlock.ErrNotHeld, "ignore it where it does not matter")
		},
	},
	{"every lock carries a unique value; release only succeeds if it matches",
		func(ctx context.Context, t *testing.T, s shown) {
			lock := env.MustLock(t)(s.other.Acquire(ctx, "user:123"))
			require.NotEqual(t, s.taken.Token(), lock.Token())
			require.NoError(t, lock.Release(ctx))
			require.ErrorIs(t, lock.Release(ctx), rlock.ErrReleased)
			require.NoError(t, s.taken.Verify(ctx))
		}},
	{"extend(ttl): from now", func(ctx context.Context, t *testing.T, s shown) {
		require.NoError(t, s.taken.Extend(ctx, time.Hour))
		require.Greater(t, time.Until(s.taken.Deadline()), 50*time.Minute)
		state, err := s.locker.Check(ctx, "taken")
		require.NoError(t, err)
		require.True(t, state.Held)
		require.NoError(t, s.taken.Verify(ctx))
	}},
	{"extend throws if the lock is no longer valid", func(ctx context.Context, t *testing.T, s shown) {
		require.NoError(t, s.taken.Release(ctx))
		require.ErrorIs(t, s.taken.Extend(ctx, time.Hour), rlock.ErrNotHeld)
	}},
	{"isLocked: whether this lock is still valid in the backend",
		func(ctx context.Context, t *testing.T, s shown) {
			require.NoError(t, s.taken.Verify(ctx))
			thief := env.MustLock(t)(s.locker.Acquire(ctx, "taken", rlock.WithToken(s.taken.Token())))
			require.NoError(t, thief.Release(ctx))
			require.ErrorIs(t, s.taken.Verify(ctx), rlock.ErrNotHeld)
		}},
	{"a lock expires after its ttl", func(ctx context.Context, t *testing.T, s shown) {
		short := env.MustLock(t)(s.other.Acquire(ctx, "short", rlock.WithTTL(2*time.Second)))
		require.NoError(t, env.MustLock(t)(s.locker.Acquire(ctx, "short")).Release(ctx))
		require.ErrorIs(t, short.Err(), rlock.ErrNotHeld)
	}},
	{"key, ttl, uniqueValue", func(_ context.Context, t *testing.T, s shown) {
		require.True(t, strings.HasSuffix(s.taken.Key(), "taken"), "behind the prefix")
		require.NotEmpty(t, s.taken.Token())
		require.Positive(t, time.Until(s.taken.Deadline()))
	}},
	{"ValidationError: invalid parameters", func(ctx context.Context, t *testing.T, s shown) {
		require.ErrorIs(t, env.ErrorOf(s.locker.Acquire(ctx, "")), rlock.ErrInvalid)
		_, err := s.locker.Acquire(ctx, "k", rlock.WithTTL(-1))
		require.ErrorIs(t, err, rlock.ErrInvalid)
	}},
	{"instanceof: RetryError, LockExtendError", func(ctx context.Context, t *testing.T, s shown) {
		var acquire *rlock.AcquireError
		require.ErrorAs(t, env.ErrorOf(s.locker.TryAcquire(ctx, "taken")), &acquire)
		require.NoError(t, s.taken.Release(ctx))
		var lock *rlock.LockError
		require.ErrorAs(t, s.taken.Extend(ctx, time.Hour), &lock)
		require.Equal(t, "extend", lock.Op)
	}},
}

func free(ctx context.Context, t *testing.T, s shown, key string) {
	t.Helper()
	state, err := s.locker.Check(ctx, key)
	require.NoError(t, err)
	require.False(t, state.Held)
}

// Locco shows each row. open returns a Locker. The two Lockers of one test share their locks, and different
// tests share none.
func Locco(t *testing.T, open func(t *testing.T) (locker, other *rlock.Locker)) {
	for _, row := range rows {
		t.Run(row.says, func(t *testing.T) {
			t.Parallel()
			locker, other := open(t)
			taken := env.MustLock(t)(other.Acquire(t.Context(), "taken", rlock.WithTTL(10*time.Minute)))
			row.show(t.Context(), t, shown{locker, other, taken})
		})
	}
}

// Open returns a Locker of a backend. The Locker closes when the test ends.
func Open(t *testing.T, b rlock.Backend, opts ...rlock.LockerOption) *rlock.Locker {
	t.Helper()
	l, err := rlock.NewWithBackend(b, opts...)
	require.NoError(t, err)
	t.Cleanup(l.Close)
	return l
}
