package failure

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// loseOne runs the first command that matches, and loses its reply.
func loseOne(match func(words []string) bool) func([]string, func() rueidis.RedisResult) rueidis.RedisResult {
	var done atomic.Bool
	return func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
		reply := run()
		if match(words) && done.CompareAndSwap(false, true) {
			return env.NoReply()
		}
		return reply
	}
}

func renewal(words []string) bool { return env.Calls(words, gen.ExtendSHA1) }

// lasts checks that a lock has a lease of about ttl, here and on the server.
func lasts(t *testing.T, client rueidis.Client, lock *rlock.Lock, ttl time.Duration) {
	t.Helper()
	require.NoError(t, lock.Err())
	for _, key := range lock.Keys() {
		require.Equal(t, lock.Token(), env.Get(t, client, key))
		if ttl == rlock.NoExpiry {
			left, err := env.Do(t, client, "PTTL", key).ToInt64()
			require.NoError(t, err)
			require.Equal(t, int64(-1), left, "%s never expires", key)
		} else {
			requireLeft(t, ttl, env.TTL(t, client, key))
		}
	}
	if ttl == rlock.NoExpiry {
		require.Zero(t, lock.Deadline())
	} else {
		requireLeft(t, ttl, time.Until(lock.Deadline()))
	}
}

// requireLeft checks what is left of a lease of ttl that began a moment ago. A busy machine makes
// the moment long, and no machine makes the lease longer.
func requireLeft(t *testing.T, ttl, left time.Duration) {
	t.Helper()
	require.LessOrEqual(t, left, ttl)
	require.Greater(t, left, ttl/2)
}

// A reply that was lost costs the extensions after it nothing, be it of an extension that
// was asked for or of an automatic one.
func TestLostExtensionIsForgotten(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, ttl := range map[string]time.Duration{"longer": time.Hour, "for ever": rlock.NoExpiry,
			"shorter": 8 * time.Second} {
			t.Run(name, func(t *testing.T) {
				f, locker, direct := env.NewFaulty(t, e)
				lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(20*time.Second))
				require.NoError(t, err)
				f.When(loseOne(env.IsExtend))
				require.NoError(t, lock.Extend(t.Context(), 10*time.Second), "it is sent again")
				require.NoError(t, lock.Extend(t.Context(), ttl))
				lasts(t, direct, lock, ttl)
			})
			t.Run(name+" of a set", func(t *testing.T) {
				f, locker, direct := env.NewFaulty(t, e)
				lock, err := locker.AcquireAll(t.Context(), []string{"a", "b"}, rlock.WithTTL(20*time.Second))
				require.NoError(t, err)
				ctx, exceed := env.Deadline(t.Context())
				f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
					if env.IsExtend(words) {
						exceed()
						return env.NoReply()
					}
					return run()
				})
				require.Error(t, lock.Extend(ctx, 10*time.Second))
				f.When(nil)
				require.NoError(t, lock.Extend(t.Context(), ttl))
				lasts(t, direct, lock, ttl)
			})
			t.Run(name+" after a renewal", func(t *testing.T) {
				f, locker, direct := env.NewFaulty(t, e)
				var lost atomic.Bool
				f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
					reply := run()
					if renewal(words) && lost.CompareAndSwap(false, true) {
						return env.NoReply()
					}
					return reply
				})
				lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(6*time.Second), rlock.WithAutoExtend(true))
				require.NoError(t, err)
				env.Soon(t, func() bool { return lost.Load() }, "a renewal is lost")
				require.NoError(t, lock.Extend(t.Context(), ttl))
				lasts(t, direct, lock, ttl)
			})
		}
	})
}

// A nil means a new lease of ttl, whatever renewal is on its way at that moment.
func TestExtendBesideARenewal(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, ttl := range map[string]time.Duration{"longer": time.Hour, "for ever": rlock.NoExpiry,
			"shorter": 6 * time.Second} {
			for order, runsFirst := range map[string]bool{"before": true, "behind": false} {
				t.Run(name+", the renewal runs "+order, func(t *testing.T) {
					t.Parallel()
					f, locker, direct := env.NewFaulty(t, e)
					gate, ended := env.NewGate(t), make(chan struct{})
					var first atomic.Bool
					f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
						if !renewal(words) || !first.CompareAndSwap(false, true) {
							return run()
						}
						defer close(ended)
						if runsFirst {
							reply := run()
							gate.Pass()
							return reply
						}
						gate.Pass()
						return run()
					})
					lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(8*time.Second), rlock.WithAutoExtend(true))
					require.NoError(t, err)
					gate.Await(t)
					require.NoError(t, lock.Extend(t.Context(), ttl))
					lasts(t, direct, lock, ttl)
					gate.Open()
					env.Receive(t, ended)
					time.Sleep(50 * time.Millisecond) // the Locker takes the answer
					lasts(t, direct, lock, ttl)
					if ttl != time.Hour {
						time.Sleep(8500 * time.Millisecond)
						require.NoError(t, lock.Err(), "it does not end with the old lease")
					}
					require.NoError(t, lock.Release(t.Context()))
					require.Empty(t, env.Get(t, direct, "job"))
				})
			}
		}
	})
}

