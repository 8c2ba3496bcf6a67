package topology

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A connection for grants that breaks is replaced, and grants are pushed again.
func TestClusterQueueAfterABreak(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		a, b := openOn(t, cluster), openOn(t, cluster)
		key, node := keyOn(t, cluster, 1), cluster.Nodes[1]
		held := env.MustLock(t)(a.Acquire(t.Context(), key, rlock.WithTTL(time.Minute)))
		got := waitsAt(t, node, b, key)
		node.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
		env.Soon(t, func() bool { return len(channelsAt(t, node)) == 1 }, "it listens again")
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, env.Taken(t, got).Release(t.Context()))
		isPushed(t, node, a, b, key)
		require.Equal(t, 1, listenersAt(t, node))
	})
}

// The primary of a key for which processes wait is replaced: whoever waits gets the lock, and grants
// are pushed by the new primary.
func TestClusterQueueFailover(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, c *env.Cluster){
		"the primary dies":       func(t *testing.T, c *env.Cluster) { c.Failover(t, 1) },
		"the primary is demoted": func(t *testing.T, c *env.Cluster) { c.Replicas[1].Do(t, "CLUSTER", "FAILOVER") },
		"the primary stands still": func(t *testing.T, c *env.Cluster) {
			c.Nodes[1].Stop()
			t.Cleanup(c.Nodes[1].Cont)
			c.Replicas[1].Do(t, "CLUSTER", "FAILOVER", "TAKEOVER")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env.Each(t, func(t *testing.T, e env.Engine) {
				t.Parallel()
				cluster := e.StartReplicatedCluster(t)
				option := rueidis.ClientOption{InitAddress: cluster.Addrs()}
				option.ClusterOption.ShardsRefreshInterval = time.Second
				a, b := env.OpenLocker(t, option), env.OpenLocker(t, option)
				key, promoted := keyOn(t, cluster, 1), cluster.Replicas[1]
				held := env.MustLock(t)(a.Acquire(t.Context(), key, rlock.WithTTL(2*time.Minute)))
				got := waitsAt(t, cluster.Nodes[1], b, key)
				require.Len(t, channelsAt(t, cluster.Nodes[1]), 1)
				require.Empty(t, channelsAt(t, promoted), "a replica is not asked")
				lose(t, cluster)
				env.Soon(t, func() bool {
					role := promoted.Do(t, "ROLE")
					words, err := role.ToArray()
					require.NoError(t, err)
					text, err := words[0].ToString()
					require.NoError(t, err)
					return text == "master"
				}, "the replica is promoted")
				began := time.Now()
				// the client has not found the new primary yet: it goes on in the background
				if err := held.Release(t.Context()); err != nil {
					require.NotEqual(t, "the primary is demoted", name)
				}
				released := time.Now()
				next := env.Taken(t, got)
				t.Logf("released in %v, taken %v later", released.Sub(began), time.Since(released))
				require.NoError(t, next.Release(t.Context()))
				isPushed(t, promoted, a, b, key)
				t.Logf("pushed after %v", time.Since(began))
				require.Len(t, channelsAt(t, promoted), 1)
			})
		})
	}
}

// While a node stands still, those who wait for keys of the others are told of grants as before; those
// who wait for a key of that node get it when it goes on.
func TestClusterQueueOnASilentNode(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		a, b := openOn(t, cluster), openOn(t, cluster)
		silent, other := keyOn(t, cluster, 1), keyOn(t, cluster, 0)
		held := env.MustLock(t)(a.Acquire(t.Context(), silent, rlock.WithTTL(2*time.Minute)))
		got := waitsAt(t, cluster.Nodes[1], b, silent)
		isPushed(t, cluster.Nodes[0], a, b, other)
		cluster.Nodes[1].Stop()
		isPushed(t, cluster.Nodes[0], a, b, other)
		for i := range 3 { // of slots in which nobody has waited so far
			isPushed(t, cluster.Nodes[2], a, b, keyFrom(cluster, 2, 1000*(i+1)))
		}
		cluster.Nodes[1].Cont()
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, env.Taken(t, got).Release(t.Context()))
		isPushed(t, cluster.Nodes[1], a, b, silent)
	})
}

