//go:build unix

package runbook

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A server that has none of what locks can do without carries them, with the options that docs/SERVERS.md
// names.
func TestPlainServer(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		var args []string
		for _, command := range []string{
			"HELLO", "CLIENT", "SSUBSCRIBE", "SUNSUBSCRIBE", "SPUBLISH", "PUBSUB", "CONFIG", "ROLE", "SCRIPT",
		} {
			args = append(args, "--rename-command", command, "")
		}
		server := e.Start(t, args...)
		option := server.Option()
		option.DisableCache, option.AlwaysRESP2 = true, true
		holder := env.OpenLocker(t, option, rlock.WithQueue(false), rlock.WithTTL(5*time.Second))
		waiter := env.OpenLocker(t, option, rlock.WithQueue(false))
		report, err := holder.Probe(t.Context())
		require.NoError(t, err)
		require.NoError(t, report.Err())
		lock, err := holder.Acquire(t.Context(), "job", rlock.WithAutoExtend(true))
		require.NoError(t, err)
		got := make(chan *rlock.Lock)
		go func() { got <- env.MustLock(t)(waiter.Acquire(t.Context(), "job")) }()
		env.AwaitWaiting(t, waiter, 1)
		require.NoError(t, lock.Extend(t.Context(), time.Minute))
		require.NoError(t, lock.Release(t.Context()))
		next := env.Taken(t, got)
		require.Greater(t, next.Fence(), lock.Fence())
		require.NoError(t, next.Release(t.Context()))

		// Without WithQueue, the first refusal has a Locker poll.
		a, b := env.OpenLocker(t, option, rlock.WithTTL(5*time.Second)), env.OpenLocker(t, option)
		lock, err = a.Acquire(t.Context(), "job", rlock.WithAutoExtend(true))
		require.NoError(t, err)
		go func() { got <- env.MustLock(t)(b.Acquire(t.Context(), "job")) }()
		env.AwaitWaiting(t, b, 1)
		require.NoError(t, lock.Release(t.Context()))
		require.NoError(t, env.Taken(t, got).Release(t.Context()))
	})
}
