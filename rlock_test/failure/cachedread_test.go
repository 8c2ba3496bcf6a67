package failure

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// What was cached on a connection is worth nothing once that is gone.
func TestCheckAfterALostConnection(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		locker, holder := env.OpenOn(t, server, rlock.WithCacheTTL(time.Hour)), env.OpenOn(t, server)
		for range 10 {
			held, err := holder.Acquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))
			require.NoError(t, err)
			env.AwaitCached(t, locker, "job")
			server.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			require.NoError(t, held.Release(t.Context()))
			env.Soon(t, func() bool {
				state, err := locker.Check(t.Context(), "job")
				return err == nil && !state.Held // the first may meet the broken connection
			}, "a stale answer is not kept")
		}
	})
}

// Nobody can know that a connection is dead that was not closed. Check answers as it
// did for no longer than WithCacheTTL, and then does not know.
func TestCheckOverADeadConnection(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		const oldest = time.Second
		server := e.Start(t)
		proxy := env.NewProxy(t, server.Addr())
		locker := openedThrough(t, proxy, rlock.WithCacheTTL(oldest))
		require.NoError(t, env.Do(t, server.Client(t), "SET", "job", "foreign").Error())
		env.AwaitCached(t, locker, "job")
		proxy.BlackHole(true)
		dead := time.Now()
		server.Do(t, "DEL", "job")
		for answered := true; answered; {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			at := time.Now()
			state, err := locker.Check(ctx, "job")
			cancel()
			if answered = err == nil; answered {
				require.True(t, state.Cached && state.Held)
				require.Less(t, at.Sub(dead), oldest+100*time.Millisecond)
				continue
			}
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		proxy.BlackHole(false)
		env.Soon(t, func() bool {
			state, err := locker.Check(t.Context(), "job")
			return err == nil && !state.Held
		}, "the new connection tells")
	})
}
