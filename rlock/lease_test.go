package rlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A lease that is on its way from one lock to the next is watched as one that is held: what the server tells
// then is not forgotten, and neither is what it would tell next.
func TestLeaseOnItsWayIsWatched(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	locker, client := env.OpenOn(t, server), server.Client(t)
	opts := []rlock.Option{rlock.WithTTL(time.Hour), rlock.WithAutoExtend(true)}
	lock := env.MustLock(t)(locker.Acquire(t.Context(), "k", opts...))
	server.AwaitTracked(t, 1)
	reads := server.CommandStats(t)["mget"]
	lock.Transit(func() {
		require.NoError(t, env.Do(t, client, "PEXPIRE", "k", "3500000").Error())
		env.Soon(t, func() bool { return server.CommandStats(t)["mget"] > reads }, "it is read again")
		server.AwaitTracked(t, 1)
	})
	require.NoError(t, env.Do(t, client, "SET", "k", "another").Error())
	env.Soon(t, func() bool { return lock.Err() != nil }, "the loss is noticed")
	require.ErrorIs(t, lock.Err(), rlock.ErrLost)
}
