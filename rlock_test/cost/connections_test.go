package cost

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// TestConnectionsOfALocker counts the connections of a process, by which docs/RUNBOOK.md has maxclients set:
// of a Locker whose callers have used all that it dials, and have waited for keys of all nodes.
func TestConnectionsOfALocker(t *testing.T) {
	t.Parallel()
	const name = "process"
	pipes := 1 // to one server, or to the primary behind sentinels: what rueidis makes of PipelineMultiplex 0
	for pipes < 4 && 2*pipes <= runtime.GOMAXPROCS(0) {
		pipes *= 2
	}
	for _, c := range []struct {
		name        string
		start       func(e env.Engine) (option rueidis.ClientOption, data, sentinels []*env.Server)
		primaries   int
		data        int // at the primaries and their replicas
		atSentinels int
	}{
		{"one server", func(e env.Engine) (rueidis.ClientOption, []*env.Server, []*env.Server) {
			s := e.Start(t)
			return s.Option(), []*env.Server{s}, nil
		}, 1, pipes + 2, 0},
		{"three primaries with replicas", func(e env.Engine) (rueidis.ClientOption, []*env.Server, []*env.Server) {
			c := e.StartReplicatedCluster(t)
			option := c.Nodes[0].Option()
			option.InitAddress = c.Addrs()
			return option, append(c.Nodes, c.Replicas...), nil
		}, 3, 3*2 + 3, 0},
		{"sentinels", func(e env.Engine) (rueidis.ClientOption, []*env.Server, []*env.Server) {
			s := e.StartSentinel(t)
			return s.Option(), []*env.Server{s.Primary, s.Replica}, s.Sentinels
		}, 1, pipes + 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			option, data, sentinels := c.start(env.Engines(t)[0])
			option.ClientName, option.Sentinel.ClientName = name, name
			locker := env.OpenLocker(t, option, rlock.WithTTL(time.Minute), rlock.WithAutoExtend(true))
			idle := count(t, data, name)
			keys := env.Keys(200)
			held := make([]*rlock.Lock, len(keys))
			var all sync.WaitGroup
			for i, key := range keys {
				all.Go(func() {
					held[i] = env.MustLock(t)(locker.Acquire(t.Context(), key))
					env.MustLock(t)(held[i], held[i].Extend(t.Context(), 2*time.Minute))
				})
			}
			all.Wait()
			holding := count(t, data, name)
			other := env.OpenLocker(t, unnamed(option))
			taken := env.Keys(260)[200:]
			for _, key := range taken {
				env.MustLock(t)(other.Acquire(t.Context(), key, rlock.WithTTL(time.Minute)))
			}
			ctx, cancel := context.WithCancel(t.Context())
			for _, key := range taken {
				all.Go(func() { _, _ = locker.Acquire(ctx, key) })
			}
			env.AwaitWaiting(t, locker, int64(len(taken)))
			t.Cleanup(func() { cancel(); all.Wait() })
			env.Soon(t, func() bool { return listening(t, data) == c.primaries }, "it listens at each primary")
			for range 2000 { // a lone caller
				env.MustLock(t)(held[0], held[0].Verify(t.Context()))
			}
			t.Logf("at data servers: idle %d, holding %d, waiting %d; at sentinels %d", idle, holding,
				count(t, data, name), count(t, sentinels, name))
			require.LessOrEqual(t, count(t, data, name), c.data)
			require.LessOrEqual(t, count(t, sentinels, name), c.atSentinels)
		})
	}
}

func unnamed(option rueidis.ClientOption) rueidis.ClientOption {
	option.ClientName, option.Sentinel.ClientName = "", ""
	return option
}

// count returns how many connections of that name servers have.
func count(t *testing.T, servers []*env.Server, name string) (n int) {
	t.Helper()
	for _, server := range servers {
		n += server.Connections(t, name)
	}
	return n
}

// listening returns at how many servers somebody listens for grants.
func listening(t *testing.T, servers []*env.Server) (n int) {
	t.Helper()
	for _, server := range servers {
		reply := server.Do(t, "PUBSUB", "SHARDCHANNELS")
		channels, err := reply.AsStrSlice()
		require.NoError(t, err)
		n += min(len(channels), 1)
	}
	return n
}
