package failure

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Nothing that the former process still has under way reaches the lock once it is attached.
func TestLateCommandsOfTheFormerProcess(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, cause := range map[string]func(t *testing.T, locker *rlock.Locker,
			lose func(match func([]string) bool)) *rlock.Lock{
			"acquire": func(t *testing.T, locker *rlock.Locker, lose func(func([]string) bool)) *rlock.Lock {
				lose(env.IsAcquire)
				lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))
				require.NoError(t, err)
				return lock
			},
			"an extension that shortens": func(t *testing.T, locker *rlock.Locker,
				lose func(func([]string) bool)) *rlock.Lock {
				lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))
				require.NoError(t, err)
				lose(env.IsExtend)
				require.NoError(t, lock.Extend(t.Context(), 5*time.Second))
				require.NoError(t, lock.Extend(t.Context(), rlock.NoExpiry))
				return lock
			},
			"renewal": func(t *testing.T, locker *rlock.Locker, lose func(func([]string) bool)) *rlock.Lock {
				lose(renewal)
				lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(6*time.Second), rlock.WithAutoExtend(true))
				require.NoError(t, err)
				env.Soon(t, func() bool { return locker.Stats().Extended > 0 }, "a renewal is sent again")
				require.NoError(t, lock.Extend(t.Context(), rlock.NoExpiry))
				return lock
			},
			"attach": func(t *testing.T, locker *rlock.Locker, lose func(func([]string) bool)) *rlock.Lock {
				first, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))
				require.NoError(t, err)
				lose(env.IsAttach)
				lock, err := locker.Attach(t.Context(), env.Detach(t, first))
				require.NoError(t, err)
				return lock
			},
		} {
			t.Run(name, func(t *testing.T) {
				f, locker, direct := env.NewFaulty(t, e)
				l := &late{client: direct}
				lock := cause(t, locker, func(match func([]string) bool) { f.When(l.lose(match)) })
				lasts(t, direct, lock, rlock.NoExpiry)
				again, err := env.NewLocker(t, direct).Attach(t.Context(), env.Detach(t, lock))
				require.NoError(t, err)
				l.deliver(t)
				lasts(t, direct, again, rlock.NoExpiry)
				require.NoError(t, again.Extend(t.Context(), time.Minute))
				l.deliver(t)
				lasts(t, direct, again, time.Minute)
			})
		}
		t.Run("release", func(t *testing.T) {
			f, locker, direct := env.NewFaulty(t, e)
			lock, err := locker.Acquire(t.Context(), "job")
			require.NoError(t, err)
			token := lock.Token()
			again, err := env.NewLocker(t, direct).Attach(t.Context(), env.Detach(t, lock))
			require.NoError(t, err)
			f.When(nil)
			require.ErrorIs(t, env.Admin(locker).ForceRelease(t.Context(), "job", token), rlock.ErrLost)
			lasts(t, direct, again, rlock.DefaultTTL)
		})
	})
}

// A copy of an acquisition that arrives after its lock was detached and attached takes nothing for good: the
// Locker that attached the lock takes it back, and the Handoff says that there may be one.
func TestLateAcquireAfterAttach(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		attach := func(t *testing.T, direct rueidis.Client, lock *rlock.Lock) *rlock.Lock {
			text, err := env.Detach(t, lock).MarshalText()
			require.NoError(t, err)
			var h rlock.Handoff
			require.NoError(t, h.UnmarshalText(text))
			return env.MustLock(t)(env.NewLocker(t, direct).Attach(t.Context(), h, rlock.WithTTL(time.Hour)))
		}
		t.Run("a lock", func(t *testing.T) {
			f, locker, direct := env.NewFaulty(t, e)
			l := &late{client: direct}
			f.When(l.lose(env.IsAcquire))
			again := attach(t, direct,
				env.MustLock(t)(locker.Acquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))))
			require.NoError(t, again.Release(t.Context()))
			l.deliver(t)
			env.Soon(t, func() bool { return env.Get(t, direct, "job") == "" }, "the lock is free again")
		})
		t.Run("two copies", func(t *testing.T) {
			f, locker, direct := env.NewFaulty(t, e)
			first, second := &late{client: direct}, &late{client: direct}
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				return first.lose(env.IsAcquire)(words,
					func() rueidis.RedisResult { return second.lose(env.IsAcquire)(words, run) })
			})
			again := attach(t, direct,
				env.MustLock(t)(locker.Acquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))))
			require.NoError(t, again.Release(t.Context()))
			for _, l := range []*late{first, second} {
				l.deliver(t)
				env.Soon(t, func() bool { return env.Get(t, direct, "job") == "" }, "the lock is free again")
			}
		})
		t.Run("with another token since", func(t *testing.T) {
			f, locker, direct := env.NewFaulty(t, e)
			l := &late{client: direct}
			f.When(l.lose(env.IsAcquire))
			lock := env.MustLock(t)(locker.Acquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry)))
			token := lock.Token()
			require.NoError(t, lock.Extend(t.Context(), time.Hour))
			require.NotEqual(t, token, lock.Token())
			again := attach(t, direct, lock)
			require.NoError(t, again.Release(t.Context()))
			l.deliver(t)
			env.Soon(t, func() bool { return env.Get(t, direct, "job") == "" }, "the lock is free again")
		})
		t.Run("a permit", func(t *testing.T) {
			f, locker, direct := env.NewFaulty(t, e)
			l := &late{client: direct}
			f.When(l.lose(func(words []string) bool { return env.Calls(words, gen.WaitSHA1) }))
			again := attach(t, direct,
				env.MustLock(t)(locker.AcquirePermits(t.Context(), "job", 1, 2, rlock.WithTTL(rlock.NoExpiry))))
			l.deliver(t)
			env.Soon(t, func() bool {
				lock, err := locker.TryAcquirePermits(t.Context(), "job", 1, 2)
				return err == nil && lock.Release(t.Context()) == nil
			}, "the second permit is free again")
			require.NoError(t, again.Err())
			require.NoError(t, again.Release(t.Context()))
		})
	})
}

