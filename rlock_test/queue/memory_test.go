package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Who waits for a held lock while the server has no memory for a place in its queue waits without
// one, and sends few commands.
func TestQueueWithoutMemory(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		holder, waiter := env.OpenOn(t, server), env.OpenOn(t, server)
		held, err := holder.Acquire(t.Context(), "job", rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		server.Do(t, "CONFIG", "SET", "maxmemory", "1")
		type result struct {
			lock *rlock.Lock
			err  error
		}
		got := make(chan result, 1)
		go func() {
			lock, err := waiter.Acquire(t.Context(), "job")
			got <- result{lock, err}
		}()
		env.AwaitWaiting(t, waiter, 1)
		time.Sleep(time.Second)
		require.LessOrEqual(t, waiter.Stats().Attempts, uint64(20))
		server.Do(t, "CONFIG", "SET", "maxmemory", "0")
		require.NoError(t, held.Release(t.Context()))
		r := <-got
		require.NoError(t, r.err)
		require.NoError(t, r.lock.Release(t.Context()))
	})
}
