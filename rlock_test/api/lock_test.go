package api

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestAcquireRelease(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		before := time.Now()
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(5*time.Second))
		require.NoError(t, err)
		require.Equal(t, "job", lock.Key())
		require.Equal(t, []string{"job"}, lock.Keys())
		require.Equal(t, 1, lock.Attempts())
		require.NotZero(t, lock.Fence())
		require.NoError(t, lock.Err())
		require.Equal(t, lock.Token(), env.Get(t, client, "job"), "the value of the key is the token")
		require.WithinRange(t, lock.Deadline(), before.Add(4*time.Second), time.Now().Add(5*time.Second))
		left, err := env.Do(t, client, "PTTL", "job").ToInt64()
		require.NoError(t, err)
		require.InDelta(t, 5000, left, 2000)

		ctx := lock.Context()
		require.NoError(t, ctx.Err())
		require.NoError(t, lock.Release(t.Context()))
		require.Error(t, lock.Err())
		require.ErrorIs(t, context.Cause(ctx), rlock.ErrReleased)
		require.ErrorIs(t, context.Cause(lock.Context()), rlock.ErrReleased)
		require.Empty(t, env.Get(t, client, "job"))

		err = lock.Release(t.Context())
		require.ErrorIs(t, err, rlock.ErrReleased)
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		require.ErrorIs(t, lock.Extend(t.Context(), time.Second), rlock.ErrReleased)
		require.Empty(t, env.Get(t, client, "job"), "a released handle takes nothing")
	})
}

func TestTryAcquireHeld(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		a, b := env.NewLocker(t, client), env.NewLocker(t, client)
		held, err := a.TryAcquire(t.Context(), "job")
		require.NoError(t, err)

		_, err = b.TryAcquire(t.Context(), "job")
		require.ErrorIs(t, err, rlock.ErrHeld)
		var facts *rlock.AcquireError
		require.ErrorAs(t, err, &facts)
		require.Equal(t, "job", facts.Key)
		require.Equal(t, 1, facts.Attempts)
		require.InDelta(t, 10*time.Second, facts.Remaining, float64(5*time.Second))
		require.NotContains(t, err.Error(), held.Token())
		require.Equal(t, held.Token(), env.Get(t, client, "job"))
	})
}

func TestAcquireWaitsForRelease(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		a, b := env.NewLocker(t, client), env.NewLocker(t, client)
		for end, granted := time.Now().Add(20*time.Second), false; !granted; {
			first, err := a.Acquire(t.Context(), "job")
			require.NoError(t, err)
			time.AfterFunc(50*time.Millisecond, func() { first.Release(context.Background()) })
			second, err := b.Acquire(t.Context(), "job")
			require.NoError(t, err)
			require.Greater(t, second.Fence(), first.Fence())
			require.NotEqual(t, first.Token(), second.Token())
			granted = second.Attempts() == 1 // otherwise a heartbeat came in between
			require.True(t, granted || time.Now().Before(end), "the release grants it the lock")
			require.NoError(t, second.Release(t.Context()))
		}
	})
}

func TestAcquireTakesOverWhenTheLeaseEnds(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		a, b := env.NewLocker(t, client), env.NewLocker(t, client)
		const lease = 3 * time.Second
		start := time.Now()
		dead, err := a.Acquire(t.Context(), "job", rlock.WithTTL(lease))
		require.NoError(t, err)
		// A pause this long would miss the end of the lease if that did not bound it.
		next, err := b.Acquire(t.Context(), "job", rlock.WithRetry(rlock.Fixed(time.Hour)))
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(start), lease-10*time.Millisecond)
		require.Error(t, dead.Err())
		require.Greater(t, next.Fence(), dead.Fence())

		err = dead.Release(t.Context())
		require.ErrorIs(t, err, rlock.ErrExpired)
		require.Equal(t, next.Token(), env.Get(t, client, "job"), "a late release leaves the next holder alone")
		require.ErrorIs(t, dead.Extend(t.Context(), time.Minute), rlock.ErrExpired)
		require.Equal(t, next.Token(), env.Get(t, client, "job"))
	})
}

