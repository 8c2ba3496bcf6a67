package topology

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A slot that moves takes its locks along: those who hold them, and those who want
// them, are sent after them and notice nothing.
func TestSlotMoves(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		m := &env.SlotMove{Cluster: cluster, From: cluster.Nodes[2], To: cluster.Nodes[0],
			Slot: strconv.Itoa(int(redislua.Slot("a")))}
		locker, rival := env.NewLocker(t, cluster.Client(t)), env.NewLocker(t, cluster.Client(t))
		extended, err := locker.Acquire(t.Context(), "{a}extended", rlock.WithTTL(6*time.Second),
			rlock.WithAutoExtend(true))
		require.NoError(t, err)
		var locks []*rlock.Lock
		for _, keys := range [][]string{{"{a}1"}, {"{a}2"}, {"{a}3", "{a}4"}} {
			lock, err := locker.AcquireAll(t.Context(), keys)
			require.NoError(t, err)
			locks = append(locks, lock)
		}
		held := func() {
			t.Helper()
			_, err := rival.TryAcquire(t.Context(), "{a}1")
			require.ErrorIs(t, err, rlock.ErrHeld)
			for _, lock := range locks {
				require.NoError(t, lock.Extend(t.Context(), time.Minute))
				require.NoError(t, lock.Verify(t.Context()))
			}
			for _, err := range locker.ExtendEach(t.Context(), locks, time.Minute) {
				require.NoError(t, err)
			}
		}
		m.To.Do(t, "SCRIPT", "FLUSH")
		m.Begin(t)
		held()
		m.Carry(t)
		held()
		require.Positive(t, m.From.ErrorCount(t, "ASK"))
		require.Positive(t, m.To.ErrorCount(t, "NOSCRIPT"))
		renewed := locker.Stats().Extended
		env.Soon(t, func() bool { return locker.Stats().Extended > renewed }, "it is extended where it is now")
		m.End(t)
		held()
		require.Positive(t, m.From.ErrorCount(t, "MOVED"))
		require.NoError(t, extended.Err())
		for _, lock := range append(locks, extended) {
			require.NoError(t, lock.Release(t.Context()))
			next, err := rival.TryAcquireAll(t.Context(), lock.Keys())
			require.NoError(t, err)
			require.Greater(t, next.Fence(), lock.Fence(), "the counter came along")
		}
	})
}

// A lock that nobody holds, and whose fence is counted with a key of the same slot,
// cannot be taken until the slot has moved: of its two keys only one is anywhere. One
// without a fence is taken where the slot goes to.
func TestFreeLockOfASlotThatMoves(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		m := &env.SlotMove{Cluster: cluster, From: cluster.Nodes[2], To: cluster.Nodes[0],
			Slot: strconv.Itoa(int(redislua.Slot("a")))}
		locker := env.NewLocker(t, cluster.Client(t))
		first, err := locker.TryAcquire(t.Context(), "{a}first")
		require.NoError(t, err)
		m.Begin(t)
		env.Surfaces(t, "TRYAGAIN", func(ctx context.Context) error {
			_, err := locker.TryAcquire(ctx, "{a}job")
			return err
		})
		unfenced, err := locker.TryAcquire(t.Context(), "{a}unfenced", rlock.WithFence(false))
		require.NoError(t, err)
		got := make(chan *rlock.Lock, 1)
		go func() {
			lock, err := locker.Acquire(t.Context(), "{a}job")
			if err != nil {
				t.Error(err)
			}
			got <- lock
		}()
		tries := locker.Stats().Attempts
		env.Soon(t, func() bool { return locker.Stats().Attempts > tries+2 }, "it waits")
		m.Carry(t)
		m.End(t)
		lock := env.Receive(t, got)
		require.Greater(t, lock.Fence(), first.Fence())
		for _, lock := range []*rlock.Lock{first, unfenced, lock} {
			require.NoError(t, lock.Release(t.Context()))
		}
	})
}
