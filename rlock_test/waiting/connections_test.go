package waiting

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// All who wait share one connection: hundreds wait, each for a key of its own and
// all for one, on a client that would give them a single one to block on.
func TestWaitersShareConnections(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		const waiters = 250 // of each kind
		server := e.Start(t)
		option := server.Option()
		option.BlockingPoolSize, option.ClientName = 1, "waiting"
		// What could call them in time is a message of the server, and nothing else.
		waiting := env.OpenLocker(t, option, rlock.WithTTL(rlock.NoExpiry))
		holder := env.OpenOn(t, server, rlock.WithTTL(rlock.NoExpiry))
		keys := []string{"all"}
		for i := range waiters {
			keys = append(keys, fmt.Sprint("job:", i))
		}
		held, err := holder.AcquireAll(t.Context(), keys)
		require.NoError(t, err)

		done := make(chan error, 2*waiters)
		for i := range cap(done) {
			go func() {
				lock, err := waiting.Acquire(t.Context(), keys[max(0, i-waiters+1)])
				if err == nil {
					err = lock.Release(t.Context())
				}
				done <- err
			}()
		}
		env.AwaitWaiting(t, waiting, 2*waiters)
		server.AwaitTracked(t, waiters+1)
		require.LessOrEqual(t, server.Connections(t, "waiting"), 4,
			"what a client opens for everything that it sends")
		another, err := waiting.Acquire(t.Context(), "another")
		require.NoError(t, err)
		require.NoError(t, another.Release(t.Context()))

		require.NoError(t, held.Release(t.Context()))
		for range cap(done) {
			require.NoError(t, env.Receive(t, done))
		}
	})
}
