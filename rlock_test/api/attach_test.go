package api

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestAttach(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		here, there := env.NewLocker(t, client, rlock.WithPrefix("app:")),
			env.NewLocker(t, client, rlock.WithPrefix("app:"), rlock.WithAutoExtend(true),
				rlock.WithTTL(3*time.Second))
		lock, err := here.AcquireAll(t.Context(), []string{"a", "b"}, rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		ctx := lock.Context()
		former := lock.Token()
		detached := env.Detach(t, lock)
		require.ErrorIs(t, context.Cause(ctx), rlock.ErrDetached)
		env.Detach(t, lock) // twice is fine
		require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrDetached)
		require.ErrorIs(t, lock.Extend(t.Context(), time.Minute), rlock.ErrDetached)
		require.Error(t, lock.Err())
		require.Equal(t, former, env.Get(t, client, "app:a"))

		again, err := there.Attach(t.Context(), detached)
		require.NoError(t, err)
		require.NoError(t, again.Err())
		require.Equal(t, lock.Keys(), again.Keys())
		require.Equal(t, lock.Fence(), again.Fence())
		require.NotEqual(t, former, again.Token())
		require.Equal(t, again.Token(), env.Get(t, client, "app:b"))
		require.WithinDuration(t, time.Now().Add(time.Minute), again.Deadline(), 20*time.Second)
		require.NoError(t, again.Extend(t.Context(), 3*time.Second))
		time.Sleep(5 * time.Second)
		require.NoError(t, again.Err(), "the new process extends it")
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
			func() error { return env.ErrorOf(there.Attach(t.Context(), detached, rlock.WithToken(former))) },
			func() error { return env.Admin(there).ForceRelease(t.Context(), "a", "") },
			func() error { return env.Admin(there).ForceRelease(t.Context(), "", "t") },
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
		require.ErrorIs(t, env.Admin(admin).ForceRelease(t.Context(), "job", "another"), rlock.ErrLost)
		require.Equal(t, lock.Token(), env.Get(t, client, "job"))

		state := env.HolderOf(t, admin, "job")
		require.NoError(t, env.Admin(admin).ForceRelease(t.Context(), "job", state.Token()))
		require.Empty(t, env.Get(t, client, "job"))
		require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrLost)
	})
}

// A holder learns that force has freed its lock as of any loss, however the lock came.
func TestForceReleaseIsALoss(t *testing.T) {
	t.Parallel()
	for name, acquire := range map[string]func(ctx context.Context, l *rlock.Locker) (*rlock.Lock, error){
		"acquired": func(ctx context.Context, l *rlock.Locker) (*rlock.Lock,
			error) {
			return l.Acquire(ctx, "job")
		},
		"at once": func(ctx context.Context, l *rlock.Locker) (*rlock.Lock,
			error) {
			return l.TryAcquire(ctx, "job")
		},
		"with a token": func(ctx context.Context, l *rlock.Locker) (*rlock.Lock, error) {
			return l.Acquire(ctx, "job", rlock.WithToken("mine"))
		},
		"in a set": func(ctx context.Context, l *rlock.Locker) (*rlock.Lock, error) {
			return l.AcquireAll(ctx, []string{"another", "job"})
		},
		"attached": func(ctx context.Context, l *rlock.Locker) (*rlock.Lock, error) {
			return l.Attach(ctx, env.Detach(t, env.MustLock(t)(l.Acquire(ctx, "job"))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := env.Start(t).Client(t)
			told := make(chan error, 1)
			locker := env.NewLocker(t, client, rlock.WithTTL(time.Hour),
				rlock.WithObserver(rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
					if e.Kind == rlock.EventLost {
						told <- e.Err
					}
				})))
			lock := env.MustLock(t)(acquire(t.Context(), locker))
			other := env.MustLock(t)(locker.Acquire(t.Context(), "other"))
			require.NoError(t, env.Admin(locker).ForceRelease(t.Context(), "job", env.Get(t, client, "job")))
			require.ErrorIs(t, lock.Verify(t.Context()), rlock.ErrLost)
			require.ErrorIs(t, env.Receive(t, told), rlock.ErrLost)
			require.NoError(t, other.Verify(t.Context()))
			require.NoError(t, env.Admin(locker).ForceRelease(t.Context(), "other", env.Get(t, client, "other")))
			require.ErrorIs(t, other.Release(t.Context()), rlock.ErrLost)
		})
	}
}

