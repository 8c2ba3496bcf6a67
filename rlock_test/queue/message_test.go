package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
	"github.com/stretchr/testify/require"
)

// A message that comes twice, or after the answer that said the same, does not free the lock.
func TestLateGrantOfAHeldLock(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		a, b := env.OpenOn(t, server), env.OpenOn(t, server)
		held := env.MustLock(t)(a.Acquire(t.Context(), "k"))
		got := waits(t, client, b, "k")
		require.NoError(t, held.Release(t.Context()))
		lock := taken(t, got)
		token := env.Get(t, client, "k")
		for _, channel := range channels(t, client) {
			require.NoError(t, env.Do(t, client, "SPUBLISH", channel, fmt.Sprintf("30000 %d 0 1 k %s", lock.Fence(), token)).Error())
		}
		time.Sleep(300 * time.Millisecond)
		require.Equal(t, token, env.Get(t, client, "k"), "the server has freed a held lock")
		require.True(t, lock.Valid())
		require.NoError(t, lock.Release(t.Context()))
		idle(t, client, "k")
	})
}

// A lock without a fence has none when it is granted by a message either, which brings one.
func TestGrantWithoutAFence(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	held := env.MustLock(t)(env.OpenOn(t, server).Acquire(t.Context(), "k"))
	got := waits(t, client, env.OpenOn(t, server), "k", rlock.WithFence(false))
	require.NoError(t, held.Release(t.Context()))
	lock := taken(t, got)
	require.Zero(t, lock.Fence())
	require.NoError(t, lock.Release(t.Context()))
	idle(t, client, "k")
}
