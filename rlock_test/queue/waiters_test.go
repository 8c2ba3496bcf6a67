package queue

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockadmin"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Inspect tells who waits, since when and for what, in the order in which they get the lock.
func TestWaiters(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		l := env.OpenOn(t, server, rlock.WithPrefix("app:"))
		require.Equal(t, rlockadmin.State{Key: "app:k"}, env.Inspect(t, l, "app:k"))
		held := env.MustLock(t)(l.Acquire(t.Context(), "k"))

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		before := time.Now().Add(-time.Second)
		for n, wait := range []func(o *rlock.Locker) (*rlock.Lock, error){
			func(o *rlock.Locker) (*rlock.Lock, error) {
				return o.Acquire(ctx, "app:k", rlock.WithOwner("first: one"))
			},
			func(o *rlock.Locker) (*rlock.Lock, error) { return o.AcquireShared(ctx, "app:k") },
			func(o *rlock.Locker) (*rlock.Lock, error) {
				return o.AcquirePermits(ctx, "app:k", 2, 3, rlock.WithOwner("third"))
			},
		} {
			other := env.OpenOn(t, server)
			for range 2 { // callers of one process are one waiter
				go func() { _, _ = wait(other) }()
			}
			env.Soon(t, func() bool { return len(queued(t, client, "app:k")) == n+1 }, "it waits")
		}
		all := env.Inspect(t, l, "app:k").Waiters
		last := before
		for i := range all {
			require.True(t, all[i].Since.After(last))
			require.WithinDuration(t, time.Now(), all[i].Since, time.Minute)
			last, all[i].Since = all[i].Since, time.Time{}
		}
		require.Equal(t, []rlockadmin.Waiter{
			{Owner: "first: one", Mode: rlockadmin.Exclusive}, {Mode: rlockadmin.Readers},
			{Owner: "third", Mode: rlockadmin.Permits, Permits: 2, Limit: 3},
		}, all)

		cancel()
		env.Soon(t, func() bool {
			return len(env.Inspect(t, l, "app:k").Waiters) == 0
		}, "nobody waits")
		require.NoError(t, held.Release(t.Context()))
	})
}

// A queue that is no sorted set is an error.
func TestWaitersOfAnotherKind(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	l := env.OpenOn(t, server)
	held := env.MustLock(t)(l.Acquire(t.Context(), "k"))
	got := waits(t, client, env.OpenOn(t, server), "k")
	queue := queueOf(t, client, "k")
	require.NoError(t, env.Do(t, client, "SET", queue, "1").Error())
	_, err := env.Admin(l).Inspect(t.Context(), "k")
	require.ErrorContains(t, err, "WRONGTYPE")
	require.NoError(t, env.Do(t, client, "DEL", queue).Error())
	require.NoError(t, held.Release(t.Context()))
	require.NoError(t, env.Taken(t, got).Release(t.Context()))
}