// An Attach whose reply is lost is repeated, by itself and by the caller, and two that use
// one Handoff never both get the lock.
func TestAttachAgain(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Run("a lost reply", func(t *testing.T) {
			f, locker, direct := env.NewFaulty(t, e)
			lock, err := locker.AcquireAll(t.Context(), []string{"a", "b"})
			require.NoError(t, err)
			h := env.Detach(t, lock)
			f.When(loseOne(env.IsAttach))
			again, err := locker.Attach(t.Context(), h)
			require.NoError(t, err)
			lasts(t, direct, again, rlock.DefaultTTL)
			_, err = locker.Attach(t.Context(), h)
			require.ErrorIs(t, err, rlock.ErrLost)
			lasts(t, direct, again, rlock.DefaultTTL)
		})
		for how, runs := range map[string]bool{"ran": true, "did not run": false} {
			t.Run("no reply at all, "+how, func(t *testing.T) {
				f, locker, direct := env.NewFaulty(t, e)
				lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Hour))
				require.NoError(t, err)
				h := env.Detach(t, lock)
				ctx, exceed := env.Deadline(t.Context())
				f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
					if runs || !env.IsAttach(words) {
						run()
					}
					exceed()
					return env.NoReply()
				})
				_, err = locker.Attach(ctx, h)
				require.Error(t, err)
				require.NotErrorIs(t, err, rlock.ErrLost)
				f.When(nil)
				again, err := env.NewLocker(t, direct).Attach(t.Context(), h)
				require.NoError(t, err, "the caller repeats it, with another Locker")
				lasts(t, direct, again, time.Hour)
				_, err = locker.Attach(t.Context(), h)
				require.ErrorIs(t, err, rlock.ErrLost)
			})
		}
		t.Run("no reply at all, and it was detached once more", func(t *testing.T) {
			f, locker, direct := env.NewFaulty(t, e)
			lock := env.MustLock(t)(locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Hour)))
			h := env.Detach(t, lock)
			ctx, exceed := env.Deadline(t.Context())
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				run()
				exceed()
				return env.NoReply()
			})
			_, err := locker.Attach(ctx, h)
			require.Error(t, err)
			f.When(nil)
			same := env.Detach(t, lock)
			require.Equal(t, h, same)
			again, err := locker.Attach(t.Context(), same)
			require.NoError(t, err, "it counts as the same")
			lasts(t, direct, again, time.Hour)
			_, err = locker.Attach(t.Context(), h)
			require.ErrorIs(t, err, rlock.ErrLost)
		})
		t.Run("with a token of one's own, in another process", func(t *testing.T) {
			f, locker, direct := env.NewFaulty(t, e)
			lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Hour))
			require.NoError(t, err)
			text, err := env.Detach(t, lock).MarshalText()
			require.NoError(t, err)
			attach := func(ctx context.Context, locker *rlock.Locker, token string) (*rlock.Lock, error) {
				var h rlock.Handoff
				require.NoError(t, h.UnmarshalText(text))
				return locker.Attach(ctx, h, rlock.WithToken(token))
			}
			ctx, exceed := env.Deadline(t.Context())
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				run()
				exceed()
				return env.NoReply()
			})
			_, err = attach(ctx, locker, "worker-2")
			require.Error(t, err)
			f.When(nil)
			again, err := attach(t.Context(), locker, "worker-2")
			require.NoError(t, err)
			lasts(t, direct, again, time.Hour)
			_, err = attach(t.Context(), locker, "worker-3")
			require.ErrorIs(t, err, rlock.ErrLost)
		})
		t.Run("many at once", func(t *testing.T) {
			client := e.Start(t).Client(t)
			locker := env.NewLocker(t, client)
			for range 50 {
				lock, err := locker.Acquire(t.Context(), "job")
				require.NoError(t, err)
				h := env.Detach(t, lock)
				var got atomic.Pointer[rlock.Lock]
				require.NoError(t, env.Together(8, func(int) error {
					lock, err := locker.Attach(t.Context(), h)
					if err == nil && !got.CompareAndSwap(nil, lock) {
						return errors.New("two got it")
					}
					if err != nil && !errors.Is(err, rlock.ErrLost) {
						return err
					}
					return nil
				}))
				require.NotNil(t, got.Load(), "one gets it")
				require.NoError(t, got.Load().Release(t.Context()))
			}
		})
	})
}

// A renewal that is under way while the lock is handed to another process neither keeps it
// nor takes it back.
func TestDetachBesideARenewal(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		gate, ended := env.NewGate(t), make(chan struct{})
		var first atomic.Bool
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if !renewal(words) || !first.CompareAndSwap(false, true) {
				return run()
			}
			defer close(ended)
			gate.Pass()
			return run()
		})
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(9*time.Second), rlock.WithAutoExtend(true))
		require.NoError(t, err)
		gate.Await(t)
		again, err := env.NewLocker(t, direct).Attach(t.Context(), env.Detach(t, lock))
		require.NoError(t, err)
		require.NoError(t, again.Extend(t.Context(), 6*time.Second))
		gate.Open()
		env.Receive(t, ended)
		lasts(t, direct, again, 6*time.Second)
		require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrDetached)
		require.NoError(t, again.Release(t.Context()))
	})
}
