package cost

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// ofClients are commands that clients send on their own, to open a connection and to
// see whether it works, and that of the counting itself.
var ofClients = []string{"hello", "client|tracking", "client|setinfo", "ping", "info"}

// commands returns how many other commands the server has run.
func commands(t *testing.T, server *env.Server) int64 {
	t.Helper()
	var sum int64
	for name, calls := range server.CommandStats(t) {
		if !slices.Contains(ofClients, name) {
			sum += calls
		}
	}
	return sum
}

// A holder's own extensions and checks must not wake it to more of them.
func TestAnIdleHolderIsQuiet(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		locker := env.OpenOn(t, server)
		const ttl = 6 * time.Second // extended every two seconds
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(ttl), rlock.WithAutoExtend(true))
		require.NoError(t, err)
		ctx := lock.Context()
		_, err = locker.Check(t.Context(), "job") // the server tracks the key for this client
		require.NoError(t, err)

		env.Soon(t, func() bool { return locker.Stats().Extended > 0 }, "an extension")
		start, extended, before := time.Now(), locker.Stats().Extended, commands(t, server)
		time.Sleep(ttl)
		sent := commands(t, server) - before
		extended = locker.Stats().Extended - extended
		require.Positive(t, extended)
		require.LessOrEqual(t, extended, uint64(time.Since(start)/(ttl/3))+1)
		// EVALSHA, with MGET and PEXPIRE inside it, and a read that has the server track
		// the key again. One may be under way at either end.
		require.InDelta(t, 5*extended, sent, 5)
		require.NoError(t, ctx.Err())
		require.NoError(t, lock.Release(t.Context()))
	})
}

// Waiting costs a heartbeat every second, and one read when the holder extends, however many
// callers of a process wait.
func TestWaitersAreQuiet(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	for _, waiters := range []int{1, 100, 1000} {
		t.Run(fmt.Sprint(waiters), func(t *testing.T) {
			key := fmt.Sprint("job", waiters)
			holder, waiting := env.OpenOn(t, server), env.OpenOn(t, server)
			held, err := holder.Acquire(t.Context(), key, rlock.WithTTL(rlock.NoExpiry))
			require.NoError(t, err)
			done := make(chan error, waiters)
			for range waiters {
				go func() {
					lock, err := waiting.Acquire(t.Context(), key)
					if err == nil {
						err = lock.Release(t.Context())
					}
					done <- err
				}()
			}
			env.Soon(t, func() bool { return waiting.Stats().Waiting == int64(waiters) }, "all wait")
			// The first of them reads the lock, for the server to track it.
			time.Sleep(time.Second / 2)
			start, before := time.Now(), commands(t, server)
			time.Sleep(time.Second)
			// A heartbeat is EVALSHA, TIME, GET, ZSCORE, ZRANK, HSET, PEXPIRE twice and PTTL.
			beats := func() int64 { return int64(time.Since(start)/(900*time.Millisecond)) + 1 }
			require.LessOrEqual(t, commands(t, server)-before, 9*beats())

			require.NoError(t, held.Extend(t.Context(), rlock.NoExpiry))
			time.Sleep(200 * time.Millisecond)
			// The extension is EVALSHA, GET and PERSIST. A read is CLIENT CACHING, MULTI,
			// PTTL, GET and EXEC.
			require.LessOrEqual(t, commands(t, server)-before, 9*beats()+3+5)
			require.NoError(t, held.Release(t.Context()))
			for range waiters {
				require.NoError(t, <-done)
			}
			require.Zero(t, waiting.Stats().Waiting)
		})
	}
}
