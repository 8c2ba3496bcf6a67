package observe

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestStats(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		client := server.Client(t)
		require.NoError(t, gen.New().Load(t.Context(), client))
		locker := env.NewLocker(t, client)
		require.Zero(t, locker.Stats())

		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		require.Equal(t, rlock.Stats{Acquired: 1, Attempts: 1, Held: 1}, locker.Stats())
		_, err = locker.TryAcquire(t.Context(), "job")
		require.ErrorIs(t, err, rlock.ErrHeld)
		got := make(chan *rlock.Lock, 1)
		go func() {
			next, err := locker.Acquire(t.Context(), "job")
			if err != nil {
				t.Error(err)
			}
			got <- next
		}()
		env.Soon(t, func() bool { return locker.Stats().Waiting == 1 }, "one waits")
		require.NoError(t, lock.Extend(t.Context(), time.Minute))
		time.Sleep(20 * time.Millisecond)
		require.NoError(t, lock.Release(t.Context()))
		next := env.Receive(t, got)
		stats := locker.Stats()
		require.GreaterOrEqual(t, stats.Waited, 20*time.Millisecond)
		require.GreaterOrEqual(t, stats.Holds.Sum, 0.02)
		require.EqualValues(t, 1, stats.Holds.Count())
		require.EqualValues(t, 1, stats.Waits.Count(), "TryAcquire does not wait")
		require.Equal(t, rlock.Stats{
			Acquired: 2, AcquireFailed: 1, AcquireFailedBy: rlock.Failures{rlock.ReasonHeld: 1},
			Attempts: 1, Contended: 2, HandedOver: 1, Held: 1, Extended: 1, Released: 1,
		}, env.WithoutTimes(stats))

		again, err := locker.Attach(t.Context(), env.Detach(t, next))
		require.NoError(t, err)
		server.Do(t, "DEL", "job")
		require.ErrorIs(t, again.Release(t.Context()), rlock.ErrLost)
		short, err := locker.Acquire(t.Context(), "short", rlock.WithTTL(3*time.Second))
		require.NoError(t, err)
		env.Receive(t, short.Context().Done())
		_, err = locker.Acquire(t.Context(), "kept", rlock.WithAutoExtend(true))
		require.NoError(t, err)
		for range 5 {
			_, err = locker.Check(t.Context(), "free")
			require.NoError(t, err)
		}
		locker.Close()
		stats = locker.Stats()
		require.EqualValues(t, 5, stats.Holds.Count())
		require.Equal(t, rlock.Stats{
			Acquired: 4, AcquireFailed: 1, AcquireFailedBy: rlock.Failures{rlock.ReasonHeld: 1}, Attempts: 3,
			Contended: 2, HandedOver: 1, Attached: 1, Extended: 1,
			Released: 1, Lost: 1, Expired: 1, Detached: 1, Closed: 1, Checks: 5, CacheHits: 4,
		}, env.WithoutTimes(stats))
	})
}

func TestStatsOfFailures(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, _ := env.NewFaulty(t, e)
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		loading := rlock.Failures{rlock.ReasonNoAnswer: 1}
		f.RefuseAll()
		require.ErrorContains(t, lock.Extend(t.Context(), time.Minute), "LOADING")
		require.ErrorContains(t, lock.Release(t.Context()), "LOADING")
		_, err = locker.TryAcquire(t.Context(), "other")
		require.ErrorContains(t, err, "LOADING")
		require.Equal(t, rlock.Stats{
			Acquired: 1, AcquireFailed: 1, Attempts: 2, ExtendFailed: 1, ReleaseFailed: 1,
			AcquireFailedBy: loading, ExtendFailedBy: loading, ReleaseFailedBy: loading,
		}, env.WithoutTimes(locker.Stats()))
		f.When(nil)
		require.NoError(t, lock.Release(t.Context()))
		require.Zero(t, locker.Stats().Released, "the lock had ended before")
	})
}

// Shares, sets and locks that are attached count as one each.
func TestHowManyAreHeld(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		locker := env.OpenOn(t, e.Start(t))
		ctx := t.Context()
		held := func(want int) {
			t.Helper()
			s := locker.Stats()
			require.Equal(t, want, s.Held)
			require.EqualValues(t, want,
				s.Acquired+s.Attached-s.Released-s.ReleaseFailed-s.Lost-s.Expired-s.Detached-s.Closed)
			require.EqualValues(t, want, s.Acquired+s.Attached-s.Holds.Count())
		}
		held(0)
		one, err := locker.Acquire(ctx, "one")
		require.NoError(t, err)
		held(1)
		set, err := locker.AcquireAll(ctx, []string{"two", "three"})
		require.NoError(t, err)
		held(2)
		permits, err := locker.AcquirePermits(ctx, "permits", 3, 5)
		require.NoError(t, err)
		reader, err := locker.AcquireShared(ctx, "readers")
		require.NoError(t, err)
		other, err := locker.AcquireShared(ctx, "readers")
		require.NoError(t, err)
		held(5)
		handoff, err := set.Detach()
		require.NoError(t, err)
		held(4)
		set, err = locker.Attach(ctx, handoff)
		require.NoError(t, err)
		held(5)
		_, err = locker.TryAcquire(ctx, "readers")
		require.ErrorIs(t, err, rlock.ErrHeld)
		held(5)
		for i, lock := range []*rlock.Lock{set, permits, reader, other, one} {
			require.NoError(t, lock.Release(ctx))
			require.ErrorIs(t, lock.Release(ctx), rlock.ErrReleased)
			held(4 - i)
		}
	})
}

// Locks that others release through Held, at any moment, have their events once.
func TestReleaseThroughHeld(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		nobody := rlock.ObserverFunc(func(context.Context, rlock.Event) {})
		locker := env.OpenOn(t, e.Start(t), rlock.WithObserver(nobody), rlock.WithAutoExtend(true))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, env.Together(8, func(i int) error {
			for ctx.Err() == nil {
				if i < 2 {
					for _, lock := range locker.Locks() {
						lock.Release(t.Context())
					}
					continue
				}
				if lock, err := locker.Acquire(ctx, "job"); err == nil {
					lock.Release(t.Context())
				}
			}
			return nil
		}))
		s := locker.Stats()
		require.Positive(t, s.Released)
		require.Zero(t, s.Lost)
		require.Equal(t, s.Acquired, s.Released)
		require.Zero(t, s.Waiting)
	})
}
