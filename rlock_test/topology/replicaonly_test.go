package topology

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// newLocker returns a Locker of a client that the caller has made.
func newLocker(t *testing.T, option rueidis.ClientOption) *rlock.Locker {
	t.Helper()
	client, err := rueidis.NewClient(option)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	locker, err := rlock.New(client)
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	return locker
}

// New cannot see that a client talks to replicas only. The first call says so, and so does Probe.
func TestClientOfReplicasOnly(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		t.Run("sentinel", func(t *testing.T) {
			option := e.StartSentinel(t).Option()
			option.ReplicaOnly = true
			locker := newLocker(t, option)
			require.ErrorContains(t, waited(t, locker), "READONLY")
			_, err := locker.TryAcquireAll(t.Context(), []string{"job", "other"})
			require.ErrorContains(t, err, "READONLY")
			state, err := locker.Check(t.Context(), "job")
			require.NoError(t, err)
			require.False(t, state.Held)
			report, err := locker.Probe(t.Context())
			require.NoError(t, err)
			require.ErrorContains(t, report.Err(), "ReplicaOnly")
		})
		t.Run("cluster", func(t *testing.T) {
			cluster := e.StartReplicatedCluster(t)
			seesReplicas(t, cluster)
			locker := newLocker(t, rueidis.ClientOption{InitAddress: cluster.Addrs(), ReplicaOnly: true})
			require.ErrorContains(t, waited(t, locker), "READONLY")
			report, err := locker.Probe(t.Context())
			require.NoError(t, err)
			require.ErrorContains(t, report.Err(), "ReplicaOnly")
		})
	})
}

// waited has somebody wait for a lock, as for a primary that may come, and returns the error.
func waited(t *testing.T, l *rlock.Locker) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := l.Acquire(ctx, "job")
	require.ErrorIs(t, err, rlock.ErrNoAnswer)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	return err
}

// A Sentinel client that sends reads to replicas sends them nothing that a lock depends on.
func TestSentinelWithReadsFromReplicas(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		s := e.StartSentinel(t)
		option := s.Option()
		option.SendToReplicas = func(cmd rueidis.Completed) bool { return cmd.IsReadOnly() }
		a, b := env.OpenLocker(t, option), env.OpenLocker(t, option)
		report, err := a.Probe(t.Context())
		require.NoError(t, err)
		require.NoError(t, report.Err(), "%s", report)
		s.Replica.Stop() // nothing waits for it
		held := env.MustLock(t)(a.Acquire(t.Context(), "job"))
		require.NoError(t, held.Verify(t.Context()))
		next := env.NextInLine(t, b, "job")
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, env.Taken(t, next).Release(t.Context()))
		s.Replica.Cont()
	})
}

// seesReplicas waits until each node tells clients of the replicas, which it does once it has heard that
// they have data.
func seesReplicas(t *testing.T, cluster *env.Cluster) {
	t.Helper()
	for i, node := range cluster.Nodes {
		node.Do(t, "SET", keyOn(t, cluster, i), "data")
		node.Do(t, "DEL", keyOn(t, cluster, i))
	}
	for _, node := range append(slices.Clone(cluster.Nodes), cluster.Replicas...) {
		env.Soon(t, func() bool {
			reply := node.Do(t, "CLUSTER", "SLOTS")
			ranges, err := reply.ToArray()
			require.NoError(t, err)
			return !slices.ContainsFunc(ranges, func(r rueidis.RedisMessage) bool {
				parts, err := r.ToArray()
				return err != nil || len(parts) < 4 // first slot, last slot, the primary, a replica
			})
		}, "the node tells of all replicas")
	}
}