// No command that is late makes a lease long again that was shortened.
func TestLateCommandsLeaveAShortLeaseAlone(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Run("acquire", func(t *testing.T) {
			for _, ttl := range []time.Duration{time.Hour, rlock.NoExpiry} {
				f, locker, direct := env.NewFaulty(t, e)
				l := &late{client: direct}
				f.When(l.lose(env.IsAcquire))
				lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(ttl))
				require.NoError(t, err)
				require.NoError(t, lock.Extend(t.Context(), 5*time.Second))
				l.deliver(t)
				lasts(t, direct, lock, 5*time.Second)
				// Released, it is not taken by what is late a second time.
				require.NoError(t, lock.Release(t.Context()))
				l.deliver(t)
				env.Soon(t, func() bool { return env.Get(t, direct, "job") == "" }, "what arrives late is freed")
			}
		})
		t.Run("acquire a set", func(t *testing.T) {
			f, locker, direct := env.NewFaulty(t, e)
			l := &late{client: direct}
			f.When(l.lose(func(words []string) bool { return env.Calls(words, gen.AcquireAllSHA1) }))
			lock, err := locker.AcquireAll(t.Context(), []string{"a", "b"}, rlock.WithTTL(rlock.NoExpiry))
			require.NoError(t, err)
			require.NoError(t, lock.Extend(t.Context(), 5*time.Second))
			l.deliver(t)
			lasts(t, direct, lock, 5*time.Second)
		})
		t.Run("hand over", func(t *testing.T) {
			f, locker, direct := env.NewFaulty(t, e, rlock.WithTTL(rlock.NoExpiry))
			lock, err := locker.Acquire(t.Context(), "job")
			require.NoError(t, err)
			l := &late{client: direct}
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				if env.Calls(words, gen.HandOverSHA1) {
					l.words.CompareAndSwap(nil, &words) // a second copy comes later
				}
				return run()
			})
			got := make(chan *rlock.Lock, 1)
			go func() {
				next, err := locker.Acquire(context.Background(), "job")
				if err == nil {
					got <- next
				}
			}()
			env.AwaitWaiting(t, locker, 1)
			require.NoError(t, lock.Release(t.Context()))
			next := env.Receive(t, got)
			require.NoError(t, next.Extend(t.Context(), 5*time.Second))
			l.deliver(t)
			lasts(t, direct, next, 5*time.Second)
		})
		t.Run("extend", func(t *testing.T) {
			for _, ttl := range []time.Duration{time.Hour, rlock.NoExpiry} {
				f, locker, direct := env.NewFaulty(t, e)
				lock, err := locker.Acquire(t.Context(), "job")
				require.NoError(t, err)
				l := &late{client: direct}
				f.When(l.lose(env.IsExtend))
				require.NoError(t, lock.Extend(t.Context(), ttl))
				require.NoError(t, lock.Extend(t.Context(), 5*time.Second))
				l.deliver(t)
				lasts(t, direct, lock, 5*time.Second)
			}
		})
		t.Run("renewal", func(t *testing.T) {
			f, locker, direct := env.NewFaulty(t, e)
			l := &late{client: direct}
			f.When(l.lose(renewal))
			lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(9*time.Second), rlock.WithAutoExtend(true))
			require.NoError(t, err)
			env.Soon(t, func() bool { return l.words.Load() != nil }, "a renewal is lost")
			require.NoError(t, lock.Extend(t.Context(), 4*time.Second))
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				return env.NoReply() // the holder is cut off
			})
			l.deliver(t)
			require.LessOrEqual(t, env.TTL(t, direct, "job"), 4*time.Second)
		})
	})
}

