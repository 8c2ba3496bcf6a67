package cost

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A process that waits for many keys of a cluster sends a heartbeat a second for each: nothing gathers those
// of different slots. Two scripts pass each key on and free it, and nobody asks besides.
func TestWaitedKeysOnACluster(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		const keys = 1000
		cluster := e.StartCluster(t)
		option := rueidis.ClientOption{InitAddress: cluster.Addrs()}
		holder := env.OpenLocker(t, option, rlock.WithTTL(rlock.NoExpiry))
		waiter := env.OpenLocker(t, option, rlock.WithTTL(time.Minute))
		held := env.TakeEach(t, holder, env.Keys(keys))
		var waiting sync.WaitGroup
		for _, key := range env.Keys(keys) {
			waiting.Go(func() {
				lock, err := waiter.Acquire(t.Context(), key)
				if err == nil {
					err = lock.Release(context.WithoutCancel(t.Context()))
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		count := func() (scripts, all int64) {
			for _, node := range cluster.Nodes {
				scripts, all = scripts+node.ScriptCalls(t), all+commands(t, node)
			}
			return scripts, all
		}
		env.AwaitWaiting(t, waiter, keys)
		time.Sleep(2 * time.Second) // all have joined, read their keys, and begun to send heartbeats

		began := time.Now()
		beats := func() int64 { return keys * (int64(time.Since(began)/(900*time.Millisecond)) + 1) }
		scripts, all := count()
		time.Sleep(5 * time.Second)
		scriptsThen, allThen := count()
		took := time.Since(began).Seconds()
		t.Logf("%.0f scripts and %.0f commands a second",
			float64(scriptsThen-scripts)/took, float64(allThen-all)/took)
		require.LessOrEqual(t, scriptsThen-scripts, beats())
		require.LessOrEqual(t, allThen-all, 9*beats(), "a heartbeat is nine commands")

		began = time.Now()
		for _, lock := range held {
			require.NoError(t, lock.Release(t.Context()))
		}
		waiting.Wait()
		scripts, all = count()
		t.Logf("%.1f scripts and %.1f commands for each that was passed on",
			float64(scripts-scriptsThen)/keys, float64(all-allThen)/keys)
		require.LessOrEqual(t, scripts-scriptsThen, 2*keys+beats())
	})
}
