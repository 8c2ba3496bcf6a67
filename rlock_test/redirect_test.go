package rlock_test

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

// move is a slot on its way from one node of a cluster to another.
type move struct {
	cluster  *bed.Cluster
	from, to *bed.Server
	slot     string
}

func nodeID(t *testing.T, node *bed.Server) string {
	t.Helper()
	reply := node.Do(t, "CLUSTER", "MYID")
	id, err := reply.ToString()
	require.NoError(t, err)
	return id
}

// begin has the old node send those who ask for keys that it does not have to the new
// one.
func (m *move) begin(t *testing.T) {
	t.Helper()
	m.to.Do(t, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", nodeID(t, m.from))
	m.from.Do(t, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", nodeID(t, m.to))
}

// carry moves the keys.
func (m *move) carry(t *testing.T) {
	t.Helper()
	reply := m.from.Do(t, "CLUSTER", "GETKEYSINSLOT", m.slot, "100")
	keys, err := reply.AsStrSlice()
	require.NoError(t, err)
	require.NotEmpty(t, keys)
	host, port, err := net.SplitHostPort(m.to.Addr())
	require.NoError(t, err)
	m.from.Do(t, append([]string{"MIGRATE", host, port, "", "0", "5000", "KEYS"}, keys...)...)
}

// end gives the slot to the new node.
func (m *move) end(t *testing.T) {
	t.Helper()
	id := nodeID(t, m.to)
	m.to.Do(t, "CLUSTER", "SETSLOT", m.slot, "NODE", id)
	for _, node := range m.cluster.Nodes {
		node.Do(t, "CLUSTER", "SETSLOT", m.slot, "NODE", id)
	}
}

// errorsOf tells how often a server has answered with an error of that kind.
func errorsOf(t *testing.T, server *bed.Server, kind string) int {
	t.Helper()
	reply := server.Do(t, "INFO", "errorstats")
	text, err := reply.ToString()
	require.NoError(t, err)
	_, count, ok := strings.Cut(text, "errorstat_"+kind+":count=")
	if !ok {
		return 0
	}
	count, _, _ = strings.Cut(count, "\r\n")
	n, err := strconv.Atoi(count)
	require.NoError(t, err)
	return n
}

// A slot that moves takes its locks along: those who hold them, and those who want
// them, are sent after them and notice nothing.
func TestSlotMoves(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		m := &move{cluster: cluster, from: cluster.Nodes[2], to: cluster.Nodes[0], slot: strconv.Itoa(int(gen.Slot("a")))}
		locker, rival := newLocker(t, cluster.Client(t)), newLocker(t, cluster.Client(t))
		extended, err := locker.Acquire(t.Context(), "{a}extended", rlock.WithTTL(6*time.Second), rlock.WithAutoExtend(true))
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
				state, err := lock.Check(t.Context())
				require.NoError(t, err)
				require.True(t, state.HeldBy(lock.Token()))
			}
			for _, err := range locker.ExtendEach(t.Context(), locks, time.Minute) {
				require.NoError(t, err)
			}
		}
		m.to.Do(t, "SCRIPT", "FLUSH")
		m.begin(t)
		held()
		m.carry(t)
		held()
		require.Positive(t, errorsOf(t, m.from, "ASK"))
		require.Positive(t, errorsOf(t, m.to, "NOSCRIPT"))
		renewed := locker.Stats().Extended
		soon(t, func() bool { return locker.Stats().Extended > renewed }, "it is extended where it is now")
		m.end(t)
		held()
		require.Positive(t, errorsOf(t, m.from, "MOVED"))
		require.True(t, extended.Valid())
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
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		m := &move{cluster: cluster, from: cluster.Nodes[2], to: cluster.Nodes[0], slot: strconv.Itoa(int(gen.Slot("a")))}
		locker := newLocker(t, cluster.Client(t))
		first, err := locker.TryAcquire(t.Context(), "{a}first")
		require.NoError(t, err)
		m.begin(t)
		surfaces(t, "TRYAGAIN", func(ctx context.Context) error {
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
		soon(t, func() bool { return locker.Stats().Attempts > tries+2 }, "it waits")
		m.carry(t)
		m.end(t)
		lock := <-got
		require.Greater(t, lock.Fence(), first.Fence())
		for _, lock := range []*rlock.Lock{first, unfenced, lock} {
			require.NoError(t, lock.Release(t.Context()))
		}
	})
}