// An Extend that shortens and gets no answer may have run, or may run later. Until that is
// known, whatever is done with the lock does it in both cases.
func TestShorteningWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for how, runs := range map[string]bool{"ran": true, "did not run": false} {
			// unanswered returns a lock whose Extend has just got no answer.
			unanswered := func(t *testing.T, ttl time.Duration, keys ...string) (*env.Faulty, *rlock.Locker,
				rueidis.Client, *rlock.Lock) {
				f, locker, direct := env.NewFaulty(t, e, rlock.WithTTL(ttl))
				lock, err := locker.AcquireAll(t.Context(), keys)
				require.NoError(t, err)
				ctx, exceed := env.Deadline(t.Context())
				f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
					if !env.IsExtend(words) {
						return run()
					}
					if runs {
						run()
					}
					exceed()
					return env.NoReply()
				})
				require.Error(t, lock.Extend(ctx, 10*time.Second))
				f.When(nil)
				require.LessOrEqual(t, time.Until(lock.Deadline()), 10*time.Second)
				return f, locker, direct, lock
			}
			for _, keys := range [][]string{{"job"}, {"a", "b"}} {
				t.Run(fmt.Sprint(how, " ", keys), func(t *testing.T) {
					_, _, direct, lock := unanswered(t, time.Hour, keys...)
					err := lock.Verify(t.Context())
					require.NoError(t, err)
					require.NoError(t, lock.Extend(t.Context(), time.Hour))
					lasts(t, direct, lock, time.Hour)

					_, _, direct, lock = unanswered(t, time.Hour, keys...)
					require.NoError(t, lock.Extend(t.Context(), 8*time.Second))
					lasts(t, direct, lock, 8*time.Second)

					_, _, direct, lock = unanswered(t, rlock.NoExpiry, keys...)
					require.NoError(t, lock.Release(t.Context()))
					require.Empty(t, env.Get(t, direct, keys[0]))

					_, locker, direct, lock := unanswered(t, rlock.NoExpiry, keys...)
					require.NoError(t, locker.ReleaseEach(t.Context(), []*rlock.Lock{lock})[0])
					require.Empty(t, env.Get(t, direct, keys[0]))

					_, _, direct, lock = unanswered(t, rlock.NoExpiry, keys...)
					again, err := env.NewLocker(t, direct).Attach(t.Context(), env.Detach(t, lock))
					require.NoError(t, err)
					require.NoError(t, again.Extend(t.Context(), time.Minute))
					lasts(t, direct, again, time.Minute)
					require.NoError(t, again.Release(t.Context()))

					_, locker, direct, lock = unanswered(t, rlock.NoExpiry, keys...)
					require.NoError(t, env.Admin(locker).ForceRelease(t.Context(), keys[0], env.Get(t, direct, keys[0])))
					require.ErrorIs(t, lock.Extend(t.Context(), time.Hour), rlock.ErrLost)
				})
			}
			t.Run(how+", somebody waits", func(t *testing.T) {
				f, locker, direct := env.NewFaulty(t, e, rlock.WithTTL(time.Hour))
				lock, err := locker.Acquire(t.Context(), "job")
				require.NoError(t, err)
				ctx, exceed := env.Deadline(t.Context())
				f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
					if !env.IsExtend(words) {
						return run()
					}
					if runs {
						run()
					}
					exceed()
					return env.NoReply()
				})
				got := make(chan *rlock.Lock, 1)
				go func() {
					if next, err := locker.Acquire(context.Background(), "job"); err == nil {
						got <- next
					}
				}()
				env.AwaitWaiting(t, locker, 1)
				require.Error(t, lock.Extend(ctx, time.Minute))
				require.NoError(t, lock.Release(t.Context()))
				lasts(t, direct, env.Receive(t, got), time.Hour)
			})
			t.Run(how+", and it is extended", func(t *testing.T) {
				f, locker, direct := env.NewFaulty(t, e)
				lock, err := locker.Acquire(t.Context(), "job", rlock.WithAutoExtend(true))
				require.NoError(t, err)
				require.NoError(t, lock.Extend(t.Context(), rlock.NoExpiry))
				lasts(t, direct, lock, rlock.NoExpiry)
				ctx, exceed := env.Deadline(t.Context())
				f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
					if !env.IsExtend(words) {
						return run()
					}
					if runs {
						run()
					}
					exceed()
					return env.NoReply()
				})
				require.Error(t, lock.Extend(ctx, 9*time.Second))
				require.NotZero(t, lock.Deadline())
				f.When(nil)
				env.Soon(t, func() bool { return lock.Deadline().IsZero() }, "it gets back the lease that it had")
				lasts(t, direct, lock, rlock.NoExpiry)
			})
		}
	})
}