func TestReleaseOfALostLock(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		require.NoError(t, env.Do(t, client, "SET", "job", "thief").Error())
		err = lock.Release(t.Context())
		require.ErrorIs(t, err, rlock.ErrLost)
		require.ErrorIs(t, err, rlock.ErrNotHeld)
		require.Equal(t, "thief", env.Get(t, client, "job"))
	})
}

func TestExtend(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		require.NoError(t, lock.Extend(t.Context(), time.Hour))
		require.WithinDuration(t, time.Now().Add(time.Hour), lock.Deadline(), 30*time.Second)
		left, err := env.Do(t, client, "PTTL", "job").ToInt64()
		require.NoError(t, err)
		require.Greater(t, left, int64(3_500_000))

		require.NoError(t, lock.Extend(t.Context(), rlock.NoExpiry))
		require.True(t, lock.Deadline().IsZero())
		require.NoError(t, lock.Err())
		left, err = env.Do(t, client, "PTTL", "job").ToInt64()
		require.NoError(t, err)
		require.Equal(t, int64(-1), left)

		require.NoError(t, env.Do(t, client, "DEL", "job").Error())
		require.ErrorIs(t, lock.Extend(t.Context(), time.Minute), rlock.ErrLost)
		require.Empty(t, env.Get(t, client, "job"), "extend never creates a lock")
		require.Error(t, lock.Err())
		require.ErrorIs(t, lock.Extend(t.Context(), time.Minute), rlock.ErrLost, "lost stays lost")
	})
}

func TestContextEndsWithTheLease(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(3*time.Second))
		require.NoError(t, err)
		env.Receive(t, lock.Context().Done())
		require.ErrorIs(t, context.Cause(lock.Context()), rlock.ErrExpired)
		require.Error(t, lock.Err())
		require.False(t, time.Now().Before(lock.Deadline()))
	})
}

func TestContextFollowsExtend(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(4*time.Second))
		require.NoError(t, err)
		ctx := lock.Context()
		require.NoError(t, lock.Extend(t.Context(), time.Minute))
		select {
		case <-ctx.Done():
			require.Fail(t, "the context ended with the old lease", context.Cause(ctx))
		case <-time.After(4500 * time.Millisecond):
		}
		require.NoError(t, lock.Release(t.Context()))
	})
}

func TestAutoExtend(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(4*time.Second), rlock.WithAutoExtend(true))
		require.NoError(t, err)
		time.Sleep(7 * time.Second)
		require.NoError(t, lock.Err())
		require.Equal(t, lock.Token(), env.Get(t, client, "job"))

		require.NoError(t, env.Do(t, client, "SET", "job", "thief", "PX", "60000").Error())
		env.Receive(t, lock.Context().Done())
		require.ErrorIs(t, context.Cause(lock.Context()), rlock.ErrLost)
		require.Equal(t, "thief", env.Get(t, client, "job"))
	})
}

func TestNoExpiry(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))
		require.NoError(t, err)
		require.NoError(t, lock.Err())
		require.True(t, lock.Deadline().IsZero())
		require.NoError(t, lock.Context().Err())
		left, err := env.Do(t, client, "PTTL", "job").ToInt64()
		require.NoError(t, err)
		require.Equal(t, int64(-1), left)

		_, err = env.NewLocker(t, client).Acquire(t.Context(), "job",
			rlock.WithRetry(rlock.Fixed(time.Millisecond).MaxAttempts(3)))
		require.ErrorIs(t, err, rlock.ErrGaveUp)
		require.ErrorIs(t, err, rlock.ErrHeld)
		var facts *rlock.AcquireError
		require.ErrorAs(t, err, &facts)
		require.Equal(t, 3, facts.Attempts)
		require.Equal(t, rlock.NoExpiry, facts.Remaining)
		require.NoError(t, lock.Release(t.Context()))
	})
}

