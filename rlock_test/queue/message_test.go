package queue

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
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
		lock := env.Taken(t, got)
		token := env.Get(t, client, "k")
		for _, channel := range channels(t, client) {
			require.NoError(t, env.Do(t, client, "SPUBLISH", channel,
				fmt.Sprintf("30000 %d 0 1 k %s", lock.Fence(), token)).Error())
		}
		time.Sleep(300 * time.Millisecond)
		require.Equal(t, token, env.Get(t, client, "k"), "the server has freed a held lock")
		require.NoError(t, lock.Err())
		require.NoError(t, lock.Release(t.Context()))
		idle(t, client, "k")
	})
}

// An acquisition whose every answer takes longer than its lease fails with ErrExpired, whether it
// learns of the grant by a heartbeat or by a message, and leaves the lock to others.
func TestGrantArrivesAfterItsLease(t *testing.T) {
	t.Parallel()
	const lease = 50 * time.Millisecond
	for name, message := range map[string]bool{"by a heartbeat": false, "by a message": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, l, client := env.NewFaulty(t, env.Engines(t)[0], rlock.WithTTL(lease))
			other := env.NewLocker(t, client)
			held := env.MustLock(t)(other.Acquire(t.Context(), "k"))
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				answer := run()
				if env.Calls(words, gen.WaitSHA1) {
					time.Sleep(lease)
				}
				return answer
			})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			failed := make(chan error, 1)
			go func() { failed <- env.ErrorOf(l.Acquire(ctx, "k")) }()
			env.Soon(t, func() bool { return len(queued(t, client, "k")) == 1 }, "it stands in the queue")
			if message {
				require.NoError(t, held.Release(t.Context()))
			} else {
				require.NoError(t, env.Do(t, client, "DEL", "k").Error())
			}
			err := env.Receive(t, failed)
			require.ErrorIs(t, err, rlock.ErrExpired)
			require.ErrorContains(t, err, "the lease of 50ms was over ")
			require.ErrorContains(t, err, " before the grant arrived; use a longer TTL")
			idle(t, client, "k")
		})
	}
}

// A lock without a fence has none when it is granted by a message either, which brings one.
func TestGrantWithoutAFence(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	held := env.MustLock(t)(env.OpenOn(t, server).Acquire(t.Context(), "k"))
	got := waits(t, client, env.OpenOn(t, server), "k", rlock.WithFence(false))
	require.NoError(t, held.Release(t.Context()))
	lock := env.Taken(t, got)
	require.Zero(t, lock.Fence())
	require.NoError(t, lock.Release(t.Context()))
	idle(t, client, "k")
}
