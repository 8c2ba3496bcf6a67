package topology

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// takesLong acquires locks whose next extension is twenty minutes away, so that only a message of the server
// can tell of their loss before. It returns once the server has been asked about them.
func takesLong(t *testing.T, l *rlock.Locker, keys ...string) []*rlock.Lock {
	t.Helper()
	var locks []*rlock.Lock
	for _, key := range keys {
		locks = append(locks,
			env.MustLock(t)(l.Acquire(t.Context(), key, rlock.WithTTL(time.Hour), rlock.WithAutoExtend(true))))
	}
	time.Sleep(200 * time.Millisecond)
	return locks
}

// lost waits until a lock has noticed that it is lost.
func lost(t *testing.T, lock *rlock.Lock) {
	t.Helper()
	env.Receive(t, lock.Context().Done())
	require.ErrorIs(t, lock.Err(), rlock.ErrNotHeld)
}

// A holder on a cluster learns at once that its lock was taken from it, on each node, also after it has
// extended the lock, and where the client reads from replicas.
func TestClusterLossIsNoticed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		start  func(e env.Engine, tb testing.TB) *env.Cluster
		option func(o *rueidis.ClientOption)
	}{
		"primaries": {func(e env.Engine, tb testing.TB) *env.Cluster { return e.StartCluster(tb) },
			func(*rueidis.ClientOption) {}},
		"replicas": {func(e env.Engine, tb testing.TB) *env.Cluster { return e.StartReplicatedCluster(tb) },
			func(o *rueidis.ClientOption) {
				o.SendToReplicas = func(command rueidis.Completed) bool { return command.IsReadOnly() }
			}},
		"all keys are tracked": {func(e env.Engine, tb testing.TB) *env.Cluster { return e.StartCluster(tb) },
			func(o *rueidis.ClientOption) {
				o.ClientTrackingOptions = []string{"PREFIX", "key", "BCAST"} // CLIENT CACHING is refused then
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env.Each(t, func(t *testing.T, e env.Engine) {
				cluster := test.start(e, t)
				option := rueidis.ClientOption{InitAddress: cluster.Addrs()}
				test.option(&option)
				holder, other, client := env.OpenLocker(t, option), openOn(t, cluster), cluster.Client(t)
				for i, node := range cluster.Nodes {
					key := keyOn(t, cluster, i)
					lock := takesLong(t, holder, key)[0]
					require.NoError(t, env.Admin(other).ForceRelease(t.Context(), key, lock.Token()))
					lost(t, lock)

					lock = takesLong(t, holder, key)[0]
					for range 3 {
						require.NoError(t, lock.Extend(t.Context(), time.Hour))
						time.Sleep(50 * time.Millisecond)
					}
					require.NoError(t, lock.Err())
					require.NoError(t, env.Admin(other).ForceRelease(t.Context(), key, lock.Token()))
					next := env.MustLock(t)(other.Acquire(t.Context(), key))
					lost(t, lock)
					require.NoError(t, next.Release(t.Context()))

					lock = takesLong(t, holder, key)[0]
					node.Do(t, "PEXPIRE", key, "5000")
					env.Soon(t, func() bool { return env.TTL(t, client, key) > time.Minute },
						"the holder extends the lease that somebody has shortened")
					require.NoError(t, lock.Release(t.Context()))
				}
			})
		})
	}
}

// Each of many locks in as many slots notices its loss, as does a set.
func TestClusterLossOfMany(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		cluster := e.StartCluster(t)
		holder := openOn(t, cluster)
		locks := takesLong(t, holder, env.Keys(300)...)
		set := env.MustLock(t)(holder.AcquireAll(t.Context(), []string{"{s}a", "{s}b"}, rlock.WithTTL(time.Hour),
			rlock.WithAutoExtend(true)))
		time.Sleep(200 * time.Millisecond)
		for _, lock := range append(locks, set) {
			require.NoError(t, lock.Err())
		}
		for _, node := range cluster.Nodes {
			node.Do(t, "FLUSHALL")
		}
		for _, lock := range append(locks, set) {
			lost(t, lock)
		}
	})
}

// A holder learns of its loss at once while the slot of its key moves and after that, even if it has done
// nothing meanwhile that would have shown it where the key is now.
func TestClusterLossAfterASlotMove(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		holder, other := openOn(t, cluster), openOn(t, cluster)
		for i, whole := range []bool{false, true} {
			key := keyFrom(cluster, 2, 1000*i) // of a slot of its own
			lock := takesLong(t, holder, key)[0]
			m := moveOf(cluster, key)
			m.Begin(t)
			m.Carry(t)
			if whole {
				m.End(t)
			}
			time.Sleep(200 * time.Millisecond)
			require.NoError(t, lock.Err())
			require.NoError(t, env.Admin(other).ForceRelease(t.Context(), key, lock.Token()))
			lost(t, lock)
			if !whole {
				m.End(t)
			}
		}
	})
}

