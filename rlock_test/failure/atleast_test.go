package failure

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// The reply to a release that keeps others out is lost: the release is sent again, and confirmed.
func TestLostReplyOnReleaseWithAtLeast(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		for _, runs := range []bool{false, true} {
			lock, err := locker.Acquire(t.Context(), "job", rlock.WithAtLeast(5*time.Second))
			require.NoError(t, err)
			var calls atomic.Int32
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				if !env.IsExtend(words) || calls.Add(1) > 1 {
					return run()
				}
				if runs {
					run()
				}
				return env.NoReply()
			})
			require.NoError(t, lock.Release(t.Context()))
			require.Equal(t, int32(2), calls.Load())
			require.NotEmpty(t, env.Get(t, direct, "job"))
			require.LessOrEqual(t, env.TTL(t, direct, "job"), 5*time.Second)
			require.NoError(t, env.Do(t, direct, "DEL", "job").Error())
		}
	})
}

// No answer comes at all. The caller is told, others are kept out, and this process frees the key when
// the time is over, however long its lease is.
func TestUnansweredReleaseWithAtLeast(t *testing.T) {
	t.Parallel()
	const atLeast = 4 * time.Second
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, test := range map[string]struct {
			runs  bool // the server runs the command
			again bool // the caller releases again
		}{
			"never arrives":                 {},
			"runs":                          {runs: true},
			"never arrives, released again": {again: true},
			"runs, released again":          {true, true},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f, locker, direct := env.NewFaulty(t, e)
				start := time.Now()
				lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Hour), rlock.WithAtLeast(atLeast))
				require.NoError(t, err)
				f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
					if env.IsExtend(words) {
						if test.runs {
							run()
						}
						return env.NoReply()
					}
					return run()
				})
				require.Error(t, lock.Release(t.Context()))
				require.Equal(t, uint64(1), locker.Stats().ReleaseFailed)
				f.When(nil)
				if early := env.Get(t, direct, "job"); time.Since(start) < atLeast {
					require.NotEmpty(t, early)
				}
				if test.again {
					require.NoError(t, lock.Release(t.Context()), "it may be called again")
					require.Less(t, env.TTL(t, direct, "job"), atLeast)
				}
				next, err := env.NewLocker(t, direct).Acquire(t.Context(), "job")
				require.NoError(t, err)
				require.GreaterOrEqual(t, time.Since(start), atLeast)
				time.Sleep(200 * time.Millisecond)
				require.True(t, next.Valid())
				require.NoError(t, next.Release(t.Context()), "the reaper has left the next holder alone")
			})
		}
	})
}

// A Release that is called again when the time is over frees the key, whichever token it has.
func TestReleaseWithAtLeastAgainWhenItIsOver(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		f, locker, direct := env.NewFaulty(t, e)
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithToken("mine"), rlock.WithTTL(time.Hour), rlock.WithAtLeast(time.Second))
		require.NoError(t, err)
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if env.IsExtend(words) {
				return env.NoReply()
			}
			return run()
		})
		require.Error(t, lock.Release(t.Context()), "for two seconds")
		require.Equal(t, "mine", env.Get(t, direct, "job"), "with a token of the caller's, nothing is freed in the background")
		require.NoError(t, lock.Release(t.Context()))
		require.Empty(t, env.Get(t, direct, "job"))
	})
}

// An extension that arrives after the release does not give the key the long lease back.
func TestLateExtensionAfterAReleaseWithAtLeast(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		l := &late{client: direct}
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithAtLeast(5*time.Second))
		require.NoError(t, err)
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if env.IsExtendTo(words, "3600000") {
				l.words.CompareAndSwap(nil, &words)
				return env.NoReply()
			}
			return run()
		})
		require.Error(t, lock.Extend(t.Context(), time.Hour))
		require.NoError(t, lock.Release(t.Context()))
		l.deliver(t)
		require.Less(t, env.TTL(t, direct, "job"), 5*time.Second)
	})
}

// A process that dies under a lock keeps others out, too.
func TestHolderDiesWithAtLeast(t *testing.T) {
	t.Parallel()
	const atLeast = 500 * time.Millisecond
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		dies := env.NewLocker(t, server.Client(t))
		start := time.Now()
		_, err := dies.Acquire(t.Context(), "job", rlock.WithTTL(atLeast), rlock.WithAtLeast(atLeast))
		require.NoError(t, err)
		dies.Close()
		next, err := env.NewLocker(t, server.Client(t)).Acquire(t.Context(), "job")
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(start), atLeast)
		require.NoError(t, next.Release(t.Context()))
	})
}
