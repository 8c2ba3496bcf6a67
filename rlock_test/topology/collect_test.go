package topology

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A set of several slots that waits gives back what it has after a while, also if a node of another key of it
// does not answer meanwhile: another caller gets a key of a healthy node.
func TestCrossSlotSetBesideASilentNode(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		for _, n := range cluster.Nodes {
			n.Do(t, "CONFIG", "SET", "cluster-require-full-coverage", "no")
		}
		holder, l, other := openOn(t, cluster), openOn(t, cluster, rlock.WithCrossSlot(true)), openOn(t, cluster)
		healthy, silent := keyOn(t, cluster, 0), keyOn(t, cluster, 2)
		env.MustLock(t)(holder.Acquire(t.Context(), silent, rlock.WithTTL(time.Hour)))
		ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
		defer cancel()
		go func() { _, _ = l.AcquireAll(ctx, []string{healthy, silent}, rlock.WithTTL(time.Hour)) }()
		env.Soon(t, func() bool { return len(queuedAt(t, cluster.Nodes[2], silent)) == 1 },
			"the set has the first key, and waits for the other")
		cluster.Nodes[2].Stop()
		t.Cleanup(cluster.Nodes[2].Cont)
		wait, end := context.WithTimeout(t.Context(), 8*time.Second)
		defer end()
		for range 2 { // the set goes on
			lock := env.MustLock(t)(other.Acquire(wait, healthy))
			require.NoError(t, lock.Release(t.Context()))
			time.Sleep(time.Second / 2)
		}
	})
}

// A set of several slots that waits takes all keys, and loses one of them before they have their fence. It
// does not keep the others: neither while it goes on, nor when it gives up.
func TestCrossSlotSetLosesItsFirstKey(t *testing.T) {
	t.Parallel()
	for name, gives := range map[string]bool{"goes on": false, "gives up": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, l, direct := newFaultyCluster(t, env.Engines(t)[0])
			require.NoError(t, env.Do(t, direct, "SET", "b", "stranger").Error())
			ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
			defer cancel()
			var lost atomic.Bool
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				if of(words, gen.RaiseFenceSHA1, "b") && !lost.Load() {
					_ = f.Client.Do(ctx, f.Client.B().Set().Key("b").Value("stranger").Build()).Error()
					reply := run()
					if gives {
						time.AfterFunc(50*time.Millisecond, cancel) // when the answer is there
					}
					lost.Store(true)
					return reply
				}
				return run()
			})
			got := make(chan error, 1)
			go func() { got <- env.ErrorOf(l.AcquireAll(ctx, []string{"a", "b", "c"}, rlock.WithTTL(time.Hour))) }()
			env.AwaitWaiting(t, l, 1)
			require.NoError(t, env.Do(t, direct, "DEL", "b").Error())
			env.Soon(t, lost.Load, "it loses the key")
			if gives {
				require.ErrorIs(t, env.Receive(t, got), context.Canceled)
			}
			env.Soon(t, func() bool { return env.Get(t, direct, "a") == "" && env.Get(t, direct, "c") == "" },
				"it has no other")
			if !gives {
				require.NoError(t, env.Do(t, direct, "DEL", "b").Error())
				require.NoError(t, env.Receive(t, got))
			}
		})
	}
}
