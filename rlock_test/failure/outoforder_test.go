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

// late runs a command when deliver is called, on another connection, after its
// sender was told that no reply came.
type late struct {
	client rueidis.Client
	words  atomic.Pointer[[]string]
}

// lose keeps the first command that matches, unsent.
func (l *late) lose(match func(words []string) bool) func([]string,
	func() rueidis.RedisResult) rueidis.RedisResult {
	return func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
		if match(words) && l.words.CompareAndSwap(nil, &words) {
			return env.NoReply()
		}
		return run()
	}
}

// keepAcquires answers no acquisition, and keeps the first.
func (l *late) keepAcquires(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
	if env.IsAcquire(words) {
		l.words.CompareAndSwap(nil, &words)
		return env.NoReply()
	}
	return run()
}

func (l *late) deliver(t *testing.T) {
	t.Helper()
	require.NotNil(t, l.words.Load(), "nothing was lost")
	env.Do(t, l.client, *l.words.Load()...)
}

// An attempt of an acquisition that arrives after a later one has succeeded.
func TestLateAcquire(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Run("does not cut the lease", func(t *testing.T) {
			f, locker, direct := env.NewFaulty(t, e)
			l := &late{client: direct}
			f.When(l.lose(env.IsAcquire))
			lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(5*time.Second))
			require.NoError(t, err)
			require.NoError(t, lock.Extend(t.Context(), time.Hour))
			l.deliver(t)
			left, err := env.Do(t, direct, "PTTL", "job").ToInt64()
			require.NoError(t, err)
			require.Greater(t, left, int64(3_500_000))
			require.NoError(t, lock.Err())
		})
		t.Run("does not cut a lease without end", func(t *testing.T) {
			f, locker, direct := env.NewFaulty(t, e)
			l := &late{client: direct}
			f.When(l.lose(func(words []string) bool { return env.Calls(words, gen.AcquireAllSHA1) }))
			lock, err := locker.AcquireAll(t.Context(), []string{"a", "b"}, rlock.WithTTL(5*time.Second))
			require.NoError(t, err)
			require.NoError(t, lock.Extend(t.Context(), rlock.NoExpiry))
			l.deliver(t)
			left, err := env.Do(t, direct, "PTTL", "b").ToInt64()
			require.NoError(t, err)
			require.Equal(t, int64(-1), left)
		})
		t.Run("after the release is cleaned up", func(t *testing.T) {
			f, locker, direct := env.NewFaulty(t, e)
			l := &late{client: direct}
			f.When(l.lose(env.IsAcquire))
			lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))
			require.NoError(t, err)
			require.NoError(t, lock.Release(t.Context()))
			l.deliver(t)
			env.Soon(t, func() bool { return env.Get(t, direct, "job") == "" }, "what arrives late is freed")
		})
		t.Run("after giving up is cleaned up", func(t *testing.T) {
			f, locker, direct := env.NewFaulty(t, e)
			l := &late{client: direct}
			f.When(l.keepAcquires)
			_, err := locker.TryAcquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))
			require.Error(t, err)
			time.Sleep(700 * time.Millisecond) // several releases have found nothing
			l.deliver(t)
			env.Soon(t, func() bool { return env.Get(t, direct, "job") == "" }, "what arrives late is freed")
		})
	})
}

// Nothing that arrives late touches the lock of the next holder.
func TestLateCommandsLeaveTheNextHolderAlone(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, sha := range map[string]string{
			"acquire": gen.AcquireSHA1, "extend": gen.ExtendSHA1, "release": gen.ReleaseSHA1,
		} {
			t.Run(name, func(t *testing.T) {
				f, locker, direct := env.NewFaulty(t, e)
				l := &late{client: direct}
				f.When(l.lose(func(words []string) bool { return env.Calls(words, sha) }))
				lock, err := locker.Acquire(t.Context(), "job")
				require.NoError(t, err)
				require.NoError(t, lock.Extend(t.Context(), 5*time.Second))
				require.NoError(t, lock.Release(t.Context()))
				next, err := env.NewLocker(t, direct).Acquire(t.Context(), "job", rlock.WithTTL(time.Hour))
				require.NoError(t, err)
				l.deliver(t)
				require.Equal(t, next.Token(), env.Get(t, direct, "job"))
				require.Greater(t, env.TTL(t, direct, "job"), 50*time.Minute)
			})
		}
	})
}

