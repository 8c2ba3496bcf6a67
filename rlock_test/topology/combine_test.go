package topology

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// manyCalls counts the scripts for many calls that a client sends, and what the servers refuse of them.
type manyCalls struct {
	sent, refused atomic.Int64
	tries, passes atomic.Int64 // of those that were not refused
	mixed         atomic.Int64 // with keys of several slots
	lose          atomic.Int64 // how many replies of them are still to be lost
}

// accepted is how many were not refused.
func (c *manyCalls) accepted() int64 { return c.tries.Load() + c.passes.Load() }

// on is a Fault that counts.
func (c *manyCalls) on(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
	many := env.Calls(words, gen.AcquireManySHA1) || env.Calls(words, gen.ReleaseManySHA1)
	if !many || words[2] == "1" { // of one key, without its queue
		return run()
	}
	c.sent.Add(1)
	n, _ := strconv.Atoi(words[2])
	for _, key := range words[3 : 3+n] {
		if redislua.Slot(key) != redislua.Slot(words[3]) {
			c.mixed.Add(1)
		}
	}
	reply := run()
	_, refused := rueidis.IsRedisErr(reply.Error())
	switch {
	case refused:
		c.refused.Add(1)
	case env.Calls(words, gen.AcquireManySHA1):
		c.tries.Add(1)
	default:
		c.passes.Add(1)
	}
	if c.lose.Add(-1) >= 0 {
		return env.NoReply()
	}
	return reply
}

// countingOn returns a client of a cluster whose scripts for many calls are counted.
func countingOn(t *testing.T, c *env.Cluster, opts ...func(*rueidis.ClientOption)) (*env.Faulty, *manyCalls) {
	t.Helper()
	f, calls := &env.Faulty{Client: c.Client(t, opts...)}, new(manyCalls)
	require.NoError(t, gen.New().Load(t.Context(), f.Client))
	f.When(calls.on)
	return f, calls
}

// tagged returns n keys of the slot of tag.
func tagged(tag string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("{%s}%d", tag, i)
	}
	return keys
}

// cycles takes and releases each key some times, all keys at the same time, and checks that fences rise.
func cycles(t *testing.T, locker *rlock.Locker, keys []string, turns int) {
	t.Helper()
	require.NoError(t, env.Together(len(keys), func(i int) error {
		var fence uint64
		for range turns {
			lock, err := locker.Acquire(t.Context(), keys[i])
			if err != nil {
				return fmt.Errorf("%s: %w", keys[i], err)
			}
			if lock.Fence() <= fence {
				return fmt.Errorf("%s: fence %d after %d", keys[i], lock.Fence(), fence)
			}
			fence = lock.Fence()
			if err := lock.Release(t.Context()); err != nil {
				return fmt.Errorf("%s: %w", keys[i], err)
			}
		}
		return nil
	}))
}

// nothingAt waits until a node has no key that starts with one of the tags, and no queue. That may take as
// long as the reaper repeats calls, on a busy machine; a queue that is forgotten ends by itself after half a
// minute.
func nothingAt(t *testing.T, nodes []*env.Server, tags ...string) {
	t.Helper()
	left := func() (keys []string) {
		for _, node := range nodes {
			for _, pattern := range append(tags, "rlock:queue:") {
				reply := node.Do(t, "KEYS", pattern+"*")
				found, err := reply.AsStrSlice()
				require.NoError(t, err)
				keys = append(keys, found...)
			}
		}
		return keys
	}
	defer func() {
		if t.Failed() {
			t.Logf("left are %q", left())
		}
	}()
	require.Eventually(t, func() bool { return len(left()) == 0 }, 25*time.Second, 2*time.Millisecond,
		"neither locks nor places are left")
}

// On a cluster the calls of one slot go together, those of several slots never, and a lost reply leaves
// nothing.
func TestClusterCallsGoTogether(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		f, calls := countingOn(t, cluster)
		locker := env.NewLocker(t, f)
		for name, keys := range map[string][]string{
			"one slot":    tagged("a", 64),
			"three slots": append(append(tagged("a", 32), tagged("b", 32)...), tagged("c", 32)...),
		} {
			t.Run(name, func(t *testing.T) {
				tries, passes := calls.tries.Load(), calls.passes.Load()
				env.Soon(t, func() bool {
					cycles(t, locker, keys, 10)
					return calls.tries.Load() > tries && calls.passes.Load() > passes
				}, "calls go together")
				require.Zero(t, calls.mixed.Load())
				require.Zero(t, calls.refused.Load())
			})
		}
		t.Run("replies are lost", func(t *testing.T) {
			calls.lose.Store(6)
			env.Soon(t, func() bool {
				cycles(t, locker, tagged("a", 64), 10)
				return calls.lose.Load() < 0
			}, "replies are lost")
		})
		nothingAt(t, cluster.Nodes, "{a}", "{b}", "{c}")
	})
}

