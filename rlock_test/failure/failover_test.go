package failure

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Two primaries that know nothing of each other both grant a lock, and both holders
// are valid as far as they can know. Of what the lock guards, only the newer can write.
func TestSplitBrain(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		pair := e.StartPair(t)
		before, after := env.OpenOn(t, pair.Primary), env.OpenOn(t, pair.Replica)
		pair.Promote(t)
		older, err := before.Acquire(t.Context(), "job", rlock.WithTTL(time.Minute), rlock.WithAutoExtend(true))
		require.NoError(t, err)
		time.Sleep(70 * time.Millisecond) // both count by the clock, in steps of 65.536 ms
		newer, err := after.Acquire(t.Context(), "job", rlock.WithTTL(time.Minute), rlock.WithAutoExtend(true))
		require.NoError(t, err)
		require.NoError(t, older.Err())
		require.NoError(t, newer.Err())

		var resource guarded
		require.True(t, resource.write(older.Fence()))
		require.True(t, resource.write(newer.Fence()))
		require.False(t, resource.write(older.Fence()), "two writers")
		require.NoError(t, older.Extend(t.Context(), time.Minute), "its server knows of no other")
		require.False(t, resource.write(older.Fence()), "two writers")

		// The end of the split ends the older one.
		pair.Primary.Follow(t, pair.Replica)
		env.AwaitEnd(t, older, rlock.ErrLost)
		require.NoError(t, newer.Err())
		require.True(t, resource.write(newer.Fence()))
		require.ErrorIs(t, older.Release(t.Context()), rlock.ErrLost)
		require.NoError(t, newer.Release(t.Context()), "it was left alone")
	})
}

// What fences cannot tell apart: grants of two primaries at about the same time.
func TestSplitBrainAtOneInstant(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		pair := e.StartPair(t)
		one, other := env.NewLocker(t, pair.Primary.Client(t)), env.NewLocker(t, pair.Replica.Client(t))
		pair.Promote(t)
		fence := func(l *rlock.Locker) uint64 {
			lock, err := l.Acquire(t.Context(), "job")
			require.NoError(t, err)
			require.NoError(t, lock.Release(t.Context()))
			return lock.Fence()
		}
		env.Soon(t, func() bool { return fence(one) == fence(other) }, "the same fence")
	})
}

// A lock that has reached the replica lasts there for what was left of its lease.
func TestReplicatedLockOutlivesItsPrimary(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		pair := e.StartPair(t)
		lock, err := env.NewLocker(t, pair.Primary.Client(t)).Acquire(t.Context(), "job",
			rlock.WithTTL(4*time.Second))
		require.NoError(t, err)
		replica := pair.Replica.Client(t)
		env.Soon(t, func() bool { return env.Get(t, replica, "job") == lock.Token() || lock.Err() != nil },
			"the replica has the lock")
		pair.Promote(t)
		pair.Primary.Kill()

		rival := env.NewLocker(t, replica)
		next, err := rival.Acquire(t.Context(), "job", rlock.WithRetry(rlock.Fixed(5*time.Millisecond)))
		require.NoError(t, err)
		require.Error(t, lock.Err(), "two holders")
		require.Greater(t, next.Fence(), lock.Fence())
	})
}

// A node of a cluster dies, and its replica goes on with the locks that it has.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartReplicatedCluster(t)
		const key, slot = "a", "15495"
		node, replica := 2, cluster.Replicas[2]
		holder := env.NewLocker(t, cluster.Client(t), rlock.WithTTL(12*time.Second), rlock.WithAutoExtend(true))
		rival := env.NewLocker(t, cluster.Client(t))
		kept, err := holder.Acquire(t.Context(), key)
		require.NoError(t, err)
		elsewhere, err := holder.Acquire(t.Context(), "b")
		require.NoError(t, err)
		env.Soon(t, func() bool {
			reply := replica.Do(t, "CLUSTER", "COUNTKEYSINSLOT", slot)
			n, err := reply.ToInt64()
			return err == nil && n == 2
		}, "the replica has the lock and its counter")
		waiting := make(chan *rlock.Lock, 1)
		go func() {
			lock, err := rival.Acquire(t.Context(), key)
			if err != nil {
				t.Error(err)
			}
			waiting <- lock
		}()
		env.Soon(t, func() bool { return rival.Stats().Waiting == 1 }, "it waits")
		cluster.Failover(t, node)

		require.NoError(t, elsewhere.Extend(t.Context(), 12*time.Second), "other nodes are not concerned")
		env.Soon(t, func() bool {
			reply := replica.Do(t, "PTTL", key)
			n, err := reply.ToInt64()
			return err == nil && n > 11_000 // more than a second has passed
		}, "it is extended on the new primary")
		require.NoError(t, kept.Err())
		require.NoError(t, kept.Release(t.Context()))
		next := env.Receive(t, waiting)
		require.Greater(t, next.Fence(), kept.Fence())
	})
}