// A silent node keeps no holder of another node's locks from learning of its loss soon, one after the other,
// also while the client connects to the silent node again. A Locker that has made its client waits no longer
// than one with a client of the caller.
func TestClusterLossBesideASilentNode(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		for name, open := range map[string]func(t *testing.T, option rueidis.ClientOption) *rlock.Locker{
			"Open": func(t *testing.T, option rueidis.ClientOption) *rlock.Locker { return env.OpenLocker(t, option) },
			"New": func(t *testing.T, option rueidis.ClientOption) *rlock.Locker {
				invalidations := rlock.NewInvalidations()
				option.OnInvalidations = invalidations.OnInvalidations
				client, err := rueidis.NewClient(option)
				require.NoError(t, err)
				t.Cleanup(client.Close)
				return env.NewLocker(t, client, rlock.WithInvalidations(invalidations))
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				cluster := e.StartCluster(t)
				// it connects again after that
				option := rueidis.ClientOption{InitAddress: cluster.Addrs(), ConnWriteTimeout: 2 * time.Second}
				locks := takesLong(t, open(t, option), env.Keys(60)...)
				cluster.Nodes[2].Stop()
				t.Cleanup(cluster.Nodes[2].Cont)
				time.Sleep(time.Second)
				for _, node := range cluster.Nodes[:2] {
					node.Do(t, "CLIENT", "KILL", "TYPE", "normal") // so that it is asked about all locks
				}
				longest := time.Duration(0)
				for i, lock := range locks {
					owner := env.FirstOwner(lock.Key())
					if owner == 2 {
						require.NoError(t, lock.Err())
						continue
					}
					deleted := time.Now()
					cluster.Nodes[owner].Do(t, "DEL", lock.Key())
					lost(t, lock)
					longest = max(longest, time.Since(deleted))
					time.Sleep(time.Duration(i%4) * 100 * time.Millisecond)
				}
				t.Log("known after", longest)
				require.Less(t, longest, 3*time.Second, "it has waited for the silent node")
			})
		}
	})
}

// A set of several slots that loses a key while the node of another key of it is silent learns of that: at
// once, or when the silent node was waited for once.
func TestCrossSlotLossBesideASilentNode(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		for name, connects := range map[string]time.Duration{"just silent": 200 * time.Millisecond,
			"the client connects to it": 4 * time.Second} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				cluster := e.StartCluster(t)
				option := rueidis.ClientOption{InitAddress: cluster.Addrs(), ConnWriteTimeout: 2 * time.Second}
				l := env.OpenLocker(t, option, rlock.WithTTL(time.Hour), rlock.WithAutoExtend(true),
					rlock.WithCrossSlot(true))
				var sets []*rlock.Lock
				for n := range 4 {
					keys := []string{keyFrom(cluster, 0, 1000*n), keyFrom(cluster, 1, 1000*n), keyFrom(cluster, 2, 1000*n)}
					sets = append(sets, env.MustLock(t)(l.AcquireAll(t.Context(), keys)))
				}
				time.Sleep(200 * time.Millisecond)
				cluster.Nodes[2].Stop()
				t.Cleanup(cluster.Nodes[2].Cont)
				for _, node := range cluster.Nodes[:2] {
					node.Do(t, "CLIENT", "KILL", "TYPE", "normal") // so that it is asked about all locks
				}
				time.Sleep(connects)
				for n, set := range sets {
					require.NoError(t, set.Err())
					lostFrom := time.Now()
					cluster.Nodes[n%2].Do(t, "SET", set.Keys()[n%2], "another", "PX", "3600000")
					lost(t, set)
					t.Log("known after", time.Since(lostFrom))
					require.Less(t, time.Since(lostFrom), 4*time.Second, "it has waited for the silent node")
				}
			})
		}
	})
}

// What an extension changes is read once, in one transaction for each slot.
func TestClusterLossCosts(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		holder := openOn(t, cluster, rlock.WithTTL(3*time.Second), rlock.WithAutoExtend(true))
		for _, key := range env.Keys(100) {
			env.MustLock(t)(holder.Acquire(t.Context(), key))
		}
		count := func(command string) (sum int64) {
			for _, node := range cluster.Nodes {
				sum += node.CommandStats(t)[command]
			}
			return sum
		}
		commands := []string{"evalsha", "multi", "client|caching", "exec", "pttl"}
		before := map[string]int64{}
		for _, command := range commands {
			before[command] = count(command)
		}
		time.Sleep(5 * time.Second)
		grown := map[string]int64{}
		for _, command := range commands {
			grown[command] = count(command) - before[command]
		}
		t.Log(grown)
		require.GreaterOrEqual(t, grown["evalsha"], int64(300))
		for _, command := range commands[1:4] {
			require.GreaterOrEqual(t, grown[command], grown["evalsha"]/2, command)
			require.LessOrEqual(t, grown[command], grown["evalsha"]*3/2, command)
		}
		require.Less(t, grown["pttl"], grown["evalsha"]/10, "nobody else has changed anything")
	})
}
