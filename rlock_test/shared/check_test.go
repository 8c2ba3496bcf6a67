package shared

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockadmin"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Check tells whether a lock is shared, because the key says so. Inspect tells who shares it, and how many
// permits are in use.
func TestCheckOfSharedLocks(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		l := env.OpenOn(t, server)
		option := server.Option()
		option.DisableCache = true
		uncached := env.OpenLocker(t, option)
		ctx := t.Context()
		eventually := func(what string, is func(rlock.State) bool) rlock.State {
			t.Helper()
			var s rlock.State
			env.Soon(t, func() bool { // the server tells the cache of a change
				var err error
				s, err = l.Check(ctx, "k")
				require.NoError(t, err)
				return s.Cached && is(s)
			}, what)
			return s
		}
		// of requires that both say how the lock is shared, and each of them what it can know.
		of := func(what string, limit, permits, holders int) {
			t.Helper()
			s := eventually(what, func(s rlock.State) bool { return s.Shared })
			without, err := uncached.Check(ctx, "k")
			require.NoError(t, err)
			for _, s := range []rlock.State{s, without} {
				require.True(t, s.Held && s.Shared, what)
				require.Positive(t, s.Remaining(), what)
				require.Empty(t, s.Owner, what)
			}
			seen := env.Inspect(t, l, "k")
			require.Equal(t, []int{limit, permits, holders}, []int{seen.Limit, seen.Permits, len(seen.Holders)}, what)
			require.Equal(t, limit == 0, seen.Mode == rlockadmin.Readers, what)
		}

		eventually("free", func(s rlock.State) bool { return !s.Held && !s.Shared })
		reader := env.MustLock(t)(l.AcquireShared(ctx, "k", rlock.WithOwner("ann")))
		of("a reader", 0, 0, 1)
		other := env.MustLock(t)(uncached.AcquireShared(ctx, "k")) // of another process
		of("two readers", 0, 0, 2)
		require.NoError(t, reader.Release(ctx))
		require.NoError(t, other.Release(ctx))
		eventually("no reader", func(s rlock.State) bool { return !s.Held && !s.Shared })

		permits := env.MustLock(t)(l.AcquirePermits(ctx, "k", 2, 3))
		of("two permits of three", 3, 2, 1)
		more := env.MustLock(t)(l.AcquirePermits(ctx, "k", 1, 5))
		of("three permits, of five at most", 5, 3, 2)
		require.NoError(t, permits.Release(ctx))
		require.NoError(t, more.Release(ctx))

		whole := env.MustLock(t)(l.Acquire(ctx, "k", rlock.WithOwner("bob")))
		s := eventually("the whole lock", func(s rlock.State) bool { return s.Held && !s.Shared })
		require.Equal(t, whole.Token(), s.Token())
		require.Equal(t, "bob", s.Owner)
		require.NoError(t, whole.Release(ctx))
	})
}
