package failure

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Wherever in a contended acquisition the context ends (in the line, at a try, at a
// read of the cache, while the lock is being granted), nothing is left.
func TestContextEndsAnywhere(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		direct := server.Client(t)
		proxy := env.NewProxy(t, server.Addr())
		locker, rival := openedThrough(t, proxy), env.OpenOn(t, server)
		require.NoError(t, gen.New().Load(t.Context(), direct))
		proxy.Delay(4 * time.Millisecond)
		acquired := 0
		// Contexts last longer and longer, until the lock has been granted to some: on a busy
		// machine that may need more than 50 ms.
		for wait := 0; wait < 50 || acquired == 0; wait++ {
			key := fmt.Sprint("job", wait)
			held, err := rival.Acquire(t.Context(), key, rlock.WithTTL(rlock.NoExpiry))
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(wait)*time.Millisecond)
			time.AfterFunc(15*time.Millisecond, func() {
				if err := held.Release(context.Background()); err != nil {
					t.Error(err)
				}
			})
			require.NoError(t, env.Together(3, func(int) error {
				lock, err := locker.Acquire(ctx, key, rlock.WithTTL(rlock.NoExpiry))
				if err == nil {
					acquired++ // one at a time: it has the lock
					return lock.Release(ctx)
				}
				return nil
			}))
			cancel()
			env.Soon(t, func() bool { return env.Get(t, direct, key) == "" }, "no key is left")
		}
		require.Positive(t, locker.Stats().AcquireFailed)
		// Late commands have arrived by now, and what they took is freed again.
		env.Soon(t, func() bool {
			keys, err := env.Do(t, direct, "KEYS", "job*").AsStrSlice()
			require.NoError(t, err)
			return len(keys) == 0
		}, "no key is left")
		lock, err := locker.Acquire(t.Context(), "job0")
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
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
			err = env.Admin(locker).ForceRelease(ctx, "job", token)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, why)
			require.Zero(t, sent, "nothing is sent")
			require.Equal(t, token, env.Get(t, direct, "job"))
			require.NoError(t, lock.Err())
		})
		t.Run("ends", func(t *testing.T) {
			proxy := env.NewProxy(t, e.Start(t).Addr())
			client, err := rueidis.NewClient(
				rueidis.ClientOption{InitAddress: []string{proxy.Addr()}, ConnWriteTimeout: time.Minute})
			require.NoError(t, err)
			t.Cleanup(client.Close)
			locker := env.NewLocker(t, client)
			lock, err := locker.Acquire(t.Context(), "job")
			require.NoError(t, err)
			proxy.BlackHole(true)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			start := time.Now()
			require.ErrorIs(t, env.Admin(locker).ForceRelease(ctx, "job", lock.Token()), context.DeadlineExceeded)
			require.Less(t, time.Since(start), 20*time.Second, "it does not insist beyond the deadline")
		})
	})
}

// However the context ends, the error says that waiting was given up, for whom, and
// why.
func TestGaveUpWhereverTheContextEnds(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		l := newLink(t, e)
		held, err := env.NewLocker(t, l.direct).Acquire(t.Context(), "job", rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		l.proxy.Delay(20 * time.Millisecond)
		for round := range 3 {
			why := context.Canceled
			// in which an answer must have come
			ctx, cancel := context.WithTimeoutCause(t.Context(), 6*time.Second, why)
			_, err = l.locker.Acquire(ctx, "job", rlock.WithRetry(rlock.Fixed(time.Millisecond)))
			cancel()
			require.ErrorIs(t, err, rlock.ErrGaveUp)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, why, "the context's cause")
			if errors.Is(err, rlock.ErrNoAnswer) && round < 2 {
				continue // a busy machine took a second for the last answer
			}
			require.ErrorIs(t, err, rlock.ErrHeld)
			var facts *rlock.AcquireError
			require.ErrorAs(t, err, &facts)
			require.Positive(t, facts.Remaining)
		}
		require.Equal(t, held.Token(), env.Get(t, l.direct, "job"))
	})
}