// A lock that is freed on its way from one caller of a process to the next is lost for that one.
func TestForceReleaseOfALockOnItsWay(t *testing.T) {
	t.Parallel()
	client := env.Start(t).Client(t)
	locker := env.NewLocker(t, client, // which nobody tells of lost keys
		rlock.WithTurn(time.Hour), rlock.WithTTL(time.Hour), rlock.WithAutoExtend(true), rlock.WithFence(false))
	lock := env.MustLock(t)(locker.Acquire(t.Context(), "job"))
	gate := env.NewGate(t)
	ctx, inLine := gate.InLine(t.Context())
	next := make(chan *rlock.Lock, 1)
	go func() {
		lock, err := locker.Acquire(ctx, "job", inLine)
		assert.NoError(t, err)
		next <- lock
	}()
	gate.Await(t)
	require.NoError(t, lock.Release(t.Context()))
	token := env.Get(t, client, "job")
	require.NotEmpty(t, token, "it is the next one's")
	require.NoError(t, env.Admin(locker).ForceRelease(t.Context(), "job", token))
	other := env.MustLock(t)(env.NewLocker(t, client).TryAcquire(t.Context(), "job", rlock.WithTTL(time.Hour)))
	gate.Open()
	require.ErrorIs(t, env.Receive(t, next).Verify(t.Context()), rlock.ErrLost)
	require.NoError(t, other.Verify(t.Context()))
}

// However WaitFree fails, its error has the facts of a call that waits.
func TestWaitFreeErrors(t *testing.T) {
	t.Parallel()
	f, locker, client := env.NewFaulty(t, env.Engines(t)[0])
	fails := func(l *rlock.Locker, opts ...rlock.Option) (facts *rlock.AcquireError, err error) {
		err = l.WaitFree(t.Context(), "job", opts...)
		require.ErrorAs(t, err, &facts)
		require.Equal(t, "job", facts.Key)
		require.NotErrorAs(t, err, new(*rlock.LockError))
		return facts, err
	}
	require.NoError(t, env.Do(t, client, "LPUSH", "job", "x").Error())
	facts, err := fails(locker)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.NotErrorIs(t, err, rlock.ErrGaveUp)
	require.Equal(t, 1, facts.Attempts)
	f.When(func([]string, func() rueidis.RedisResult) rueidis.RedisResult {
		locker.Close()
		return env.NoReply()
	})
	_, err = fails(locker, rlock.WithRetry(rlock.Fixed(time.Millisecond).MaxAttempts(1)))
	require.ErrorIs(t, err, rlock.ErrClosed, "it was closed during the only look")
	_, err = fails(locker)
	require.ErrorIs(t, err, rlock.ErrClosed)
}

func TestWaitFree(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		require.NoError(t, locker.WaitFree(t.Context(), "job"))
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // it has seen the holder by then
		defer cancel()
		err = locker.WaitFree(ctx, "job")
		require.ErrorIs(t, err, rlock.ErrGaveUp)
		require.ErrorIs(t, err, rlock.ErrHeld)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.AfterFunc(50*time.Millisecond, func() { lock.Release(context.Background()) })
		require.NoError(t, locker.WaitFree(t.Context(), "job"))
		require.Error(t, lock.Err())

		require.NoError(t, locker.Do(t.Context(), "mine", func(ctx context.Context, _ *rlock.Lock) error {
			require.ErrorIs(t, locker.WaitFree(ctx, "mine"), rlock.ErrAlreadyHeld)
			return nil
		}))

		limited := env.NewLocker(t, client, rlock.WithRetry(rlock.Fixed(time.Millisecond).MaxAttempts(3)))
		require.NoError(t, env.Do(t, client, "SET", "job", "foreign").Error())
		require.ErrorIs(t, limited.WaitFree(t.Context(), "job"), rlock.ErrGaveUp)
	})
}