// Locks of a slot that are released together, and for which others wait, are then passed on one by one.
// Those who wait need no script to notice it.
func TestClusterManyReleasesArePushed(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		tag := keyOn(t, cluster, 1)
		f, calls := countingOn(t, cluster)
		a, b := env.NewLocker(t, f), openOn(t, cluster)
		keys := tagged(tag, 64)
		for end, pushed := time.Now().Add(time.Minute), false; !pushed; {
			require.True(t, time.Now().Before(end), "grants of scripts for many calls are not pushed")
			locks := env.TakeEach(t, a, keys, rlock.WithTTL(time.Minute))
			var got []<-chan *rlock.Lock
			for _, key := range keys {
				got = append(got, waitsAt(t, cluster.Nodes[1], b, key))
			}
			before, scripts := calls.passes.Load(), cluster.Nodes[1].ScriptCalls(t)
			require.NoError(t, env.Together(len(keys), func(i int) error { return locks[i].Release(t.Context()) }))
			var next []*rlock.Lock
			for i := range got {
				next = append(next, env.Taken(t, got[i]))
				require.Greater(t, next[i].Fence(), locks[i].Fence())
			}
			took := cluster.Nodes[1].ScriptCalls(t) - scripts
			for _, err := range b.ReleaseEach(t.Context(), next) {
				require.NoError(t, err)
			}
			t.Logf("%d scripts", took)
			pushed = calls.passes.Load() > before && took <= int64(len(keys))+calls.passes.Load()-before
		}
		nothingAt(t, cluster.Nodes, "{"+tag+"}")
	})
}

// Who releases a lock that is lost is told so among many who release theirs.
func TestClusterLostLocksAmongManyReleases(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		f, calls := countingOn(t, cluster)
		locker, keys := env.NewLocker(t, f), tagged("a", 64)
		require.Eventually(t, func() bool {
			locks := env.TakeEach(t, locker, keys, rlock.WithTTL(time.Hour))
			for i := 0; i < len(keys); i += 3 {
				require.NoError(t, env.Do(t, f.Client, "DEL", keys[i]).Error())
			}
			before := calls.passes.Load()
			require.NoError(t, env.Together(len(keys), func(i int) error {
				err := locks[i].Release(t.Context())
				if lost := i%3 == 0; lost != errors.Is(err, rlock.ErrNotHeld) {
					return fmt.Errorf("%s: lost is %v, and its release says: %v", keys[i], lost, err)
				}
				return nil
			}))
			return calls.passes.Load() > before
		}, time.Minute, 2*time.Millisecond, "releases go together")
		nothingAt(t, cluster.Nodes, "{a}")
	})
}

// repeating returns again, which calls a function over and over in a goroutine, and what ends all of them.
func repeating() (again func(func()), stop func()) {
	var all sync.WaitGroup
	ended := make(chan struct{})
	return func(f func()) {
			all.Go(func() {
				for {
					select {
					case <-ended:
						return
					default:
						f()
					}
				}
			})
		}, sync.OnceFunc(func() {
			close(ended)
			all.Wait()
		})
}

