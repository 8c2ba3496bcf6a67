package topology

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// queueAt returns the names of the queues of a key on a node.
func queueAt(t *testing.T, node *env.Server, key string) []string {
	t.Helper()
	reply := node.Do(t, "KEYS", "rlock:queue:{*}:"+strings.ReplaceAll(key, "[", "\\["))
	names, err := reply.AsStrSlice()
	require.NoError(t, err)
	return names
}

// queuedAt returns who waits for a key on a node that has its queue.
func queuedAt(t *testing.T, node *env.Server, key string) []string {
	t.Helper()
	var all []string
	for _, name := range queueAt(t, node, key) {
		reply := node.Do(t, "ZRANGE", name, "0", "-1")
		members, err := reply.AsStrSlice()
		require.NoError(t, err)
		all = append(all, members...)
	}
	return all
}

// channelsAt returns the channels on which processes listen at a node.
func channelsAt(t *testing.T, node *env.Server) []string {
	t.Helper()
	reply := node.Do(t, "PUBSUB", "SHARDCHANNELS")
	names, err := reply.AsStrSlice()
	require.NoError(t, err)
	return names
}

// listenersAt is how many connections of a node have subscriptions.
func listenersAt(t *testing.T, node *env.Server) int {
	t.Helper()
	reply := node.Do(t, "CLIENT", "LIST", "TYPE", "pubsub")
	list, err := reply.ToString()
	require.NoError(t, err)
	return strings.Count(list, "\n")
}

func openOn(t *testing.T, c *env.Cluster, opts ...rlock.LockerOption) *rlock.Locker {
	t.Helper()
	return env.OpenLocker(t, rueidis.ClientOption{InitAddress: c.Addrs()}, opts...)
}

// waitsAt has a Locker acquire a key, and returns once it stands in the queue of the node.
func waitsAt(t *testing.T, node *env.Server, l *rlock.Locker, key string,
	opts ...rlock.Option) <-chan *rlock.Lock {
	t.Helper()
	return env.Enqueue(t, func() int { return len(queuedAt(t, node, key)) }, l, key, opts...)
}

// On a cluster a release passes the lock on to the process that waits first, and tells it: nothing
// else is asked. Processes listen only where they wait.
func TestClusterGrantIsPushed(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		a, b := openOn(t, cluster), openOn(t, cluster)
		for i, node := range cluster.Nodes {
			key := keyOn(t, cluster, i)
			held := env.MustLock(t)(a.Acquire(t.Context(), key))
			require.Empty(t, channelsAt(t, node), "nobody waits")
			for pushed := false; !pushed; {
				got := waitsAt(t, node, b, key)
				// its place may come before
				env.Soon(t, func() bool { return len(channelsAt(t, node)) == 1 }, "it listens")
				before := node.ScriptCalls(t)
				require.NoError(t, held.Release(t.Context()))
				next := env.Taken(t, got)
				pushed = node.ScriptCalls(t) == before+1 // otherwise a heartbeat came in between
				require.Greater(t, next.Fence(), held.Fence())
				require.NoError(t, next.Release(t.Context()))
				require.Empty(t, queueAt(t, node, key))
				held = env.MustLock(t)(a.Acquire(t.Context(), key))
			}
			require.NoError(t, held.Release(t.Context()))
		}
	})
}

// Processes get a lock of a cluster in the order in which they have come, whatever node it is on.
func TestClusterQueue(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		key := keyOn(t, cluster, 1)
		held := env.MustLock(t)(openOn(t, cluster).Acquire(t.Context(), key, rlock.WithTTL(time.Minute)))
		var got []<-chan *rlock.Lock
		for range 4 {
			got = append(got, waitsAt(t, cluster.Nodes[1], openOn(t, cluster), key))
		}
		for i := range got {
			fence := held.Fence()
			require.NoError(t, held.Release(t.Context()))
			held = env.Taken(t, got[i])
			require.Greater(t, held.Fence(), fence)
			env.Soon(t, func() bool { return len(queuedAt(t, cluster.Nodes[1], key)) == len(got)-1-i },
				"the others stand in the queue")
		}
		require.NoError(t, held.Release(t.Context()))
		require.Empty(t, queueAt(t, cluster.Nodes[1], key))
	})
}

// A process has at most one connection to each node on which to hear of grants, however many slots
// it waits in, and Close leaves none.
func TestClusterConnections(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		a, b := openOn(t, cluster), openOn(t, cluster)
		keys := env.Keys(60)
		locks := env.TakeEach(t, a, keys, rlock.WithTTL(time.Minute))
		var got []<-chan *rlock.Lock
		for _, key := range keys {
			got = append(got, env.NextInLine(t, b, key))
		}
		channels := func() (all []string) {
			for _, node := range cluster.Nodes {
				all = append(all, channelsAt(t, node)...)
			}
			return all
		}
		env.Soon(t, func() bool { return len(channels()) == len(keys) }, "it listens in each slot")
		for _, node := range cluster.Nodes {
			require.Equal(t, 1, listenersAt(t, node))
		}
		for _, err := range a.ReleaseEach(t.Context(), locks) {
			require.NoError(t, err)
		}
		for i := range got {
			require.NoError(t, env.Taken(t, got[i]).Release(t.Context()))
		}
		b.Close()
		for _, node := range cluster.Nodes {
			env.Soon(t, func() bool { return listenersAt(t, node) == 0 }, "the connections are closed")
		}
	})
}

// Who waits for a key of a cluster sends two scripts a second at most, and a lock that nobody else wants
// costs one script to take, one to release, and no subscription.
func TestClusterQueueCosts(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		scripts := func() (n int64) {
			for _, node := range cluster.Nodes {
				n += node.ScriptCalls(t)
			}
			return n
		}
		a, b := openOn(t, cluster), openOn(t, cluster)
		keys := env.Keys(30)
		for range 2 {
			before := scripts()
			for _, lock := range env.TakeEach(t, a, keys) {
				require.NoError(t, lock.Release(t.Context()))
			}
			if n := scripts() - before; before > 0 { // at first the scripts are loaded
				require.Equal(t, int64(2*len(keys)), n)
			}
		}
		for _, node := range cluster.Nodes {
			require.Empty(t, channelsAt(t, node))
			require.Zero(t, listenersAt(t, node))
		}

		locks := env.TakeEach(t, a, keys, rlock.WithTTL(time.Minute))
		var got []<-chan *rlock.Lock
		for _, key := range keys {
			got = append(got, env.NextInLine(t, b, key))
		}
		time.Sleep(time.Second)
		before, began := scripts(), time.Now()
		time.Sleep(10 * time.Second)
		rate := float64(scripts()-before) / time.Since(began).Seconds() / float64(len(keys))
		t.Logf("%.2f scripts a second for each that waits", rate)
		require.Less(t, rate, 2.1, "two on average: an interval is drawn from 450 to 550 ms, and some end at the "+
			"same time")
		for i, lock := range locks {
			require.NoError(t, lock.Release(t.Context()))
			require.NoError(t, env.Taken(t, got[i]).Release(t.Context()))
		}
	})
}
