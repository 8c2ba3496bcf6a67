package rlock_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

// split starts to move the slot of keys, which the last node has, to the first one, and
// has one key there already.
func split(t *testing.T, c *bed.Cluster, key string) *move {
	t.Helper()
	m := &move{cluster: c, from: c.Nodes[2], to: c.Nodes[0], slot: fmt.Sprint(gen.Slot(key))}
	m.begin(t)
	host, port, err := net.SplitHostPort(m.to.Addr())
	require.NoError(t, err)
	m.from.Do(t, "MIGRATE", host, port, key, "0", "5000")
	return m
}

// While a slot moves, a script whose keys are on two nodes runs on neither: TRYAGAIN.
// Who waits, waits for that too; who does not is told; and a lock that is held lasts.
// A slot that nobody has is CLUSTERDOWN.
func TestSlotsThatMove(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		t.Run("extend and acquire", func(t *testing.T) { acquireWhileASlotMoves(t, cluster) })
		t.Run("release", func(t *testing.T) { releaseWhileASlotMoves(t, cluster) })
		t.Run("nobody has it", func(t *testing.T) { acquireInALostSlot(t, cluster) })
	})
}

func acquireWhileASlotMoves(t *testing.T, cluster *bed.Cluster) {
	client := cluster.Client(t)
	locker, rival := newLocker(t, client), newLocker(t, client)
	keys := []string{"{a}1", "{a}2"}
	held, err := locker.AcquireAll(t.Context(), keys, rlock.WithTTL(3*time.Second), rlock.WithAutoExtend(true))
	require.NoError(t, err)

	m := split(t, cluster, "{a}1")
	for _, call := range []func(ctx context.Context) error{
		func(ctx context.Context) error { return held.Extend(ctx, time.Minute) },
		func(ctx context.Context) error {
			_, err := held.Check(ctx)
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
		surfaces(t, "TRYAGAIN", call)
	}
	one, all := make(chan *rlock.Lock, 1), make(chan *rlock.Lock, 1)
	go func() { one <- mustLock(t)(rival.Acquire(t.Context(), "{a}new")) }()
	go func() { all <- mustLock(t)(rival.AcquireAll(t.Context(), keys)) }()
	soon(t, func() bool { return rival.Stats().Attempts > 10 }, "they ask again and again")
	soon(t, func() bool { return locker.Stats().ExtendFailed >= 3 }, "it is extended again and again")
	require.True(t, held.Valid())
	require.Empty(t, one)
	require.Empty(t, all)

	m.carry(t)
	m.end(t)
	extended := locker.Stats().Extended
	single := <-one
	require.Greater(t, single.Fence(), held.Fence(), "the counter has moved too")
	soon(t, func() bool { return locker.Stats().Extended > extended }, "it is extended at its new place")
	require.True(t, held.Valid())
	require.NoError(t, held.Release(t.Context()))
	set := <-all
	require.Greater(t, set.Fence(), single.Fence())
	for _, key := range keys {
		require.Equal(t, set.Token(), get(t, client, key))
	}
	require.NoError(t, single.Release(t.Context()))
	require.NoError(t, set.Release(t.Context()))
}

// A release that was refused can be called again.
func releaseWhileASlotMoves(t *testing.T, cluster *bed.Cluster) {
	client := cluster.Client(t)
	set, err := newLocker(t, client).AcquireAll(t.Context(), []string{"{foo}1", "{foo}2"}, rlock.WithTTL(rlock.NoExpiry))
	require.NoError(t, err)
	m := split(t, cluster, "{foo}2")
	surfaces(t, "TRYAGAIN", func(ctx context.Context) error { return set.Release(ctx) })
	m.carry(t)
	m.end(t)
	require.NoError(t, set.Release(t.Context()))
	require.Empty(t, get(t, client, "{foo}1"))
	require.Empty(t, get(t, client, "{foo}2"))
}

func acquireInALostSlot(t *testing.T, cluster *bed.Cluster) {
	node, slot := cluster.Nodes[0], fmt.Sprint(gen.Slot("b"))
	for _, node := range cluster.Nodes {
		node.Do(t, "CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	locker := newLocker(t, cluster.Client(t))
	held, err := locker.Acquire(t.Context(), "{b}held", rlock.WithTTL(time.Minute))
	require.NoError(t, err)
	node.Do(t, "CLUSTER", "DELSLOTS", slot)
	surfaces(t, "CLUSTERDOWN", func(ctx context.Context) error { return errorOf(locker.TryAcquire(ctx, "{b}job")) })
	surfaces(t, "CLUSTERDOWN", func(ctx context.Context) error { return held.Extend(ctx, time.Hour) })
	require.True(t, held.Valid(), "an error is not a loss")
	other, err := locker.Acquire(t.Context(), "c")
	require.NoError(t, err, "other slots are served")
	require.NoError(t, other.Release(t.Context()))
	before := locker.Stats().Attempts
	waiting := make(chan *rlock.Lock, 1)
	go func() { waiting <- mustLock(t)(locker.Acquire(t.Context(), "{b}waited for")) }()
	soon(t, func() bool { return locker.Stats().Attempts >= before+3 }, "who waits, asks again and again")

	node.Do(t, "CLUSTER", "ADDSLOTS", slot)
	require.NoError(t, (<-waiting).Release(t.Context()))
	require.NoError(t, held.Extend(t.Context(), time.Hour))
	lock, err := locker.TryAcquire(t.Context(), "{b}job")
	require.NoError(t, err, "nothing was left behind")
	require.NoError(t, lock.Release(t.Context()))
	require.NoError(t, held.Release(t.Context()))
}

// mustLock returns the lock of a call that must succeed, in a goroutine of a test.
func mustLock(t *testing.T) func(*rlock.Lock, error) *rlock.Lock {
	return func(lock *rlock.Lock, err error) *rlock.Lock {
		if err != nil {
			t.Error(err)
		}
		return lock
	}
}