// Processes listen at the primary, also where the client reads from replicas.
func TestClusterQueueBesideReplicas(t *testing.T) {
	t.Parallel()
	changes := map[string]func(o *rueidis.ClientOption){
		"reads go to replicas": func(o *rueidis.ClientOption) {
			o.SendToReplicas = func(c rueidis.Completed) bool { return c.IsReadOnly() }
		},
		"RESP2":                     func(o *rueidis.ClientOption) { o.AlwaysRESP2, o.DisableCache = true, true },
		"no cache":                  func(o *rueidis.ClientOption) { o.DisableCache = true },
		"one connection for blocks": func(o *rueidis.ClientOption) { o.BlockingPoolSize = 1 },
		"no pipelining":             func(o *rueidis.ClientOption) { o.DisableAutoPipelining = true },
	}
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartReplicatedCluster(t)
		seesReplicas(t, cluster)
		a := openOn(t, cluster)
		for name, change := range changes {
			t.Run(name, func(t *testing.T) {
				option := rueidis.ClientOption{InitAddress: cluster.Addrs()}
				change(&option)
				b := env.OpenLocker(t, option)
				for i := range cluster.Nodes {
					isPushed(t, cluster.Nodes[i], a, b, keyOn(t, cluster, i))
					require.Empty(t, channelsAt(t, cluster.Replicas[i]))
				}
				b.Close()
			})
		}
	})
}

// A user of a cluster who lacks a right for the queue works as without it.
func TestClusterQueueWithoutRights(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		for i, denied := range []string{"-spublish", "-ssubscribe", "-pubsub|shardnumsub", "-zadd", "-zrem",
			"-sunsubscribe", "resetchannels", "resetkeys ~key* ~rlock:fence:*"} {
			t.Run(denied, func(t *testing.T) {
				for _, node := range cluster.Nodes {
					node.Do(t, append([]string{"ACL", "SETUSER", "u", "reset", "on", ">secret", "~*", "&*", "+@all"},
						strings.Fields(denied)...)...)
				}
				option := rueidis.ClientOption{InitAddress: cluster.Addrs(), Username: "u", Password: "secret"}
				a, b := env.OpenLocker(t, option), env.OpenLocker(t, option)
				key := keyFrom(cluster, i%3, 1000*i)
				for range 3 {
					held := env.MustLock(t)(a.Acquire(t.Context(), key))
					next := env.NextInLine(t, b, key)
					time.Sleep(20 * time.Millisecond)
					began := time.Now()
					require.NoError(t, held.Release(t.Context()))
					lock := env.Taken(t, next)
					require.Less(t, time.Since(began), 5*time.Second, "it has waited for more than its next look")
					require.NoError(t, lock.Release(t.Context()))
				}
				require.LessOrEqual(t, a.Stats().Attempts+b.Stats().Attempts, uint64(150), "nobody asks all the time")
			})
		}
	})
}

// Close ends waits in many slots, also beside a node that stands still, and leaves no goroutine.
func TestClusterCloseWhileQueued(t *testing.T) { // counts goroutines: not in parallel
	env.Each(t, func(t *testing.T, e env.Engine) {
		cluster := e.StartCluster(t)
		a := openOn(t, cluster)
		keys := env.Keys(30)
		locks := env.TakeEach(t, a, keys, rlock.WithTTL(2*time.Minute))
		before := runtime.NumGoroutine()
		b := openOn(t, cluster)
		failed := make(chan error, len(keys))
		for _, key := range keys {
			go func() { failed <- env.ErrorOf(b.Acquire(context.Background(), key)) }()
		}
		env.AwaitWaiting(t, b, int64(len(keys)))
		env.Soon(t, func() bool {
			n := 0
			for _, node := range cluster.Nodes {
				n += len(channelsAt(t, node))
			}
			return n == len(keys)
		}, "it listens in each slot")
		cluster.Nodes[0].Stop()
		began := time.Now()
		b.Close()
		took := time.Since(began)
		cluster.Nodes[0].Cont()
		require.Less(t, took, 10*time.Second)
		for range keys {
			require.True(t, errors.Is(env.Receive(t, failed), rlock.ErrClosed))
		}
		for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(
			10 * time.Millisecond) {
			require.True(t, time.Now().Before(end), "goroutines are left")
		}
		for _, node := range cluster.Nodes {
			env.Soon(t, func() bool { return listenersAt(t, node) == 0 }, "no connection is left")
		}
		for _, err := range a.ReleaseEach(t.Context(), locks) {
			require.NoError(t, err)
		}
	})
}