// An acquisition that arrives when nobody is left to clean up behind it costs others no
// more than its lease.
func TestLateAcquireOfTheDead(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		l := &late{client: direct}
		f.When(l.keepAcquires)
		const ttl = 4 * time.Second
		_, err := locker.TryAcquire(t.Context(), "job", rlock.WithTTL(ttl))
		require.Error(t, err)
		locker.Close()
		l.deliver(t)
		require.Positive(t, env.TTL(t, direct, "job"), "it is there, for a time")
		require.LessOrEqual(t, env.TTL(t, direct, "job"), ttl)
		next, err := env.NewLocker(t, direct).Acquire(t.Context(), "job")
		require.NoError(t, err)
		require.Equal(t, next.Token(), env.Get(t, direct, "job"))
	})
}

// An extension that arrives after a longer one was confirmed does not cut the lease.
func TestLateExtend(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		l := &late{client: direct}
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		short := func(words []string) bool { return env.IsExtendTo(words, "7000") }
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if short(words) {
				l.words.CompareAndSwap(nil, &words)
				return env.NoReply()
			}
			return run()
		})
		require.Error(t, lock.Extend(t.Context(), 7*time.Second))
		require.NoError(t, lock.Extend(t.Context(), time.Hour))
		require.Greater(t, time.Until(lock.Deadline()), 50*time.Minute)
		l.deliver(t)
		require.Greater(t, env.TTL(t, direct, "job"), 50*time.Minute)
		require.Equal(t, lock.Token(), env.Get(t, direct, "job"))
		require.NoError(t, lock.Release(t.Context()))
	})
}

// A refused extension must not bring back a deadline that another, shorter one has
// brought nearer meanwhile.
func TestRefusedExtensionBesideAShorterOne(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(30*time.Second))
		require.NoError(t, err)
		gate := env.NewGate(t)
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if env.IsExtendTo(words, "60000") {
				gate.Pass()
				return f.Refuse("READONLY for now")
			}
			return run()
		})
		long := make(chan error, 1)
		go func() { long <- lock.Extend(t.Context(), time.Minute) }()
		gate.Await(t)
		require.NoError(t, lock.Extend(t.Context(), 2*time.Second))
		gate.Open()
		require.ErrorContains(t, env.Receive(t, long), "READONLY")
		require.LessOrEqual(t, time.Until(lock.Deadline()), 2*time.Second)
		_, err = env.NewLocker(t, direct).Acquire(t.Context(), "job",
			rlock.WithRetry(rlock.Fixed(time.Millisecond)))
		require.NoError(t, err)
		require.Error(t, lock.Err(), "two holders")
	})
}

// A refused extension that ran alone has not touched the lease.
func TestRefusedExtensionAlone(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		token := lock.Token()
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if env.Calls(words, gen.ExtendSHA1) {
				return f.Refuse("READONLY for now")
			}
			return run()
		})
		require.ErrorContains(t, lock.Extend(t.Context(), 5*time.Second), "READONLY")
		require.Equal(t, token, lock.Token())
		lasts(t, direct, lock, time.Minute)

		// Behind a try that got no answer, nobody knows what the lease is.
		tries := 0
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if env.Calls(words, gen.ExtendSHA1) {
				if tries++; tries == 1 {
					return env.NoReply()
				}
				return f.Refuse("READONLY for now")
			}
			return run()
		})
		require.ErrorContains(t, lock.Extend(t.Context(), 5*time.Second), "READONLY")
		require.LessOrEqual(t, time.Until(lock.Deadline()), 5*time.Second)
		require.NoError(t, lock.Err())
		f.When(nil)
		require.NoError(t, lock.Extend(t.Context(), 20*time.Second))
		lasts(t, direct, lock, 20*time.Second)
	})
}

