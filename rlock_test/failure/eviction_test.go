package failure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A server that evicts throws locks away, and their fence counters where it may. Those
// who hold them are told, and fences rise all the same.
func TestEviction(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for _, policy := range []string{"volatile-ttl", "volatile-lru", "allkeys-random", "allkeys-lru"} {
			t.Run(policy, func(t *testing.T) {
				t.Parallel()
				server := e.Start(t, "--maxmemory-policy", policy)
				told, untold, rival := env.OpenOn(t, server), env.NewLocker(t, server.Client(t)),
					env.NewLocker(t, server.Client(t))
				extended, err := told.Acquire(t.Context(), "extended", rlock.WithTTL(time.Minute),
					rlock.WithAutoExtend(true))
				require.NoError(t, err)
				fixed, err := untold.Acquire(t.Context(), "fixed", rlock.WithTTL(time.Minute))
				require.NoError(t, err)
				server.AwaitTracked(t, 1)

				server.Do(t, "CONFIG", "SET", "maxmemory", "1") // not even one key
				env.AwaitEnd(t, extended, rlock.ErrLost)
				require.NoError(t, fixed.Err(), "nobody has told it")
				server.Do(t, "CONFIG", "SET", "maxmemory", "0")
				for _, lock := range []*rlock.Lock{extended, fixed} {
					next, err := rival.TryAcquire(t.Context(), lock.Key())
					require.NoError(t, err)
					require.Greater(t, next.Fence(), lock.Fence())
					require.ErrorIs(t, lock.Extend(t.Context(), time.Minute), rlock.ErrLost)
				}
			})
		}
		t.Run("noeviction", func(t *testing.T) {
			t.Parallel()
			server := e.Start(t, "--maxmemory-policy", "noeviction")
			locker := env.OpenOn(t, server)
			lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(6*time.Second), rlock.WithAutoExtend(true))
			require.NoError(t, err)
			server.Do(t, "CONFIG", "SET", "maxmemory", "1")
			env.Soon(t, func() bool { return locker.Stats().Extended > 0 }, "it is extended without memory")
			require.NoError(t, lock.Err())
			require.NoError(t, lock.Release(t.Context()))
		})
	})
}
