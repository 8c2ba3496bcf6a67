package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Who waits for a held lock while the server has no memory for a place in its queue waits without
// one, and sends few commands.
func TestQueueWithoutMemory(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		holder, waiter := env.OpenOn(t, server), env.OpenOn(t, server)
		held, err := holder.Acquire(t.Context(), "job", rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		server.Do(t, "CONFIG", "SET", "maxmemory", "1")
		type result struct {
			lock *rlock.Lock
			err  error
		}
		got := make(chan result, 1)
		go func() {
			lock, err := waiter.Acquire(t.Context(), "job")
			got <- result{lock, err}
		}()
		env.AwaitWaiting(t, waiter, 1)
		time.Sleep(time.Second)
		require.LessOrEqual(t, waiter.Stats().Attempts, uint64(20))
		server.Do(t, "CONFIG", "SET", "maxmemory", "0")
		require.NoError(t, held.Release(t.Context()))
		r := env.Receive(t, got)
		require.NoError(t, r.err)
		require.NoError(t, r.lock.Release(t.Context()))
	})
}

// Who was refused a place because the server had no memory gets one when there is memory again.
// Otherwise it would starve beside those who have places, because they never let the key be free.
func TestPlaceAfterTheServerHadNoMemory(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client, refused, others := server.Client(t), env.OpenOn(t, server),
			[]*rlock.Locker{env.OpenOn(t, server), env.OpenOn(t, server), env.OpenOn(t, server)}
		lock := env.MustLock(t)(others[0].Acquire(t.Context(), "k"))
		next := waits(t, client, others[1], "k")
		server.Do(t, "CONFIG", "SET", "maxmemory", "1")
		last := env.NextInLine(t, refused, "k")
		env.Soon(t, func() bool { return server.ErrorCount(t, "OOM") > 0 }, "it is refused a place")
		server.Do(t, "CONFIG", "SET", "maxmemory", "0")
		for began, turn := time.Now(), 2; ; turn++ {
			require.Less(t, time.Since(began), time.Minute, "it starves")
			after := waits(t, client, others[turn%3], "k") // so somebody waits at each release
			require.NoError(t, lock.Release(t.Context()))
			select {
			case lock = <-next:
				next = after
				continue
			case lock = <-last:
			case <-time.After(time.Minute):
				require.FailNow(t, "nobody has the lock")
			}
			for range 2 { // in any order: waits may have seen the place of refused
				require.NoError(t, lock.Release(t.Context()))
				select {
				case lock = <-next:
				case lock = <-after:
				case <-time.After(time.Minute):
					require.FailNow(t, "they have not got the lock")
				}
			}
			require.NoError(t, lock.Release(t.Context()))
			return
		}
	})
}

// A grant that a release has made while the server was out of memory can be confirmed, which a lock
// without expiry needs.
func TestEndlessLockWithoutMemory(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client, holder, waiter := server.Client(t), env.OpenOn(t, server), env.OpenOn(t, server)
		held := env.MustLock(t)(holder.Acquire(t.Context(), "k"))
		next := make(chan error, 1)
		go func() {
			lock, err := waiter.Acquire(t.Context(), "k", rlock.WithTTL(rlock.NoExpiry))
			if err == nil {
				err = lock.Release(t.Context())
			}
			next <- err
		}()
		env.Soon(t, func() bool { return len(queued(t, client, "k")) == 1 }, "it stands in the queue")
		server.Do(t, "CONFIG", "SET", "maxmemory", "1")
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, env.Receive(t, next))
	})
}

// The same for a permit that a release of another permit has let in.
func TestEndlessPermitWithoutMemory(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client, holder, waiter := server.Client(t), env.OpenOn(t, server), env.OpenOn(t, server)
		one := env.MustLock(t)(holder.AcquirePermits(t.Context(), "k", 1, 2, rlock.WithTTL(time.Hour)))
		two := env.MustLock(t)(holder.AcquirePermits(t.Context(), "k", 1, 2, rlock.WithTTL(time.Hour)))
		next := make(chan *rlock.Lock, 1)
		go func() {
			next <- env.MustLock(t)(waiter.AcquirePermits(t.Context(), "k", 1, 2, rlock.WithTTL(rlock.NoExpiry)))
		}()
		env.Soon(t, func() bool { return len(queued(t, client, "k")) == 1 }, "it stands in the queue")
		server.Do(t, "CONFIG", "SET", "maxmemory", "1")
		require.NoError(t, one.Release(t.Context()))
		lock := env.Taken(t, next)
		require.NoError(t, lock.Err())
		require.Zero(t, lock.Deadline(), "it is endless")
		require.NoError(t, lock.Release(t.Context()))
		require.NoError(t, two.Release(t.Context()))
	})
}

// A release passes the lock on to the next caller of its process, and to one with a token of its own,
// although the server is out of memory.
func TestHandOverWithoutMemory(t *testing.T) {
	t.Parallel()
	for name, chosen := range map[string]bool{"of the process": false, "with its own token": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env.Each(t, func(t *testing.T, e env.Engine) {
				t.Parallel()
				server := e.Start(t)
				l := env.OpenOn(t, server)
				held := env.MustLock(t)(l.Acquire(t.Context(), "k"))
				var next <-chan *rlock.Lock
				if chosen {
					next = waits(t, server.Client(t), l, "k", rlock.WithToken("chosen"))
				} else {
					next = env.NextInLine(t, l, "k")
				}
				server.Do(t, "CONFIG", "SET", "maxmemory", "1")
				require.NoError(t, held.Release(t.Context()))
				require.NoError(t, env.Taken(t, next).Release(t.Context()))
			})
		})
	}
}
