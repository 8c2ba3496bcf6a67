package rlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

// A server that evicts throws locks away, and their fence counters where it may. Those
// who hold them are told, and fences rise all the same.
func TestEviction(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		for _, policy := range []string{"volatile-ttl", "volatile-lru", "allkeys-random", "allkeys-lru"} {
			t.Run(policy, func(t *testing.T) {
				t.Parallel()
				server := e.Start(t, "--maxmemory-policy", policy)
				told, untold, rival := opened(t, server), newLocker(t, server.Client(t)), newLocker(t, server.Client(t))
				extended, err := told.Acquire(t.Context(), "extended", rlock.WithTTL(time.Minute), rlock.WithAutoExtend(true))
				require.NoError(t, err)
				fixed, err := untold.Acquire(t.Context(), "fixed", rlock.WithTTL(time.Minute))
				require.NoError(t, err)
				tracked(t, server, 1)

				server.Do(t, "CONFIG", "SET", "maxmemory", "1") // not even one key
				ends(t, extended, rlock.ErrLost)
				require.True(t, fixed.Valid(), "nobody has told it")
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
			locker := opened(t, server)
			lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(6*time.Second), rlock.WithAutoExtend(true))
			require.NoError(t, err)
			server.Do(t, "CONFIG", "SET", "maxmemory", "1")
			soon(t, func() bool { return locker.Stats().Extended > 0 }, "it is extended without memory")
			require.True(t, lock.Valid())
			require.NoError(t, lock.Release(t.Context()))
		})
	})
}
