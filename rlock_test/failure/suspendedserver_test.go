package failure

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A server that stands still for twice the lease keeps nobody from noticing that the
// lease is over, and no caller beyond its context. When it goes on, whatever it then
// runs of the old requests is undone.
func TestServerStandsStill(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		const ttl = 3 * time.Second
		server := e.Start(t)
		locker, rival := env.OpenOn(t, server, rlock.WithTTL(ttl)), env.OpenOn(t, server)
		fixed, err := locker.Acquire(t.Context(), "fixed")
		require.NoError(t, err)
		extended, err := locker.Acquire(t.Context(), "extended", rlock.WithAutoExtend(true))
		require.NoError(t, err)
		locks := []*rlock.Lock{fixed, extended}
		for _, lock := range locks {
			lock.Context()
		}
		waiting := make(chan error, 1)
		go func() {
			lock, err := rival.Acquire(t.Context(), "fixed")
			if err == nil {
				err = lock.Release(t.Context())
			}
			waiting <- err
		}()
		env.AwaitWaiting(t, rival, 1)

		server.Stop()
		stopped := time.Now()
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = locker.Acquire(short, "asked for meanwhile", rlock.WithTTL(rlock.NoExpiry))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, rlock.ErrHeld)
		require.ErrorIs(t, extended.Extend(short, time.Minute), context.DeadlineExceeded)
		for _, lock := range locks {
			env.AwaitEnd(t, lock, rlock.ErrExpired) // nobody waits for the server
		}
		time.Sleep(time.Until(stopped.Add(2 * ttl)))
		server.Cont()

		require.NoError(t, env.Receive(t, waiting))
		direct := server.Client(t)
		for _, key := range []string{"asked for meanwhile", "fixed", "extended"} {
			env.Soon(t, func() bool { return env.Get(t, direct, key) == "" }, "no key is left behind")
			lock, err := rival.Acquire(t.Context(), key)
			require.NoError(t, err)
			require.NoError(t, lock.Release(t.Context()))
		}
		require.ErrorIs(t, fixed.Release(t.Context()), rlock.ErrExpired)
	})
}

// While the server takes no writes, for longer than the lease, an acquisition gets an
// answer that is too old to count, and a lock that is held ends on time.
func TestServerTakesNoWrites(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		const ttl = 3 * time.Second
		server := e.Start(t)
		option := server.Option()
		// otherwise the connection is given up, and the acquisition repeated
		option.ConnWriteTimeout = 10 * time.Second
		locker := env.OpenLocker(t, option, rlock.WithTTL(ttl))
		direct := server.Client(t)
		held, err := locker.Acquire(t.Context(), "held", rlock.WithAutoExtend(true))
		require.NoError(t, err)
		ctx := held.Context()
		server.Do(t, "CLIENT", "PAUSE", "5500", "WRITE")

		start := time.Now()
		_, err = locker.Acquire(t.Context(), "job")
		require.ErrorIs(t, err, rlock.ErrExpired)
		require.ErrorContains(t, err, "use a longer TTL")
		require.Greater(t, time.Since(start), ttl, "the answer came after the lease")
		require.ErrorIs(t, context.Cause(ctx), rlock.ErrExpired)
		require.Error(t, held.Err())
		for _, key := range []string{"job", "held"} {
			env.Soon(t, func() bool { return env.Get(t, direct, key) == "" }, "no key is left behind")
		}

		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))

		// A pause that ends in time shortens the lease that counts, and no more.
		start = time.Now()
		server.Do(t, "CLIENT", "PAUSE", "3000", "WRITE")
		lock, err = locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(start), 3*time.Second)
		require.Less(t, time.Until(lock.Deadline()), time.Minute-500*time.Millisecond,
			"counted from the call, not from the answer")
		require.NoError(t, lock.Release(t.Context()))
	})
}