// A lease that a lost extension may have cut ends the Context too, and is extended
// in time where the lock is extended.
func TestShortenedWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		silent := func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			reply := run()
			if env.Calls(words, gen.ExtendSHA1) {
				return env.NoReply()
			}
			return reply
		}
		for name, ttl := range map[string]time.Duration{"a lease": time.Hour, "no lease": rlock.NoExpiry} {
			t.Run(name, func(t *testing.T) {
				f, locker, _ := env.NewFaulty(t, e)
				lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(ttl))
				require.NoError(t, err)
				ctx := lock.Context()
				f.When(silent)
				require.Error(t, lock.Extend(t.Context(), 500*time.Millisecond))
				env.Receive(t, ctx.Done())
				require.ErrorIs(t, context.Cause(ctx), rlock.ErrExpired)
			})
		}
		t.Run("extended", func(t *testing.T) {
			f, locker, _ := env.NewFaulty(t, e)
			lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(30*time.Second), rlock.WithAutoExtend(true))
			require.NoError(t, err)
			f.When(silent)
			require.Error(t, lock.Extend(t.Context(), 6*time.Second))
			f.When(nil)
			time.Sleep(7 * time.Second)
			require.NoError(t, lock.Err())
		})
	})
}

// An answer that comes after the lease revives nothing, and leaves nothing.
func TestExtensionAnsweredTooLate(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, watched := range map[string]bool{"watched": true, "not watched": false} {
			t.Run(name, func(t *testing.T) {
				f, locker, direct := env.NewFaulty(t, e)
				f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
					reply := run()
					if env.Calls(words, gen.ExtendSHA1) {
						time.Sleep(1300 * time.Millisecond)
					}
					return reply
				})
				lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Second))
				require.NoError(t, err)
				if watched {
					lock.Context()
				}
				require.ErrorIs(t, lock.Extend(t.Context(), time.Hour), rlock.ErrExpired)
				require.Error(t, lock.Err())
				env.Soon(t, func() bool { return env.Get(t, direct, "job") == "" }, "nobody uses the new lease")
			})
		}
		t.Run("a lease that was over before its answer", func(t *testing.T) {
			f, locker, direct := env.NewFaulty(t, e)
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				reply := run()
				if env.Calls(words, gen.ExtendSHA1) {
					time.Sleep(200 * time.Millisecond)
				}
				return reply
			})
			lock, err := locker.Acquire(t.Context(), "job")
			require.NoError(t, err)
			require.ErrorIs(t, lock.Extend(t.Context(), 100*time.Millisecond), rlock.ErrExpired)
			env.Soon(t, func() bool { return env.Get(t, direct, "job") == "" }, "nothing is left")
		})
	})
}

// An extension of a former holder of the process that arrives late leaves the lease of the next one as it is,
// whether it had got no answer when that holder released the lock, or was still under way.
func TestLateExtensionOfTheFormerHolder(t *testing.T) {
	t.Parallel()
	for name, underWay := range map[string]bool{"no answer": false, "under way": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env.Each(t, func(t *testing.T, e env.Engine) {
				const ttl = 10 * time.Second
				f, locker, direct := env.NewFaulty(t, e, rlock.WithTTL(ttl), rlock.WithTurn(time.Minute))
				first := env.MustLock(t)(locker.Acquire(t.Context(), "job"))
				second, got := env.NextInLine(t, locker, "job"), env.NextInLine(t, locker, "job")
				require.NoError(t, first.Release(t.Context())) // which reserves fences
				lock := env.Taken(t, second)
				l, gate := &late{client: direct}, env.NewGate(t)
				lose := l.lose(env.IsExtend)
				f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
					reply := lose(words, run)
					if env.IsExtend(words) {
						gate.Pass()
					}
					return reply
				})
				extended := make(chan error, 1)
				go func() { extended <- lock.Extend(t.Context(), ttl) }()
				gate.Await(t)
				f.When(nil)
				if !underWay {
					gate.Open()
					require.NoError(t, env.Receive(t, extended)) // by its second attempt
				}
				require.NoError(t, lock.Release(t.Context()))
				next := env.Taken(t, got)
				if underWay {
					gate.Open()
					require.ErrorIs(t, env.Receive(t, extended), rlock.ErrReleased)
				}
				const used = ttl - time.Second // which leaves a busy machine time for what follows
				env.Soon(t, func() bool { return env.TTL(t, direct, "job") < used }, "a part of the lease is over")
				l.deliver(t)
				require.Less(t, env.TTL(t, direct, "job"), used)
				require.NoError(t, next.Release(t.Context()))
			})
		})
	}
}
