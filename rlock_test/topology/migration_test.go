package topology

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// While a slot moves, a script whose keys are on two nodes runs on neither: TRYAGAIN.
// Who waits, waits for that too; who does not is told; and a lock that is held lasts.
// A slot that nobody has is CLUSTERDOWN.
func TestSlotsThatMove(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		t.Run("inspect and force", func(t *testing.T) { repairWhileASlotMoves(t, cluster) })
		t.Run("extend and acquire", func(t *testing.T) { acquireWhileASlotMoves(t, cluster) })
		t.Run("release", func(t *testing.T) { releaseWhileASlotMoves(t, cluster) })
		t.Run("nobody has it", func(t *testing.T) { acquireInALostSlot(t, cluster) })
	})
}

func acquireWhileASlotMoves(t *testing.T, cluster *env.Cluster) {
	client := cluster.Client(t)
	locker, rival := env.NewLocker(t, client), env.NewLocker(t, client)
	keys := []string{"{a}1", "{a}2"}
	held, err := locker.AcquireAll(t.Context(), keys, rlock.WithTTL(15*time.Second), rlock.WithAutoExtend(true))
	require.NoError(t, err)

	m := env.SplitSlot(t, cluster, "{a}1")
	for _, call := range []func(ctx context.Context) error{
		func(ctx context.Context) error { return held.Extend(ctx, time.Minute) },
		func(ctx context.Context) error {
			err := held.Verify(ctx)
			return err
		},
		func(ctx context.Context) error {
			_, err := locker.TryAcquireAll(ctx, keys)
			return err
		},
		func(ctx context.Context) error { // one key, whose counter is still at the old place
			_, err := locker.TryAcquire(ctx, "{a}new")
			return err
		},
	} {
		env.Surfaces(t, "TRYAGAIN", call)
	}
	one, all := make(chan *rlock.Lock, 1), make(chan *rlock.Lock, 1)
	go func() { one <- env.MustLock(t)(rival.Acquire(t.Context(), "{a}new")) }()
	go func() { all <- env.MustLock(t)(rival.AcquireAll(t.Context(), keys)) }()
	env.Soon(t, func() bool { return rival.Stats().Attempts > 10 }, "they ask again and again")
	env.Soon(t, func() bool { return locker.Stats().ExtendFailed >= 3 }, "it is extended again and again")
	require.NoError(t, held.Err())
	require.Empty(t, one)
	require.Empty(t, all)

	m.Carry(t)
	m.End(t)
	extended := locker.Stats().Extended
	single := env.Receive(t, one)
	require.Greater(t, single.Fence(), held.Fence(), "the counter has moved too")
	env.Soon(t, func() bool { return locker.Stats().Extended > extended }, "it is extended at its new place")
	require.NoError(t, held.Err())
	require.NoError(t, held.Release(t.Context()))
	set := env.Receive(t, all)
	require.Greater(t, set.Fence(), single.Fence())
	for _, key := range keys {
		require.Equal(t, set.Token(), env.Get(t, client, key))
	}
	require.NoError(t, single.Release(t.Context()))
	require.NoError(t, set.Release(t.Context()))
}

// A release that was refused can be called again.
func releaseWhileASlotMoves(t *testing.T, cluster *env.Cluster) {
	client := cluster.Client(t)
	set, err := env.NewLocker(t, client).AcquireAll(t.Context(), []string{"{foo}1", "{foo}2"},
		rlock.WithTTL(rlock.NoExpiry))
	require.NoError(t, err)
	m := env.SplitSlot(t, cluster, "{foo}2")
	env.Surfaces(t, "TRYAGAIN", func(ctx context.Context) error { return set.Release(ctx) })
	m.Carry(t)
	m.End(t)
	require.NoError(t, set.Release(t.Context()))
	require.Empty(t, env.Get(t, client, "{foo}1"))
	require.Empty(t, env.Get(t, client, "{foo}2"))
}

// Who holds a lock is told, and the lock freed, also while its other keys are on another node.
func repairWhileASlotMoves(t *testing.T, cluster *env.Cluster) {
	client := cluster.Client(t)
	locker := env.NewLocker(t, client, rlock.WithTTL(time.Hour), rlock.WithOwner("web-3"))
	held := env.MustLock(t)(locker.Acquire(t.Context(), "{d}held"))
	m := env.SplitSlot(t, cluster, "{d}held")
	require.Equal(t, held.Token(), env.HolderOf(t, locker, "{d}held").Token())
	admin, listed := env.Admin(locker), 0
	for state, err := range admin.List(t.Context(), "{d}*") {
		require.NoError(t, err)
		require.Equal(t, "web-3", state.Holders[0].Owner)
		listed++
	}
	require.Equal(t, 1, listed)
	require.NoError(t, admin.ForceRelease(t.Context(), "{d}held", held.Token()))
	require.Empty(t, env.Get(t, client, "{d}held"))
	m.CarryAll(t)
	m.End(t)
}

func acquireInALostSlot(t *testing.T, cluster *env.Cluster) {
	node, slot := cluster.Nodes[0], fmt.Sprint(redislua.Slot("b"))
	for _, node := range cluster.Nodes {
		node.Do(t, "CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	locker := env.NewLocker(t, cluster.Client(t))
	held, err := locker.Acquire(t.Context(), "{b}held", rlock.WithTTL(time.Minute))
	require.NoError(t, err)
	node.Do(t, "CLUSTER", "DELSLOTS", slot)
	env.Surfaces(t, "CLUSTERDOWN",
		func(ctx context.Context) error { return env.ErrorOf(locker.TryAcquire(ctx, "{b}job")) })
	env.Surfaces(t, "CLUSTERDOWN", func(ctx context.Context) error { return held.Extend(ctx, time.Hour) })
	require.NoError(t, held.Err(), "an error is not a loss")
	other, err := locker.Acquire(t.Context(), "c")
	require.NoError(t, err, "other slots are served")
	require.NoError(t, other.Release(t.Context()))
	before := locker.Stats().Attempts
	waiting := make(chan *rlock.Lock, 1)
	go func() { waiting <- env.MustLock(t)(locker.Acquire(t.Context(), "{b}waited for")) }()
	env.Soon(t, func() bool { return locker.Stats().Attempts >= before+3 }, "who waits, asks again and again")

	node.Do(t, "CLUSTER", "ADDSLOTS", slot)
	require.NoError(t, env.Receive(t, waiting).Release(t.Context()))
	require.NoError(t, held.Extend(t.Context(), time.Hour))
	lock, err := locker.TryAcquire(t.Context(), "{b}job")
	require.NoError(t, err, "nothing was left behind")
	require.NoError(t, lock.Release(t.Context()))
	require.NoError(t, held.Release(t.Context()))
}
