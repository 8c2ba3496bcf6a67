package topology

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// moveOf is the move of a key's slot from the last node to the first.
func moveOf(c *env.Cluster, key string) *env.SlotMove {
	return &env.SlotMove{Cluster: c, From: c.Nodes[2], To: c.Nodes[0],
		Slot: strconv.Itoa(int(redislua.Slot(key)))}
}

// isPushed waits until a grant of a key at a node costs one script, that of the release: its waiter
// needs none to notice it. A heartbeat may come in between.
func isPushed(t *testing.T, node *env.Server, a, b *rlock.Locker, key string) {
	t.Helper()
	for end, pushed := time.Now().Add(30*time.Second), false; !pushed; {
		require.True(t, time.Now().Before(end), "grants are not pushed at the node")
		held, err := a.Acquire(t.Context(), key, rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		got := waitsAt(t, node, b, key)
		before := node.ScriptCalls(t)
		require.NoError(t, held.Release(t.Context()))
		next := env.Taken(t, got)
		pushed = node.ScriptCalls(t) == before+1
		require.NoError(t, next.Release(t.Context()))
	}
}

// A slot moves while a process waits for a key of it: the process then listens at the new node.
func TestClusterQueueMoves(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		a, b := openOn(t, cluster), openOn(t, cluster)
		key := keyOn(t, cluster, 2)
		m := moveOf(cluster, key)
		held := env.MustLock(t)(a.Acquire(t.Context(), key, rlock.WithTTL(time.Minute)))
		got := waitsAt(t, m.From, b, key)
		m.Begin(t)
		m.Carry(t)
		m.End(t)
		env.Soon(t, func() bool { return len(channelsAt(t, m.To)) == 1 && len(channelsAt(t, m.From)) == 0 },
			"it listens at the new node")
		require.Equal(t, 1, listenersAt(t, m.To))
		env.Soon(t, func() bool { return listenersAt(t, m.From) == 0 }, "it leaves the old one")
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, env.Taken(t, got).Release(t.Context()))
		isPushed(t, m.To, a, b, key)
		require.Empty(t, queueAt(t, m.To, key))
	})
}

// Whatever a holder or a waiter does while the slot moves, the lock goes on.
func TestClusterQueueWhileItsSlotMoves(t *testing.T) {
	t.Parallel()
	releases := func(t *testing.T, held *rlock.Lock) { require.NoError(t, held.Release(t.Context())) }
	nothing := func(*testing.T, *rlock.Lock) {}
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		a, b, c := openOn(t, cluster), openOn(t, cluster), openOn(t, cluster)
		n := 0
		for name, holder := range map[string]struct {
			ttl           time.Duration
			during, after func(t *testing.T, held *rlock.Lock)
			leaves        bool
		}{
			"the holder releases":  {ttl: time.Minute, during: releases, after: nothing},
			"the waiter leaves":    {ttl: time.Minute, during: nothing, after: releases, leaves: true},
			"the holder holds on":  {ttl: time.Minute, during: nothing, after: releases},
			"the holder dies":      {ttl: 3 * time.Second, during: nothing, after: nothing},
			"all happens together": {ttl: time.Minute, during: releases, after: nothing, leaves: true},
		} {
			for step, carried := range map[string]bool{"at its beginning": false, "at its end": true} {
				n++
				key := keyFrom(cluster, 2, 1000*n) // of a slot of its own
				t.Run(name+" "+step, func(t *testing.T) {
					m := moveOf(cluster, key)
					held := env.MustLock(t)(a.Acquire(t.Context(), key, rlock.WithTTL(holder.ttl)))
					ctx, leave := context.WithCancel(t.Context())
					defer leave()
					first := make(chan *rlock.Lock, 1)
					go func() {
						lock, err := b.Acquire(ctx, key)
						if err != nil && !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
						first <- lock
					}()
					env.Soon(t, func() bool { return len(queuedAt(t, m.From, key)) == 1 }, "it stands in the queue")
					second := waitsAt(t, m.From, c, key)
					m.Begin(t)
					if carried {
						m.Carry(t)
					}
					holder.during(t, held)
					if holder.leaves {
						leave()
					}
					time.Sleep(time.Second)
					if !carried {
						m.CarryAll(t)
					}
					m.End(t)
					holder.after(t, held)
					for range 2 { // in any order
						select {
						case lock := <-first:
							if lock == nil {
								require.True(t, holder.leaves)
								continue
							}
							require.NoError(t, lock.Release(t.Context()))
						case lock := <-second:
							require.NoError(t, lock.Release(t.Context()))
						case <-time.After(time.Minute):
							require.FailNow(t, "a waiter is stranded")
						}
					}
					env.Soon(t, func() bool { return len(queueAt(t, m.To, key)) == 0 }, "nobody is left in the queue")
					isPushed(t, m.To, b, c, key)
				})
			}
		}
	})
}

// moving is how long TestClusterContentionWhileItsSlotMoves takes.
var moving = flag.Duration("moving", 6*time.Second, "how long a slot moves to and fro under contention")

// While a slot moves to and fro under contention, one holds the lock at a time, fences rise, and nobody
// waits for longer than 5 seconds. For more than 6 seconds of it:
//
//	go test ./rlock_test/topology -v -timeout=0 -run=ContentionWhileItsSlotMoves -args -moving=10m
func TestClusterContentionWhileItsSlotMoves(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		key := keyOn(t, cluster, 2)
		var inside, got, longest atomic.Int64
		var fence atomic.Uint64
		stop := make(chan struct{})
		var all sync.WaitGroup
		for range 4 {
			l := openOn(t, cluster, rlock.WithTTL(20*time.Second))
			for range 2 {
				all.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						ctx := t.Context()
						if rand.IntN(3) == 0 {
							short, cancel := context.WithTimeout(ctx, time.Duration(rand.IntN(40))*time.Millisecond)
							defer cancel()
							ctx = short
						}
						began := time.Now()
						lock, err := l.Acquire(ctx, key)
						if err != nil {
							if !errors.Is(err, context.DeadlineExceeded) {
								t.Error(err)
								return
							}
							continue
						}
						if d := int64(time.Since(began)); d > longest.Load() {
							longest.Store(d)
						}
						got.Add(1)
						if n := inside.Add(1); n != 1 {
							t.Errorf("%d hold the lock", n)
						}
						if before := fence.Swap(lock.Fence()); before >= lock.Fence() {
							t.Errorf("fence %d after %d", lock.Fence(), before)
						}
						time.Sleep(time.Duration(rand.IntN(3)) * time.Millisecond)
						inside.Add(-1)
						if err := lock.Release(t.Context()); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		m := moveOf(cluster, key)
		moves := 0
		for began := time.Now(); time.Since(began) < *moving; moves++ {
			m.Begin(t)
			time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
			m.CarryAll(t)
			time.Sleep(time.Duration(rand.IntN(50)) * time.Millisecond)
			m.End(t)
			m.From, m.To = m.To, m.From
			time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
		}
		close(stop)
		all.Wait()
		t.Logf("%d acquired, %d moves, longest wait %v", got.Load(), moves, time.Duration(longest.Load()))
		require.Positive(t, got.Load())
		require.Less(t, time.Duration(longest.Load()), 5*time.Second, "a lease is longer")
		env.Soon(t, func() bool { return len(queueAt(t, m.From, key)) == 0 }, "nobody is left in the queue")
	})
}
