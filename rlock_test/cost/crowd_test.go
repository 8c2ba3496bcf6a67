package cost

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A thousand processes that wait for a key which nobody frees send a hundred scripts a second, all
// of them together.
func TestThousandProcessesAreQuiet(t *testing.T) {
	env.Long(t)
	t.Parallel()
	const processes = 1000
	server := env.Start(t)
	// each hears of grants on one
	client := server.Client(t, func(o *rueidis.ClientOption) { o.BlockingPoolSize = processes + 1 })
	require.NoError(t, env.Do(t, client, "SET", "job", "stranger").Error())
	ctx, cancel := context.WithCancel(t.Context())
	lockers := make([]*rlock.Locker, processes)
	failed := make(chan error, processes)
	for i := range lockers {
		lockers[i] = env.NewLocker(t, client)
		go func() { failed <- env.ErrorOf(lockers[i].Acquire(ctx, "job")) }()
	}
	defer func() {
		cancel()
		for range lockers {
			require.ErrorIs(t, <-failed, context.Canceled)
		}
	}()
	require.Eventually(t, func() bool {
		queue, err := env.Do(t, client, "KEYS", "rlock:queue:{*}:job").AsStrSlice()
		if err != nil || len(queue) == 0 {
			return false
		}
		n, err := env.Do(t, client, "ZCARD", queue[0]).AsInt64()
		return err == nil && n == processes
	}, time.Minute, 100*time.Millisecond, "all wait")
	const window = 20 * time.Second // those behind send a heartbeat every 15 seconds
	before, began := server.ScriptCalls(t), time.Now()
	time.Sleep(window)
	sent, took := server.ScriptCalls(t)-before, time.Since(began)
	t.Logf("%d scripts in %v", sent, took)
	require.LessOrEqual(t, float64(sent)/took.Seconds(), 100.0)
}
