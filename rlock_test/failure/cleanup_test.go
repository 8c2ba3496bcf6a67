package failure

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// The first attempt takes the lock and its reply is lost; the second is refused.
func TestLostThenRefusedIsCleanedUp(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		var calls atomic.Int32
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if !env.IsAcquire(words) {
				return run()
			}
			if calls.Add(1) == 1 {
				run()
				return env.NoReply()
			}
			return f.Refuse("OOM command not allowed")
		})
		_, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))
		require.ErrorContains(t, err, "OOM")
		env.Soon(t, func() bool { return env.Get(t, direct, "job") == "" }, "nothing is left")
	})
}

// A server that cannot release yet is asked again.
func TestCleaningUpSurvivesRefusals(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		var releases atomic.Int32
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			switch {
			case env.IsAcquire(words):
				run()
				return env.NoReply()
			case env.Calls(words, gen.ReleaseSHA1) && releases.Add(1) <= 2:
				return f.Refuse("LOADING for now")
			}
			return run()
		})
		_, err := locker.TryAcquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))
		require.Error(t, err)
		env.Soon(t, func() bool { return env.Get(t, direct, "job") == "" }, "nothing is left")
	})
}

// Cleaning up costs a few calls, however long the server is away.
func TestCleaningUpIsSparing(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, _ := env.NewFaulty(t, e)
		var releases atomic.Int32
		f.When(func(words []string, _ func() rueidis.RedisResult) rueidis.RedisResult {
			if env.Calls(words, gen.ReleaseSHA1) {
				releases.Add(1)
			}
			return env.NoReply()
		})
		_, err := locker.TryAcquire(t.Context(), "job", rlock.WithTTL(3*time.Second))
		require.Error(t, err)
		time.Sleep(4 * time.Second)
		done := releases.Load()
		require.Greater(t, done, int32(3))
		require.Less(t, done, int32(10))
		time.Sleep(time.Second)
		require.Equal(t, done, releases.Load(), "the lease is over, and so is the cleaning up")
	})
}

// With a token of the caller's, another acquisition may own the lock by now.
func TestNoCleaningUpWithOnesOwnToken(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		ctx, exceed := env.Deadline(t.Context())
		f.When(env.Once(gen.AcquireSHA1, func(func() rueidis.RedisResult) rueidis.RedisResult {
			exceed()
			return rueidis.NewErrorResult(context.DeadlineExceeded) // it never reached the server
		}))
		_, err := locker.Acquire(ctx, "job", rlock.WithToken("job-12"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithToken("job-12"))
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Equal(t, "job-12", env.Get(t, direct, "job"))
		require.NoError(t, lock.Err())
	})
}

// A key that has to be freed does not wait for older ones, which are looked for at
// growing intervals.
func TestCleaningUpIsPrompt(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		lose := func(key string, arrives bool) {
			var releases atomic.Int32
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				if !env.IsAcquire(words) {
					releases.Add(1)
					return run()
				}
				if arrives {
					run()
				}
				return env.NoReply()
			})
			_, err := locker.TryAcquire(t.Context(), key, rlock.WithTTL(rlock.NoExpiry))
			require.Error(t, err)
			if !arrives { // after the fifth, 6.4 s pass before the next
				env.Soon(t, func() bool { return releases.Load() == 5 }, "five tries")
			}
		}
		lose("old", false)
		lose("new", true)
		require.Eventually(t, func() bool { return env.Get(t, direct, "new") == "" }, 4*time.Second,
			5*time.Millisecond)
	})
}
