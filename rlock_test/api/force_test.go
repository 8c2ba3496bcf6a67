package api

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// ForceAcquire takes a lock whatever its holder's lease and options are, and a free one.
func TestForceAcquire(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		for name, opts := range map[string][]rlock.Option{
			"a lease": nil, "for ever": {rlock.WithTTL(rlock.NoExpiry)}, "without a fence": {rlock.WithFence(false)},
			"extended": {rlock.WithAutoExtend(true)}, "a chosen token": {rlock.WithToken("mine")},
		} {
			t.Run(name, func(t *testing.T) {
				holder, err := env.NewLocker(t, client).Acquire(t.Context(), name, opts...)
				require.NoError(t, err)
				lock, err := env.NewLocker(t, client).ForceAcquire(t.Context(), name, rlock.WithTTL(time.Minute))
				require.NoError(t, err)
				require.True(t, lock.Valid())
				require.Equal(t, 1, lock.Attempts())
				require.Greater(t, lock.Fence(), holder.Fence())
				require.Equal(t, lock.Token(), env.Get(t, client, name))
				require.Greater(t, env.TTL(t, client, name), 50*time.Second)

				require.ErrorIs(t, holder.Extend(t.Context(), time.Hour), rlock.ErrLost)
				require.ErrorIs(t, holder.Release(t.Context()), rlock.ErrLost)
				_, err = lock.Verify(t.Context())
				require.NoError(t, err, "the former holder cannot harm the new one")
				require.NoError(t, lock.Release(t.Context()))
				require.Empty(t, env.Get(t, client, name))
			})
		}
		locker := env.NewLocker(t, client)
		lock, err := locker.ForceAcquire(t.Context(), "free", rlock.WithTTL(rlock.NoExpiry))
		require.NoError(t, err)
		require.Equal(t, -time.Millisecond, env.TTL(t, client, "free"))
		_, err = locker.ForceAcquire(lock.Context(), "free")
		require.ErrorIs(t, err, rlock.ErrAlreadyHeld, "a holder does not rob itself")
		require.NoError(t, lock.Release(t.Context()))

		require.NoError(t, env.Do(t, client, "RPUSH", "list", "1").Error())
		_, err = locker.ForceAcquire(t.Context(), "list")
		require.ErrorContains(t, err, "WRONGTYPE", "what is no lock is left alone")
		require.NoError(t, env.Do(t, client, "LLEN", "list").Error())
		_, err = locker.ForceAcquire(t.Context(), "")
		require.ErrorIs(t, err, rlock.ErrInvalid)
	})
}

// The server tells the holder, whose context ends long before its lease.
func TestForceAcquireTellsTheHolder(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		holder, err := env.OpenOn(t, server).Acquire(t.Context(), "job", rlock.WithTTL(time.Hour))
		require.NoError(t, err)
		ctx := holder.Context()
		lock, err := env.OpenOn(t, server).ForceAcquire(t.Context(), "job")
		require.NoError(t, err)
		<-ctx.Done()
		require.ErrorIs(t, holder.Err(), rlock.ErrLost)
		require.NoError(t, lock.Release(t.Context()))
	})
}

// Those who wait keep their places, be they of the former holder's process, of the new one's or of
// another: a lock that was taken by force is passed on in their order.
func TestForceAcquireKeepsTheQueue(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		client := server.Client(t)
		lockers := []*rlock.Locker{env.OpenOn(t, server), env.OpenOn(t, server), env.OpenOn(t, server)}
		former, err := lockers[0].Acquire(t.Context(), "job", rlock.WithTTL(time.Hour))
		require.NoError(t, err)
		got := make(chan int, len(lockers))
		fences := make(chan uint64, len(lockers))
		for _, i := range []int{2, 1, 0} {
			go func() {
				if lock, err := lockers[i].Acquire(t.Context(), "job", rlock.WithTTL(time.Hour)); err == nil {
					fences <- lock.Fence()
					got <- i
					_ = lock.Release(t.Context())
				}
			}()
			switch i {
			case 0: // it waits behind the former holder, which asks no server
				env.Soon(t, func() bool { return lockers[0].Stats().Waiting == 1 }, "the caller waits")
			default:
				env.Soon(t, func() bool { return queued(t, client) == 3-i }, "the process waits")
			}
		}
		lock, err := lockers[1].ForceAcquire(t.Context(), "job", rlock.WithTTL(time.Hour))
		require.NoError(t, err)
		require.Greater(t, lock.Fence(), former.Fence())
		env.Soon(t, func() bool { return queued(t, client) == 3 }, "the caller of the former holder's process waits in the queue too")
		require.Empty(t, got)
		_, err = lock.Verify(t.Context())
		require.NoError(t, err)
		last := lock.Fence()
		require.NoError(t, lock.Release(t.Context()))
		for _, i := range []int{2, 1, 0} {
			require.Equal(t, i, <-got)
			fence := <-fences
			require.Greater(t, fence, last)
			last = fence
		}
		require.ErrorIs(t, former.Release(t.Context()), rlock.ErrLost)
		env.Soon(t, func() bool { return env.Get(t, client, "job") == "" }, "nobody has it")
	})
}

// queued returns how many wait in queues.
func queued(t *testing.T, client rueidis.Client) (n int) {
	t.Helper()
	queues, err := env.Do(t, client, "KEYS", "rlock:queue:*").AsStrSlice()
	require.NoError(t, err)
	for _, queue := range queues {
		members, err := env.Do(t, client, "ZCARD", queue).ToInt64()
		require.NoError(t, err)
		n += int(members)
	}
	return n
}

// A call without an answer is not repeated, because a late copy would rob the next holder, and
// leaves nothing behind.
func TestForceAcquireWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		_, err := env.NewLocker(t, direct).Acquire(t.Context(), "job", rlock.WithTTL(time.Hour))
		require.NoError(t, err)
		calls := 0
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if !env.Calls(words, gen.ForceAcquireSHA1) {
				return run()
			}
			calls++
			run()
			return env.NoReply()
		})
		_, err = locker.ForceAcquire(t.Context(), "job", rlock.WithTTL(time.Hour))
		require.Error(t, err)
		require.NotErrorIs(t, err, rlock.ErrHeld)
		require.Equal(t, 1, calls)
		env.Soon(t, func() bool { return env.Get(t, direct, "job") == "" }, "what the server granted is released")
	})
}
