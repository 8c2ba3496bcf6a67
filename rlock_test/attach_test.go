package rlock_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestAttach(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		here, there := env.NewLocker(t, client, rlock.WithPrefix("app:")), env.NewLocker(t, client, rlock.WithPrefix("app:"), rlock.WithAutoExtend(true), rlock.WithTTL(3*time.Second))
		lock, err := here.AcquireAll(t.Context(), []string{"a", "b"}, rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		ctx := lock.Context()
		former := lock.Token()
		detached := env.Detach(t, lock)
		require.ErrorIs(t, context.Cause(ctx), rlock.ErrDetached)
		env.Detach(t, lock) // twice is fine
		require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrDetached)
		require.ErrorIs(t, lock.Extend(t.Context(), time.Minute), rlock.ErrDetached)
		require.False(t, lock.Valid())
		require.Equal(t, former, env.Get(t, client, "app:a"))

		again, err := there.Attach(t.Context(), detached)
		require.NoError(t, err)
		require.True(t, again.Valid())
		require.Equal(t, lock.Keys(), again.Keys())
		require.Equal(t, lock.Fence(), again.Fence())
		require.NotEqual(t, former, again.Token())
		require.Equal(t, again.Token(), env.Get(t, client, "app:b"))
		require.WithinDuration(t, time.Now().Add(time.Minute), again.Deadline(), 20*time.Second)
		require.NoError(t, again.Extend(t.Context(), 3*time.Second))
		time.Sleep(5 * time.Second)
		require.True(t, again.Valid(), "the new process extends it")
		require.NoError(t, again.Release(t.Context()))
		require.Empty(t, env.Get(t, client, "app:b"))

		_, err = there.Attach(t.Context(), detached)
		require.ErrorIs(t, err, rlock.ErrLost)
		var noContext context.Context
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = there.Attach(ended, detached)
		require.ErrorIs(t, err, context.Canceled)
		for _, call := range []func() error{
			func() error { return env.ErrorOf(there.Attach(t.Context(), rlock.Handoff{})) },
			func() error { return env.ErrorOf(there.Attach(noContext, detached)) },
			func() error { return env.ErrorOf(there.Attach(t.Context(), env.NewHandoff(t, "t", 0, "a", "a"))) },
			func() error { return env.ErrorOf(there.Attach(t.Context(), detached, rlock.WithPrefix("x:"))) },
			func() error { return env.ErrorOf(there.Attach(t.Context(), detached, rlock.WithToken(former))) },
			func() error { return env.ErrorOf(there.Attach(t.Context(), detached, rlock.WithTurn(1, 1))) },
			func() error { return there.ForceRelease(t.Context(), "a", "") },
			func() error { return there.ForceRelease(t.Context(), "", "t") },
			func() error { return there.WaitFree(t.Context(), "") },
		} {
			require.ErrorIs(t, call(), rlock.ErrInvalid)
		}
	})
}

func TestForceRelease(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker, admin := env.NewLocker(t, client), env.NewLocker(t, client)
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))
		require.NoError(t, err)
		require.ErrorIs(t, admin.ForceRelease(t.Context(), "job", "another"), rlock.ErrLost)
		require.Equal(t, lock.Token(), env.Get(t, client, "job"))

		state, err := admin.Inspect(t.Context(), "job")
		require.NoError(t, err)
		require.NoError(t, admin.ForceRelease(t.Context(), "job", state.Token))
		require.Empty(t, env.Get(t, client, "job"))
		require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrLost)
	})
}

func TestWaitFree(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		require.NoError(t, locker.WaitFree(t.Context(), "job"))
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err = locker.WaitFree(ctx, "job")
		require.ErrorIs(t, err, rlock.ErrGaveUp)
		require.ErrorIs(t, err, rlock.ErrHeld)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.AfterFunc(50*time.Millisecond, func() { lock.Release(context.Background()) })
		require.NoError(t, locker.WaitFree(t.Context(), "job"))
		require.False(t, lock.Valid())

		require.NoError(t, locker.Do(t.Context(), "mine", func(ctx context.Context, _ *rlock.Lock) error {
			require.ErrorIs(t, locker.WaitFree(ctx, "mine"), rlock.ErrAlreadyHeld)
			return nil
		}))

		limited := env.NewLocker(t, client, rlock.WithRetry(rlock.Fixed(time.Millisecond).MaxAttempts(3)))
		require.NoError(t, env.Do(t, client, "SET", "job", "foreign").Error())
		require.ErrorIs(t, limited.WaitFree(t.Context(), "job"), rlock.ErrGaveUp)
	})
}

// Nothing that the former process still has under way reaches the lock once it is attached.
func TestLateCommandsOfTheFormerProcess(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, cause := range map[string]func(t *testing.T, locker *rlock.Locker, lose func(match func([]string) bool)) *rlock.Lock{
			"acquire": func(t *testing.T, locker *rlock.Locker, lose func(func([]string) bool)) *rlock.Lock {
				lose(env.IsAcquire)
				lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))
				require.NoError(t, err)
				return lock
			},
			"an extension that shortens": func(t *testing.T, locker *rlock.Locker, lose func(func([]string) bool)) *rlock.Lock {
				lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))
				require.NoError(t, err)
				lose(env.IsExtend)
				require.NoError(t, lock.Extend(t.Context(), 500*time.Millisecond))
				require.NoError(t, lock.Extend(t.Context(), rlock.NoExpiry))
				return lock
			},
			"renewal": func(t *testing.T, locker *rlock.Locker, lose func(func([]string) bool)) *rlock.Lock {
				lose(renewal)
				lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(900*time.Millisecond), rlock.WithAutoExtend(true))
				require.NoError(t, err)
				time.Sleep(500 * time.Millisecond)
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
			require.ErrorIs(t, locker.ForceRelease(t.Context(), "job", token), rlock.ErrLost)
			lasts(t, direct, again, rlock.DefaultTTL)
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
				f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
					if runs || !env.IsAttach(words) {
						run()
					}
					return env.NoReply()
				})
				ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
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
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				run()
				return env.NoReply()
			})
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
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
		started, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
		var first atomic.Bool
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if !renewal(words) || !first.CompareAndSwap(false, true) {
				return run()
			}
			defer close(ended)
			close(started)
			<-goOn
			return run()
		})
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(3*time.Second), rlock.WithAutoExtend(true))
		require.NoError(t, err)
		<-started
		again, err := env.NewLocker(t, direct).Attach(t.Context(), env.Detach(t, lock))
		require.NoError(t, err)
		require.NoError(t, again.Extend(t.Context(), time.Second))
		close(goOn)
		<-ended
		lasts(t, direct, again, time.Second)
		require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrDetached)
		require.NoError(t, again.Release(t.Context()))
	})
}
