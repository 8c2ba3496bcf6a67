package topology

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// inTheBackground makes a call that waits, and returns its lock once it has it.
func inTheBackground(t *testing.T,
	acquire func(ctx context.Context) (*rlock.Lock, error)) <-chan *rlock.Lock {
	t.Helper()
	got := make(chan *rlock.Lock, 1)
	go func() {
		defer close(got)
		lock, err := acquire(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		got <- lock
	}()
	return got
}

// On each node of a cluster, readers share a lock and take turns with a writer, and permits are counted and
// passed on. What stands beside the key is in its slot.
func TestClusterShares(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		a, b, c := openOn(t, cluster), openOn(t, cluster), openOn(t, cluster)
		ctx := t.Context()
		for i, node := range cluster.Nodes {
			key := keyOn(t, cluster, i)
			one := env.MustLock(t)(a.AcquireShared(ctx, key))
			two := env.MustLock(t)(b.AcquireShared(ctx, key))
			require.Equal(t, one.Fence(), two.Fence())
			writer := waitsAt(t, node, c, key)
			alone := rlock.WithUniqueToken(true) // joins no reader of its Locker
			_, err := a.TryAcquireShared(ctx, key, alone)
			require.ErrorIs(t, err, rlock.ErrHeld, "a writer waits")
			reader := inTheBackground(t,
				func(ctx context.Context) (*rlock.Lock, error) { return b.AcquireShared(ctx, key, alone) })
			env.Soon(t, func() bool { return len(queuedAt(t, node, key)) == 2 }, "the reader waits behind the writer")
			require.NoError(t, one.Release(ctx))
			require.NoError(t, two.Release(ctx))
			whole := env.Taken(t, writer)
			require.Greater(t, whole.Fence(), one.Fence())
			require.NoError(t, whole.Release(ctx))
			three := env.Taken(t, reader)
			require.Greater(t, three.Fence(), whole.Fence())
			require.NoError(t, three.Release(ctx))

			first := env.MustLock(t)(a.AcquirePermits(ctx, key, 1, 2))
			second := env.MustLock(t)(b.AcquirePermits(ctx, key, 1, 2))
			third := inTheBackground(t,
				func(ctx context.Context) (*rlock.Lock, error) { return c.AcquirePermits(ctx, key, 1, 2) })
			env.Soon(t, func() bool { return len(queuedAt(t, node, key)) == 1 }, "there is no permit left")
			require.NoError(t, first.Release(ctx))
			next := env.Taken(t, third)
			state := env.Inspect(t, a, key)
			require.Len(t, state.Holders, 2)
			require.NoError(t, second.Release(ctx))
			require.NoError(t, next.Release(ctx))

			require.NoError(t, env.MustLock(t)(a.AcquireShared(ctx, key)).Release(ctx))
			reply := node.Do(t, "KEYS", "rlock:holders:*")
			left, err := reply.AsStrSlice()
			require.NoError(t, err)
			require.Empty(t, left)
		}
	})
}

// Shares outlive a move of their slot: they are extended and verified all the time, and whoever takes or
// releases one during the move has done so shortly after it.
func TestSharesOfASlotThatMoves(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		a, b := openOn(t, cluster), openOn(t, cluster)
		ctx, key := t.Context(), keyOn(t, cluster, 2)
		m := moveOf(cluster, key)
		extended := env.MustLock(t)(a.AcquirePermits(ctx, key, 1, 3, rlock.WithTTL(15*time.Second),
			rlock.WithAutoExtend(true)))
		stays := env.MustLock(t)(b.AcquirePermits(ctx, key, 1, 3))
		leaves := env.MustLock(t)(b.AcquirePermits(ctx, key, 1, 3))
		held := func() {
			t.Helper()
			for _, lock := range []*rlock.Lock{extended, stays} {
				err := lock.Verify(ctx)
				require.NoError(t, err)
			}
			require.NoError(t, stays.Extend(ctx, time.Minute))
		}
		m.Begin(t)
		held()
		got := inTheBackground(t, func(ctx context.Context) (*rlock.Lock,
			error) {
			return a.AcquirePermits(ctx, key, 1, 3)
		})
		m.Carry(t)
		held()
		released := make(chan error, 1)
		go func() { released <- leaves.Release(ctx) }()
		time.Sleep(100 * time.Millisecond) // for both to be refused now and then
		m.End(t)
		held()
		env.Receive(t, released) // if it could not wait for so long, it goes on in the background
		next := env.Taken(t, got)
		require.Equal(t, stays.Fence(), next.Fence(), "the phase goes on at the new node")
		renewed := a.Stats().Extended
		env.Soon(t, func() bool { return a.Stats().Extended > renewed }, "it is extended where it is now")

		writer := waitsAt(t, m.To, b, key)
		for _, lock := range []*rlock.Lock{extended, stays, next} {
			require.NoError(t, lock.Release(ctx))
		}
		whole := env.Taken(t, writer)
		require.Greater(t, whole.Fence(), stays.Fence())
		require.NoError(t, whole.Release(ctx))
	})
}

// A failover keeps those shares that the replica knew. Those of a key that it did not know are lost, and the
// next phase has a larger fence, although the members of the lost one are still there.
func TestSharesAfterAFailover(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		s := e.StartSentinel(t)
		ctx := t.Context()
		holder := env.OpenLocker(t, s.Option(), rlock.WithTTL(15*time.Second), rlock.WithAutoExtend(true))
		rival := env.NewLocker(t, s.Client(t))
		kept := env.MustLock(t)(holder.AcquireShared(ctx, "kept"))
		permits := env.MustLock(t)(holder.AcquirePermits(ctx, "permits", 2, 2))
		lost := env.MustLock(t)(holder.AcquireShared(ctx, "lost"))
		writer := outlives(t, rival, "kept")
		permit := inTheBackground(t,
			func(ctx context.Context) (*rlock.Lock, error) { return rival.AcquirePermits(ctx, "permits", 1, 2) })
		env.Soon(t, func() bool { return rival.Stats().Waiting == 2 }, "both wait")
		values := map[string]string{}
		for _, key := range []string{"kept", "permits", "lost"} {
			values[key] = env.Get(t, s.Primary.Client(t), key)
		}
		forgets(t, s.Replica, values)
		s.Failover(t)

		env.AwaitEnd(t, lost, rlock.ErrNotHeld)
		var again *rlock.Lock
		env.Soon(t, func() bool {
			var err error
			again, err = rival.AcquireShared(ctx, "lost")
			return err == nil
		}, "the key is free")
		require.Greater(t, again.Fence(), lost.Fence(), "the counter was lost")
		state := env.Inspect(t, rival, "lost")
		require.Len(t, state.Holders, 1, "the lost one is void")
		require.NoError(t, again.Release(ctx))

		renewed := holder.Stats().Extended
		env.Soon(t, func() bool { return holder.Stats().Extended > renewed },
			"they are extended on the new primary")
		require.NoError(t, errors.Join(kept.Err(), permits.Err()))
		for _, lock := range []*rlock.Lock{kept, permits} {
			err := lock.Verify(ctx)
			require.NoError(t, err)
			require.NoError(t, lock.Release(ctx))
		}
		whole := env.Taken(t, writer)
		require.Greater(t, whole.Fence(), kept.Fence())
		require.NoError(t, env.Taken(t, permit).Release(ctx))
		require.NoError(t, whole.Release(ctx))
	})
}
