package shared

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A Check from the cache tells whether a lock is shared, and the limit, because the key says so. It does not
// know who shares it, or how many permits are in use: Inspect does, and a Check without a cache is one.
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
			readers := limit == 0
			s := eventually(what, func(s rlock.State) bool { return s.Shared != nil && s.Shared.Readers == readers })
			require.Equal(t, rlock.SharedState{Readers: readers}, *s.Shared, what)
			require.True(t, s.Held, what)
			require.Positive(t, s.Remaining(), what)
			require.Empty(t, s.Owner, what)
			for _, ask := range []func() (rlock.State, error){
				func() (rlock.State, error) { return l.Inspect(ctx, "k") }, func() (rlock.State, error) { return uncached.Check(ctx, "k") },
			} {
				s, err := ask()
				require.NoError(t, err)
				require.Equal(t, []int{limit, permits, holders}, []int{s.Shared.Limit, s.Shared.Permits, len(s.Shared.Holders)}, what)
			}
		}

		eventually("free", func(s rlock.State) bool { return !s.Held && s.Shared == nil })
		reader := env.MustLock(t)(l.AcquireShared(ctx, "k", rlock.WithOwner("ann")))
		of("a reader", 0, 1, 1)
		other := env.MustLock(t)(uncached.AcquireShared(ctx, "k")) // of another process
		of("two readers", 0, 2, 2)
		require.NoError(t, reader.Release(ctx))
		require.NoError(t, other.Release(ctx))
		eventually("no reader", func(s rlock.State) bool { return !s.Held && s.Shared == nil })

		permits := env.MustLock(t)(l.AcquirePermits(ctx, "k", 2, 3))
		of("two permits of three", 3, 2, 1)
		more := env.MustLock(t)(l.AcquirePermits(ctx, "k", 1, 5))
		of("three permits, of five at most", 5, 3, 2)
		require.NoError(t, permits.Release(ctx))
		require.NoError(t, more.Release(ctx))

		whole := env.MustLock(t)(l.Acquire(ctx, "k", rlock.WithOwner("bob")))
		s := eventually("the whole lock", func(s rlock.State) bool { return s.Held && s.Shared == nil })
		require.True(t, s.HeldBy(whole.Token()))
		require.Equal(t, "bob", s.Owner)
		require.NoError(t, whole.Release(ctx))
	})
}