// A lock that is extended automatically is so from when an Extend gives it a lease that ends.
func TestAutoExtendOfWhatWasEndless(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	lasts := func(ctx context.Context, lock *rlock.Lock) error {
		if err := lock.Extend(ctx, ttl); err != nil {
			return err
		}
		time.Sleep(ttl + ttl/2)
		return lock.Extend(ctx, rlock.NoExpiry)
	}
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		t.Run("Do", func(t *testing.T) {
			t.Parallel()
			require.NoError(t, env.NewLocker(t, client).Do(t.Context(), "done", lasts, rlock.WithTTL(rlock.NoExpiry)))
		})
		t.Run("WithAutoExtend", func(t *testing.T) {
			t.Parallel()
			locker := env.NewLocker(t, client, rlock.WithAutoExtend(true))
			lock := env.MustLock(t)(locker.Acquire(t.Context(), "acquired", rlock.WithTTL(rlock.NoExpiry)))
			require.NoError(t, lasts(t.Context(), lock))
			require.NoError(t, lock.Release(t.Context()))
		})
	})
}

func TestAcquireGivesUpWithTheContext(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		a, b := env.NewLocker(t, client), env.NewLocker(t, client)
		held, err := a.Acquire(t.Context(), "job")
		require.NoError(t, err)
		ctx, exceed := env.Deadline(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- env.ErrorOf(b.Acquire(ctx, "job")) }()
		env.AwaitWaiting(t, b, 1)
		exceed()
		err = env.Receive(t, ended)
		require.ErrorIs(t, err, rlock.ErrGaveUp)
		require.ErrorIs(t, err, rlock.ErrHeld)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, held.Token(), env.Get(t, client, "job"))

		before, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = b.Acquire(before, "free")
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, env.Get(t, client, "free"))
	})
}

func TestReleaseWithAnEndedContext(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		lock, err := env.NewLocker(t, client).Acquire(t.Context(), "job")
		require.NoError(t, err)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, lock.Release(ended))
		require.Empty(t, env.Get(t, client, "job"))
	})
}

func TestToken(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		long, err := locker.Acquire(t.Context(), "job", rlock.WithToken("job-12"))
		require.NoError(t, err)
		require.Equal(t, "job-12", env.Get(t, client, "job"))

		_, err = locker.TryAcquire(t.Context(), "job", rlock.WithToken("job-1"))
		require.ErrorIs(t, err, rlock.ErrHeld, "tokens are compared whole")

		again, err := locker.TryAcquire(t.Context(), "job", rlock.WithToken("job-12"))
		require.NoError(t, err, "the owner is confirmed")
		require.Greater(t, again.Fence(), long.Fence())
		require.NoError(t, again.Release(t.Context()))
		require.ErrorIs(t, long.Release(t.Context()), rlock.ErrLost)
	})
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client, rlock.WithPrefix("app:"))
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		require.Equal(t, "app:job", lock.Key())
		require.Equal(t, lock.Token(), env.Get(t, client, "app:job"))
		require.Equal(t, lock.Token(), env.HolderOf(t, locker, "app:job").Token())
		_, err = env.NewLocker(t, client).TryAcquire(t.Context(), "app:job")
		require.ErrorIs(t, err, rlock.ErrHeld)
	})
}

func TestAlreadyHeld(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		err := locker.Do(t.Context(), "outer", func(ctx context.Context, outer *rlock.Lock) error {
			return locker.DoAll(ctx, []string{"a", "b"}, func(ctx context.Context, inner *rlock.Lock) error {
				_, err := locker.Acquire(ctx, "outer")
				require.ErrorIs(t, err, rlock.ErrAlreadyHeld)
				_, err = locker.AcquireAll(ctx, []string{"c", "b"})
				require.ErrorIs(t, err, rlock.ErrAlreadyHeld)
				require.Empty(t, env.Get(t, client, "c"))
				other, err := locker.Acquire(ctx, "c")
				require.NoError(t, err)
				require.NoError(t, other.Release(ctx))

				elsewhere := env.NewLocker(t, rlocktest.Client(t))
				same, err := elsewhere.Acquire(ctx, "outer")
				require.NoError(t, err, "the key of another server")
				require.NoError(t, same.Release(ctx))

				require.NoError(t, inner.Release(ctx))
				freed, err := locker.Acquire(context.WithoutCancel(ctx), "b")
				require.NoError(t, err, "what was released may be asked for")
				return freed.Release(ctx)
			})
		})
		require.NoError(t, err)
	})
}

