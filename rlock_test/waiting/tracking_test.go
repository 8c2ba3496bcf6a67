package waiting

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A server that has to remember more keys than it may tells of a change that was none,
// and forgets the key. That is a hint like any other: whoever waits looks again, is
// remembered anew, and is called when the key is free. And no lock is lost by it.
func TestServerForgetsWhoWaits(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		const keys = 1000
		server := e.Start(t)
		server.Do(t, "CONFIG", "SET", "tracking-table-max-keys", "10")
		holder, waiting := env.OpenOn(t, server, rlock.WithTTL(rlock.NoExpiry)), env.OpenOn(t, server)
		var names []string
		for i := range keys {
			names = append(names, fmt.Sprint("job:", i))
		}
		held, err := holder.AcquireAll(t.Context(), names)
		require.NoError(t, err)
		done := make(chan error, keys)
		for _, key := range names {
			go func() {
				lock, err := waiting.Acquire(t.Context(), key)
				if err == nil {
					err = lock.Release(t.Context())
				}
				done <- err
			}()
		}
		env.AwaitWaiting(t, waiting, keys)
		mine, err := waiting.Acquire(t.Context(), "mine", rlock.WithTTL(rlock.NoExpiry))
		require.NoError(t, err)
		watched := mine.Context() // for which its key is read, too
		env.Soon(t, func() bool { return waiting.Stats().Attempts > 2*keys }, "spurious messages wake them")
		require.Less(t, server.TrackedKeys(t), 100)
		require.NoError(t, watched.Err())
		require.Empty(t, done)

		require.NoError(t, held.Release(t.Context()))
		for range keys {
			require.NoError(t, env.ReceiveWithin(t, 20*time.Second, done))
		}
		require.NoError(t, watched.Err())
		server.Do(t, "DEL", "mine")
		env.AwaitEnd(t, mine, rlock.ErrLost)
	})
}
