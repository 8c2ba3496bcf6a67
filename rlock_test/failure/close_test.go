package failure

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestCloseDuringAnAcquisition(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, reply := range map[string]bool{"answered": true, "not answered": false} {
			t.Run(name, func(t *testing.T) {
				f, locker, direct := env.NewFaulty(t, e)
				f.When(env.Once(gen.AcquireSHA1, func(run func() rueidis.RedisResult) rueidis.RedisResult {
					answer := run()
					locker.Close()
					if !reply {
						return env.NoReply()
					}
					return answer
				}))
				_, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))
				require.ErrorIs(t, err, rlock.ErrClosed)
				env.Soon(t, func() bool { return env.Get(t, direct, "job") == "" }, "nothing is left")
			})
		}
	})
}

// A lock ends by what came first: a lease that was over before Close has expired, though nobody
// has looked before.
func TestLeaseOverBeforeClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.StartInMemory(t)
		client, err := rueidis.NewClient(server.Option())
		require.NoError(t, err)
		t.Cleanup(client.Close)
		locker := env.NewLocker(t, client)
		forgotten, err := locker.Acquire(t.Context(), "forgotten", rlock.WithTTL(time.Second))
		require.NoError(t, err)
		kept, err := locker.Acquire(t.Context(), "kept", rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		server.Advance(1100 * time.Millisecond)
		locker.Close()
		require.ErrorIs(t, forgotten.Err(), rlock.ErrExpired)
		require.NotErrorIs(t, forgotten.Err(), rlock.ErrClosed)
		require.ErrorIs(t, forgotten.Release(t.Context()), rlock.ErrExpired)
		require.ErrorIs(t, kept.Err(), rlock.ErrClosed)
		stats := locker.Stats()
		require.Equal(t, []uint64{1, 1}, []uint64{stats.Expired, stats.Closed})
	})
}

func TestExtendAfterClose(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		_, locker, _ := env.NewFaulty(t, e)
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		locker.Close()
		require.Error(t, lock.Err())
		require.ErrorIs(t, lock.Extend(t.Context(), time.Hour), rlock.ErrClosed)
	})
}

// Closing a Locker does not wait for a read that gets no answer.
func TestCloseDuringARead(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		proxy := env.NewProxy(t, server.Addr())
		hook := rlock.NewInvalidations()
		client := server.Client(t, func(o *rueidis.ClientOption) {
			o.InitAddress, o.OnInvalidations = []string{proxy.Addr()}, hook.OnInvalidations
		})
		locker, err := rlock.New(client, rlock.WithInvalidations(hook))
		require.NoError(t, err)
		release := proxy.Hold(env.Contains("mget"))
		defer release()
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Minute), rlock.WithAutoExtend(true))
		require.NoError(t, err)
		env.Soon(t, func() bool { return proxy.Held() > 0 }, "it is being read")
		began := time.Now()
		locker.Close()
		require.Less(t, time.Since(began), time.Second)
		require.ErrorIs(t, context.Cause(lock.Context()), rlock.ErrClosed)
		release()
		time.Sleep(50 * time.Millisecond)
		require.ErrorIs(t, context.Cause(lock.Context()), rlock.ErrClosed)
	})
}
