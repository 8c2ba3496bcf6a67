package failure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A lease is as long as the server's clock says. Where that jumps, the lock ends too
// early or too late; the local deadline and the fence do not depend on it.
func TestServerClockJumps(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Run("ahead", func(t *testing.T) {
			t.Parallel()
			server, clock := e.StartWithClock(t)
			rival := env.NewLocker(t, server.Client(t))
			fixed, err := env.NewLocker(t, server.Client(t)).Acquire(t.Context(), "fixed", rlock.WithTTL(time.Hour))
			require.NoError(t, err)
			extended, err := env.OpenOn(t, server).Acquire(t.Context(), "extended", rlock.WithTTL(time.Hour),
				rlock.WithAutoExtend(true))
			require.NoError(t, err)
			clock.Shift(2 * time.Hour)
			for _, lock := range []*rlock.Lock{fixed, extended} {
				next, err := rival.TryAcquire(t.Context(), lock.Key())
				require.NoError(t, err, "the server's lease is over")
				var resource guarded
				require.True(t, resource.write(lock.Fence()))
				require.True(t, resource.write(next.Fence()))
				require.False(t, resource.write(lock.Fence()), "two writers")
			}
			require.NoError(t, fixed.Err(), "nobody has told it")
			require.ErrorIs(t, fixed.Extend(t.Context(), time.Minute), rlock.ErrLost)
			env.AwaitEnd(t, extended, rlock.ErrLost)
		})
		t.Run("behind", func(t *testing.T) {
			t.Parallel()
			server, clock := e.StartWithClock(t)
			rival := env.NewLocker(t, server.Client(t))
			// the clock must be behind before it is over
			lock, err := env.NewLocker(t, server.Client(t)).Acquire(t.Context(), "job", rlock.WithTTL(4*time.Second))
			require.NoError(t, err)
			clock.Shift(-6 * time.Minute)
			env.AwaitEnd(t, lock, rlock.ErrExpired)
			_, err = rival.TryAcquire(t.Context(), "job")
			var facts *rlock.AcquireError
			require.ErrorAs(t, err, &facts)
			require.ErrorIs(t, err, rlock.ErrHeld, "the server's lease is not over")
			require.Greater(t, facts.Remaining, 5*time.Minute)
			require.NoError(t, lock.Release(t.Context()))
			next, err := rival.TryAcquire(t.Context(), "job")
			require.NoError(t, err, "what its holder has given up is free")
			require.Greater(t, next.Fence(), lock.Fence())
		})
		t.Run("behind, and the counter is lost", func(t *testing.T) {
			t.Parallel()
			server, clock := e.StartWithClock(t)
			locker := env.NewLocker(t, server.Client(t))
			lock, err := locker.Acquire(t.Context(), "job")
			require.NoError(t, err)
			var resource guarded
			require.True(t, resource.write(lock.Fence()))
			clock.Shift(-time.Minute)
			server.Do(t, "FLUSHALL")
			next, err := env.NewLocker(t, server.Client(t)).Acquire(t.Context(), "job")
			require.NoError(t, err)
			require.Less(t, next.Fence(), lock.Fence(), "neither data nor clock are left")
			require.False(t, resource.write(next.Fence()), "nobody can tell who came first: better none than both")
		})
	})
}
