package rlock_test

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

// Keys that wait for another try long from now do not keep others waiting.
func TestCleaningUpStartsAtOnce(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if env.IsAcquire(words) {
				return env.NoReply() // never arrives, so that there is nothing to free
			}
			return run()
		})
		_, err := locker.TryAcquire(t.Context(), "never", rlock.WithTTL(rlock.NoExpiry))
		require.Error(t, err)
		time.Sleep(700 * time.Millisecond) // tries at 25, 125 and 525 ms; the next one after 1.6 s

		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			reply := run()
			if env.IsAcquire(words) {
				return env.NoReply()
			}
			return reply
		})
		_, err = locker.TryAcquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))
		require.Error(t, err)
		require.Eventually(t, func() bool { return env.Get(t, direct, "job") == "" }, time.Second, 5*time.Millisecond)
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
		f.When(env.Once(gen.AcquireSHA1, func(func() rueidis.RedisResult) rueidis.RedisResult {
			time.Sleep(60 * time.Millisecond)
			return rueidis.NewErrorResult(context.DeadlineExceeded) // it never reached the server
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := locker.Acquire(ctx, "job", rlock.WithToken("job-12"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithToken("job-12"))
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Equal(t, "job-12", env.Get(t, direct, "job"))
		require.True(t, lock.Valid())
	})
}

// nil from Do means that the lock was held throughout, whatever happened to the
// reply of the release.
func TestLossIsToldDespiteALostReply(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		lostOnce := func() func([]string, func() rueidis.RedisResult) rueidis.RedisResult {
			return env.Once(gen.ReleaseSHA1, func(func() rueidis.RedisResult) rueidis.RedisResult { return env.NoReply() })
		}
		t.Run("do", func(t *testing.T) {
			f, locker, direct := env.NewFaulty(t, e, rlock.WithTTL(3*time.Second))
			f.When(lostOnce())
			err := locker.Do(t.Context(), "job", func(ctx context.Context, _ *rlock.Lock) error {
				require.NoError(t, env.Do(t, direct, "SET", "job", "thief").Error())
				<-ctx.Done()
				return nil
			})
			require.ErrorIs(t, err, rlock.ErrLost)
		})
		t.Run("a set", func(t *testing.T) {
			f, locker, direct := env.NewFaulty(t, e)
			lock, err := locker.AcquireAll(t.Context(), []string{"x", "y", "z"})
			require.NoError(t, err)
			require.NoError(t, env.Do(t, direct, "SET", "y", "thief").Error())
			f.When(lostOnce())
			require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrLost)
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
		for range 5 {
			why := context.Canceled
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
			_, err = l.locker.Acquire(ctx, "job", rlock.WithRetry(rlock.Fixed(time.Millisecond)))
			cancel()
			require.ErrorIs(t, err, rlock.ErrGaveUp)
			require.ErrorIs(t, err, rlock.ErrHeld)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, why, "the context's cause")
			var facts *rlock.AcquireError
			require.ErrorAs(t, err, &facts)
			require.Positive(t, facts.Left)
		}
		require.Equal(t, held.Token(), env.Get(t, l.direct, "job"))
	})
}

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

func TestExtendAfterClose(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		_, locker, _ := env.NewFaulty(t, e)
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		locker.Close()
		require.False(t, lock.Valid())
		require.ErrorIs(t, lock.Extend(t.Context(), time.Hour), rlock.ErrClosed)
	})
}

// A second Release waits for the first, and does the work if that could not.
func TestConcurrentRelease(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		started, goOn := make(chan struct{}), make(chan struct{})
		f.When(env.Once(gen.ReleaseSHA1, func(func() rueidis.RedisResult) rueidis.RedisResult {
			close(started)
			<-goOn
			return f.Refuse("READONLY for now")
		}))
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- lock.Release(t.Context()) }()
		<-started
		go func() { second <- lock.Release(t.Context()) }()
		close(goOn)
		require.ErrorContains(t, <-first, "READONLY")
		require.NoError(t, <-second)
		require.Empty(t, env.Get(t, direct, "job"))
	})
}

// The Context ends before another can have the keys.
func TestContextEndsBeforeTheKeysAreFree(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, _ := env.NewFaulty(t, e)
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		ctx := lock.Context()
		var ended atomic.Bool
		f.When(env.Once(gen.ReleaseSHA1, func(run func() rueidis.RedisResult) rueidis.RedisResult {
			ended.Store(ctx.Err() != nil)
			return run()
		}))
		require.NoError(t, lock.Release(t.Context()))
		require.True(t, ended.Load())
	})
}

// The TTL of the user's Extend stays, although an automatic one was under way.
func TestExtendKeepsItsTTL(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		started, goOn := make(chan struct{}), make(chan struct{})
		f.When(env.Once(gen.ExtendManySHA1, func(run func() rueidis.RedisResult) rueidis.RedisResult {
			reply := run()
			close(started)
			<-goOn
			return reply
		}))
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(3*time.Second), rlock.WithAutoExtend(true))
		require.NoError(t, err)
		<-started
		require.NoError(t, lock.Extend(t.Context(), 18*time.Second))
		close(goOn)
		time.Sleep(8 * time.Second)
		left, err := env.Do(t, direct, "PTTL", "job").ToInt64()
		require.NoError(t, err)
		require.Greater(t, left, int64(6000))
		require.True(t, lock.Valid())
	})
}

// A slow network is not a dead one, even while the client opens connections, each of
// which takes several round trips.
func TestAutoExtendOverASlowNetwork(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		l := newLink(t, e)
		l.proxy.Delay(250 * time.Millisecond)
		lock, err := l.locker.Acquire(t.Context(), "job", rlock.WithTTL(5*time.Second), rlock.WithAutoExtend(true))
		require.NoError(t, err)
		time.Sleep(11 * time.Second)
		require.True(t, lock.Valid())
	})
}