// While a slot moves to and fro, scripts for many of its calls are refused, and each call goes on by itself:
// one holds a lock at a time, fences rise, nobody is told of it, and nothing is left.
func TestClusterManyCallsWhileTheirSlotMoves(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		tag := keyOn(t, cluster, 2)
		const shared = 8
		var (
			holders [shared]atomic.Int32
			fences  [shared]atomic.Uint64
			own     [2][48]uint64 // fences of the keys that nobody else wants
			got     atomic.Int64
			counts  []*manyCalls
		)
		again, stop := repeating()
		defer stop()
		for process := range 2 {
			f, calls := countingOn(t, cluster)
			counts = append(counts, calls)
			locker := env.NewLocker(t, f)
			for caller := range 48 {
				key := fmt.Sprintf("{%s}own%d:%d", tag, process, caller)
				again(func() {
					lock, err := locker.Acquire(t.Context(), key)
					if err != nil {
						t.Error(err)
						return
					}
					if own[process][caller] >= lock.Fence() {
						t.Errorf("fence %d after %d", lock.Fence(), own[process][caller])
					}
					own[process][caller] = lock.Fence()
					if err := lock.Release(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			for range 2 * shared {
				again(func() {
					// a busy machine takes longer than the first
					limit := []time.Duration{40 * time.Millisecond, time.Second}[rand.IntN(2)]
					ctx, cancel := context.WithTimeout(t.Context(), rand.N(limit))
					defer cancel()
					n := rand.IntN(shared)
					// it must not end by itself
					lock, err := locker.Acquire(ctx, fmt.Sprintf("{%s}shared%d", tag, n), rlock.WithTTL(time.Hour))
					if err != nil {
						if !errors.Is(err, context.DeadlineExceeded) {
							t.Error(err)
						}
						return
					}
					if holders[n].Add(1) != 1 {
						t.Error("two holders")
					}
					if before := fences[n].Swap(lock.Fence()); before >= lock.Fence() {
						t.Errorf("fence %d after %d", lock.Fence(), before)
					}
					got.Add(1)
					holders[n].Add(-1)
					if err := lock.Release(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
		}
		m := moveOf(cluster, tag)
		refused := func() int64 { return counts[0].refused.Load() + counts[1].refused.Load() }
		accepted := func() int64 { return counts[0].accepted() + counts[1].accepted() }
		rises := func(what string) {
			before := accepted()
			env.Soon(t, func() bool { return accepted() > before }, what)
		}
		for end, hit := time.Now().Add(time.Minute), 0; hit < 4; {
			require.True(t, time.Now().Before(end), "moves meet scripts for many calls")
			rises("calls go together")
			before := refused()
			m.Begin(t)
			m.CarryAll(t)
			m.End(t)
			m.From, m.To = m.To, m.From
			if refused() > before {
				hit++
			}
		}
		rises("calls go together again")
		stop()
		t.Logf("%d shared locks taken, %d scripts for many calls refused", got.Load(), refused())
		require.Positive(t, got.Load())
		nothingAt(t, cluster.Nodes, "{"+tag+"}")
	})
}

// Whatever a node refuses of one call among many, or of all, each caller is told what it would be told alone.
func TestClusterManyCallsAreToldTheSame(t *testing.T) {
	t.Parallel()
	kinds := []string{"TRYAGAIN", "CLUSTERDOWN", "ermission"}
	kind := func(err error) string {
		switch {
		case err == nil:
			return "taken"
		case errors.Is(err, rlock.ErrHeld):
			return "held"
		case errors.Is(err, rueidis.ErrNoSlot): // the client has asked where the slots are meanwhile
			return "CLUSTERDOWN"
		}
		for _, text := range kinds {
			if strings.Contains(err.Error(), text) {
				return text
			}
		}
		return err.Error()
	}
	for name, test := range map[string]struct {
		begin func(t *testing.T, c *env.Cluster, tag string) (end func())
		want  []string // each is told to somebody
	}{
		"the slot moves": {
			begin: func(t *testing.T, c *env.Cluster, tag string) func() {
				m := env.SplitSlot(t, c, "{"+tag+"}0")
				return func() {
					m.CarryAll(t)
					m.End(t)
				}
			},
			want: []string{"taken", "held", "TRYAGAIN"},
		},
		"nobody has the slot": {
			begin: func(t *testing.T, c *env.Cluster, tag string) func() {
				slot := fmt.Sprint(redislua.Slot(tag))
				for _, node := range c.Nodes {
					node.Do(t, "CONFIG", "SET", "cluster-require-full-coverage", "no")
				}
				c.Nodes[2].Do(t, "CLUSTER", "DELSLOTS", slot)
				return func() { c.Nodes[2].Do(t, "CLUSTER", "ADDSLOTS", slot) }
			},
			want: []string{"CLUSTERDOWN"},
		},
		"a key is forbidden": {
			begin: func(t *testing.T, c *env.Cluster, tag string) func() {
				for _, node := range c.Nodes {
					node.Do(t, "ACL", "SETUSER", "app", "resetkeys", "~{"+tag+"}*[0-6]", "~rlock:*")
				}
				return func() {}
			},
			want: []string{"taken", "held", "ermission"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env.Each(t, func(t *testing.T, e env.Engine) {
				t.Parallel()
				cluster := e.StartCluster(t)
				for _, node := range cluster.Nodes {
					node.Do(t, "ACL", "SETUSER", "app", "reset", "on", ">secret", "~*", "&*", "+@all")
				}
				tag := keyOn(t, cluster, 2)
				keys := tagged(tag, 96)
				var held []*rlock.Lock
				for i := 0; i < len(keys); i += 10 {
					held = append(held,
						env.MustLock(t)(env.NewLocker(t, cluster.Client(t)).TryAcquire(t.Context(), keys[i],
							rlock.WithTTL(time.Minute))))
				}
				f, calls := countingOn(t, cluster,
					func(o *rueidis.ClientOption) { o.Username, o.Password = "app", "secret" })
				try := func(locker *rlock.Locker, i int) string {
					lock, err := locker.TryAcquire(t.Context(), keys[i], rlock.WithFence(i%3 > 0))
					if err == nil {
						err = lock.Release(t.Context())
					}
					return kind(err)
				}
				end := test.begin(t, cluster, tag)
				alone, told := env.NewLocker(t, f), make([]string, len(keys))
				for i := range keys {
					told[i] = try(alone, i)
				}
				require.Zero(t, calls.sent.Load())
				for _, kind := range test.want {
					require.Contains(t, told, kind)
				}
				env.Soon(t, func() bool {
					locker := env.NewLocker(t, f) // one that was refused sends each call by itself for a while
					together := make([]string, len(keys))
					require.NoError(t, env.Together(len(keys), func(i int) error {
						together[i] = try(locker, i)
						return nil
					}))
					require.Equal(t, told, together)
					return calls.refused.Load() > 0
				}, "a script for many calls is refused")
				end()
				for _, lock := range held {
					require.NoError(t, lock.Release(t.Context()))
				}
				nothingAt(t, cluster.Nodes, "{"+tag+"}")
			})
		})
	}
}

// The primary of many locks dies while their calls go together: all callers go on at the new one.
func TestClusterManyCallsAfterAFailover(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartReplicatedCluster(t)
		tag := keyOn(t, cluster, 1)
		f, calls := countingOn(t, cluster,
			func(o *rueidis.ClientOption) { o.ClusterOption.ShardsRefreshInterval = time.Second })
		locker := env.NewLocker(t, f, rlock.WithTTL(3*time.Second))
		var (
			promoted atomic.Bool
			since    [64]atomic.Int64 // cycles of each caller that began after the failover
		)
		again, stop := repeating()
		defer stop()
		for caller, key := range tagged(tag, len(since)) {
			again(func() {
				late := promoted.Load()
				lock, err := locker.Acquire(t.Context(), key)
				if err != nil {
					t.Error(err)
					return
				}
				err = lock.Release(t.Context()) // an error: it goes on in the background
				if late && err == nil {
					since[caller].Add(1)
				}
			})
		}
		env.Soon(t, func() bool { return calls.sent.Load() > 10 }, "calls go together")
		cluster.Failover(t, 1)
		promoted.Store(true)
		before := calls.sent.Load()
		require.Eventually(t, func() bool {
			for i := range since {
				if since[i].Load() < 10 {
					return false
				}
			}
			return calls.sent.Load() > before
		}, time.Minute, 10*time.Millisecond, "each caller goes on, and calls go together")
		stop()
		nothingAt(t, []*env.Server{cluster.Replicas[1]}, "{"+tag+"}")
	})
}

// While the primary of a slot stands still, scripts for many of its calls pile up there, and no caller's
// context ends them. Who calls when the client has found the new primary does not wait for them.
func TestClusterManyCallsGoOnAtTheNewPrimary(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartReplicatedCluster(t)
		tag := keyOn(t, cluster, 1)
		client := cluster.Client(t,
			func(o *rueidis.ClientOption) { o.ClusterOption.ShardsRefreshInterval = time.Second })
		locker := env.NewLocker(t, client)
		again, stop := repeating()
		defer stop()
		for _, key := range tagged(tag, 64) {
			again(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
				if lock, err := locker.Acquire(ctx, key); err == nil {
					_ = lock.Release(ctx)
				}
			})
		}
		time.Sleep(time.Second)
		cluster.Nodes[1].Stop()
		t.Cleanup(cluster.Nodes[1].Cont)
		time.Sleep(3 * time.Second)
		cluster.Replicas[1].Do(t, "CLUSTER", "FAILOVER", "TAKEOVER")
		require.Eventually(t, func() bool { // which may take the client tens of seconds
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			return client.Do(ctx, client.B().Set().Key("{"+tag+"}found").Value("").Build()).Error() == nil
		}, time.Minute, 2*time.Millisecond, "the client finds the new primary")
		found := time.Now()
		lock := env.MustLock(t)(locker.Acquire(t.Context(), "{"+tag+"}new"))
		t.Logf("acquired after %v", time.Since(found))
		require.Less(t, time.Since(found), 5*time.Second,
			"calls that wait for the old primary would keep it for eight")
		require.NoError(t, lock.Release(t.Context()))
		t.Logf("released after %v", time.Since(found))
		require.Less(t, time.Since(found), 5*time.Second)
	})
}