// Who looks at a lock while Extend shortens its lease, which gives it another token, does
// not take it for lost.
func TestShorteningIsNoLoss(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		locker := env.OpenLocker(t, server.Option())
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Minute), rlock.WithAutoExtend(true))
		require.NoError(t, err)
		ctx := lock.Context()
		server.AwaitTracked(t, 1)
		checks := make(chan error, 1)
		go func() {
			for {
				if err := lock.Verify(context.Background()); err != nil {
					checks <- err
					return
				}
			}
		}()
		former := map[string]bool{}
		for i := range 300 {
			former[lock.Token()] = true
			require.NoError(t, lock.Extend(t.Context(), 2*time.Minute))
			require.NoError(t, lock.Extend(t.Context(), time.Duration(60-i%20)*time.Second))
			require.False(t, former[lock.Token()], "a token is not used again")
		}
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, ctx.Err(), "%v", context.Cause(ctx))
		require.NoError(t, lock.Release(t.Context()))
		require.ErrorIs(t, env.Receive(t, checks), rlock.ErrReleased)
		require.Zero(t, locker.Stats().Lost)
	})
}

// With a token of the caller's a lease only grows, as somebody else may hold by the token.
func TestNobodyShortensASharedToken(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		a, b := env.NewLocker(t, client), env.NewLocker(t, client)
		one, err := a.Acquire(t.Context(), "job", rlock.WithToken("mine"), rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		other, err := b.Acquire(t.Context(), "job", rlock.WithToken("mine"), rlock.WithTTL(10*time.Second))
		require.NoError(t, err)
		lasts(t, client, one, time.Minute)
		require.NoError(t, other.Extend(t.Context(), 20*time.Second))
		lasts(t, client, one, time.Minute)
		require.ErrorIs(t, other.Extend(t.Context(), 10*time.Second), rlock.ErrInvalid)
		require.ErrorIs(t, a.ExtendEach(t.Context(), []*rlock.Lock{one}, time.Second)[0], rlock.ErrInvalid)
		lasts(t, client, one, time.Minute)
		require.NoError(t, other.Extend(t.Context(), time.Hour))
		lasts(t, client, other, time.Hour)
		require.NoError(t, other.Release(t.Context()))
		require.ErrorIs(t, one.Extend(t.Context(), time.Hour), rlock.ErrLost)
	})
}

// A server that is out of memory shortens leases too, and has locks attached.
func TestShorteningWithoutMemory(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		client := server.Client(t)
		locker := env.NewLocker(t, client)
		lock, err := locker.AcquireAll(t.Context(), []string{"a", "b"}, rlock.WithTTL(time.Hour))
		require.NoError(t, err)
		server.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
		server.Do(t, "CONFIG", "SET", "maxmemory", "1")
		_, err = locker.TryAcquire(t.Context(), "another")
		require.ErrorContains(t, err, "OOM")
		require.NoError(t, lock.Extend(t.Context(), time.Minute))
		lasts(t, client, lock, time.Minute)
		require.NoError(t, lock.Extend(t.Context(), rlock.NoExpiry))
		lasts(t, client, lock, rlock.NoExpiry)
		again, err := locker.Attach(t.Context(), env.Detach(t, lock))
		require.NoError(t, err)
		lasts(t, client, again, rlock.NoExpiry)
		require.NoError(t, again.Release(t.Context()))
	})
}

// The TTL of the user's Extend stays, although an automatic one was under way.
func TestExtendKeepsItsTTL(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		gate := env.NewGate(t)
		f.When(env.Once(gen.ExtendSHA1, func(run func() rueidis.RedisResult) rueidis.RedisResult {
			reply := run()
			gate.Pass()
			return reply
		}))
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(6*time.Second), rlock.WithAutoExtend(true))
		require.NoError(t, err)
		gate.Await(t)
		require.NoError(t, lock.Extend(t.Context(), 18*time.Second))
		gate.Open()
		time.Sleep(8 * time.Second)
		left, err := env.Do(t, direct, "PTTL", "job").ToInt64()
		require.NoError(t, err)
		require.Greater(t, left, int64(6000), "as the automatic one would have left it")
		require.NoError(t, lock.Err())
	})
}