func TestDo(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client, rlock.WithTTL(4*time.Second))

		t.Run("extends and releases", func(t *testing.T) {
			err := locker.Do(t.Context(), "long", func(ctx context.Context, lock *rlock.Lock) error {
				time.Sleep(7 * time.Second)
				require.NoError(t, ctx.Err())
				require.Equal(t, lock.Token(), env.Get(t, client, "long"))
				return nil
			})
			require.NoError(t, err)
			require.Empty(t, env.Get(t, client, "long"))
		})
		t.Run("returns the error as it is", func(t *testing.T) {
			mine := errors.New("mine")
			require.Equal(t, mine, locker.Do(t.Context(), "k",
				func(context.Context, *rlock.Lock) error { return mine }))
			require.Empty(t, env.Get(t, client, "k"))
		})
		t.Run("releases after a panic", func(t *testing.T) {
			require.PanicsWithValue(t, "boom", func() {
				locker.Do(t.Context(), "k", func(context.Context, *rlock.Lock) error { panic("boom") })
			})
			require.Empty(t, env.Get(t, client, "k"))
		})
		t.Run("may be released inside", func(t *testing.T) {
			require.NoError(t, locker.Do(t.Context(), "k",
				func(ctx context.Context, lock *rlock.Lock) error { return lock.Release(ctx) }))
		})
		t.Run("tells of a loss", func(t *testing.T) {
			mine := errors.New("mine")
			err := locker.Do(t.Context(), "k", func(ctx context.Context, lock *rlock.Lock) error {
				require.NoError(t, env.Do(t, client, "DEL", "k").Error())
				<-ctx.Done()
				require.ErrorIs(t, context.Cause(ctx), rlock.ErrLost)
				return mine
			})
			require.ErrorIs(t, err, mine)
			require.ErrorIs(t, err, rlock.ErrLost)
		})
		t.Run("ends with the caller's context", func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			mine := errors.New("mine")
			err := locker.Do(ctx, "k", func(ctx context.Context, _ *rlock.Lock) error {
				cancel(mine)
				<-ctx.Done()
				return context.Cause(ctx)
			})
			require.Equal(t, mine, err)
			require.Empty(t, env.Get(t, client, "k"))
		})
	})
}

func TestClose(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		a, b := env.NewLocker(t, client), env.NewLocker(t, client)
		held, err := a.Acquire(t.Context(), "job")
		require.NoError(t, err)
		mine, err := b.Acquire(t.Context(), "mine", rlock.WithTTL(rlock.NoExpiry))
		require.NoError(t, err)
		ctx := mine.Context()

		waiting := make(chan error)
		go func() {
			_, err := b.Acquire(t.Context(), "job")
			waiting <- err
		}()
		time.Sleep(30 * time.Millisecond)
		b.Close()
		b.Close()
		require.ErrorIs(t, env.Receive(t, waiting), rlock.ErrClosed)
		require.ErrorIs(t, context.Cause(ctx), rlock.ErrClosed)
		require.Error(t, mine.Err())
		require.Equal(t, mine.Token(), env.Get(t, client, "mine"), "Close releases nothing")
		_, err = b.Acquire(t.Context(), "other")
		require.ErrorIs(t, err, rlock.ErrClosed)
		_, err = b.Check(t.Context(), "other")
		require.ErrorIs(t, err, rlock.ErrClosed)

		require.NoError(t, mine.Release(t.Context()), "the caller's client is still open")
		require.NoError(t, held.Err())
		require.NoError(t, held.Release(t.Context()))
	})
}
