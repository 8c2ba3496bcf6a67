package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

// warm has Check answer from the cache that somebody holds the key.
func warm(t *testing.T, locker *rlock.Locker, key string) {
	t.Helper()
	soon(t, func() bool {
		state, err := locker.Check(t.Context(), key)
		require.NoError(t, err)
		return state.Held && state.Cached
	}, "the cache knows the holder")
}

// What was cached on a connection is worth nothing once that is gone.
func TestCheckAfterALostConnection(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		server := e.Start(t)
		locker, holder := opened(t, server, rlock.WithCacheTTL(time.Hour)), opened(t, server)
		for range 10 {
			held, err := holder.Acquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))
			require.NoError(t, err)
			warm(t, locker, "job")
			server.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			require.NoError(t, held.Release(t.Context()))
			soon(t, func() bool {
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
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		const oldest = time.Second
		server := e.Start(t)
		proxy := bed.NewProxy(t, server.Addr())
		locker := openedThrough(t, proxy, rlock.WithCacheTTL(oldest))
		require.NoError(t, do(t, server.Client(t), "SET", "job", "foreign").Error())
		warm(t, locker, "job")
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
		soon(t, func() bool {
			state, err := locker.Check(t.Context(), "job")
			return err == nil && !state.Held
		}, "the new connection tells")
	})
}
