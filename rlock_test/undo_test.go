package rlock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A lock that was taken before the server refused its fence is given back, whatever
// else the user may not do.
func TestNoFenceLeavesNoLock(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for _, refused := range [][]string{{"-incr"}, {"-time"}, {"-incr", "-del"}, {"-time", "-del"}} {
			server := e.Start(t)
			rules := append([]string{"ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all"}, refused...)
			server.Do(t, rules...)
			locker := env.NewLocker(t, server.Client(t, func(o *rueidis.ClientOption) {
				o.Username, o.Password = "app", "secret"
			}), rlock.WithTTL(rlock.NoExpiry))
			_, err := locker.TryAcquire(t.Context(), "job")
			require.Error(t, err, refused)
			require.Regexp(t, env.NoPermission, err.Error())
			admin := env.NewLocker(t, server.Client(t))
			lock, err := admin.Acquire(t.Context(), "job", rlock.WithRetry(rlock.Fixed(time.Millisecond).MaxTime(time.Second)))
			require.NoError(t, err, "%v: the lock was left behind", refused)
			require.NoError(t, lock.Release(t.Context()))

			_, err = locker.TryAcquireAll(t.Context(), []string{"a", "b"})
			require.Error(t, err, refused)
			set, err := admin.TryAcquireAll(t.Context(), []string{"a", "b"})
			require.NoError(t, err, "%v: the set was left behind", refused)
			require.NoError(t, set.Release(t.Context()))
		}
	})
}

// A repair is not begun on a context that has ended, and ends with it.
func TestForceReleaseKeepsItsContext(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Run("has ended", func(t *testing.T) {
			f, locker, direct := env.NewFaulty(t, e)
			lock, err := locker.Acquire(t.Context(), "job")
			require.NoError(t, err)
			token := lock.Token()
			sent := 0
			f.When(func(_ []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				sent++
				return run()
			})
			why := errors.New("the operator has changed his mind")
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(why)
			err = locker.ForceRelease(ctx, "job", token)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, why)
			require.Zero(t, sent, "nothing is sent")
			require.Equal(t, token, env.Get(t, direct, "job"))
			require.True(t, lock.Valid())
		})
		t.Run("ends", func(t *testing.T) {
			proxy := env.NewProxy(t, e.Start(t).Addr())
			client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{proxy.Addr()}})
			require.NoError(t, err)
			t.Cleanup(client.Close)
			locker := env.NewLocker(t, client)
			lock, err := locker.Acquire(t.Context(), "job")
			require.NoError(t, err)
			proxy.BlackHole(true)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			start := time.Now()
			require.ErrorIs(t, locker.ForceRelease(ctx, "job", lock.Token()), context.DeadlineExceeded)
			require.Less(t, time.Since(start), time.Second, "it does not insist beyond the deadline")
		})
	})
}
