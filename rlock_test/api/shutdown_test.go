package api

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Functions learn of a Shutdown while they hold their locks, and have time to finish; everything else is
// freed.
func TestShutdown(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker, other := env.NewLocker(t, client), env.NewLocker(t, client)
		took := env.MustLock(t)
		handle := took(locker.Acquire(t.Context(), "handle"))
		reader := took(locker.AcquireShared(t.Context(), "shared"))
		set := took(locker.AcquireAll(t.Context(), []string{"{set}:1", "{set}:2"}))
		took(other.Acquire(t.Context(), "others"))
		context.AfterFunc(reader.Context(), func() {})

		running := func(do func(fn func(ctx context.Context, lock *rlock.Lock) error) error) <-chan error {
			began, ended := make(chan struct{}), make(chan error, 1)
			go func() {
				ended <- do(func(ctx context.Context, lock *rlock.Lock) error {
					close(began)
					<-ctx.Done()
					if cause := context.Cause(ctx); cause != rlock.ErrShutdown {
						return fmt.Errorf("the context has ended with %w", cause)
					}
					err := lock.Verify(context.WithoutCancel(ctx))
					extended := lock.Extend(context.WithoutCancel(ctx), 30*time.Second)
					return errors.Join(err, lock.Err(), extended)
				})
			}()
			env.Receive(t, began)
			return ended
		}
		job := running(func(fn func(context.Context, *rlock.Lock) error) error {
			return locker.Do(t.Context(), "job", fn)
		})
		permit := running(func(fn func(context.Context, *rlock.Lock) error) error {
			return locker.DoPermits(t.Context(), "permits", 1, 2, fn)
		})
		leader := running(func(fn func(context.Context, *rlock.Lock) error) error {
			return locker.Lead(t.Context(), "leader", fn)
		})
		waits := make(chan error, 3)
		go func() { waits <- env.ErrorOf(locker.Acquire(t.Context(), "others")) }()
		go func() { waits <- env.ErrorOf(locker.Acquire(t.Context(), "job")) }()
		go func() { waits <- locker.WaitFree(t.Context(), "others") }()
		env.AwaitWaiting(t, locker, 2)

		require.NoError(t, locker.Shutdown(t.Context()))
		require.NoError(t, env.Receive(t, job))
		require.NoError(t, env.Receive(t, permit))
		require.ErrorIs(t, env.Receive(t, leader), rlock.ErrClosed, "there is no next term")
		for range 3 {
			require.ErrorIs(t, env.Receive(t, waits), rlock.ErrClosed)
		}
		for _, lock := range []*rlock.Lock{handle, reader, set} {
			require.ErrorIs(t, lock.Err(), rlock.ErrReleased)
			require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrReleased)
		}
		require.ErrorIs(t, context.Cause(reader.Context()), rlock.ErrShutdown)
		keys := []string{"handle", "shared", "{set}:1", "{set}:2", "job", "permits", "leader"}
		for _, key := range keys {
			require.Empty(t, env.Get(t, client, key), key)
		}
		for name, call := range map[string]func() error{
			"Acquire":        func() error { return env.ErrorOf(locker.Acquire(t.Context(), "new")) },
			"TryAcquire":     func() error { return env.ErrorOf(locker.TryAcquire(t.Context(), "new")) },
			"Check":          func() error { return env.ErrorOf(locker.Check(t.Context(), "new")) },
			"Shutdown again": func() error { return locker.Shutdown(t.Context()) },
		} {
			require.ErrorIs(t, call(), rlock.ErrClosed, name)
		}
	})
}

// A function that does not return in time keeps its lock: whoever got the key would work beside it.
func TestShutdownDoesNotFreeUnderAFunction(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		ctx, exceed := env.Deadline(t.Context())
		began, gate, ended := make(chan struct{}), env.NewGate(t), make(chan error, 1)
		go func() {
			keys := []string{"{job}:1", "{job}:2"}
			ended <- locker.DoAll(t.Context(), keys, func(context.Context, *rlock.Lock) error {
				close(began)
				gate.Pass()
				return nil
			})
		}()
		env.Receive(t, began)
		handle := env.MustLock(t)(locker.Acquire(t.Context(), "handle"))
		shut := make(chan error, 1)
		go func() { shut <- locker.Shutdown(ctx) }()
		env.Receive(t, handle.Context().Done())
		require.NoError(t, handle.Err(), "it is held as long as functions run")
		require.ErrorIs(t, env.ErrorOf(locker.TryAcquire(t.Context(), "new")), rlock.ErrClosed)
		exceed()
		err := env.Receive(t, shut)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		left := new(rlock.ShutdownError)
		require.ErrorAs(t, err, &left)
		require.Equal(t, []string{"{job}:1", "{job}:2"}, left.Running)
		require.Empty(t, left.Unsure)
		require.EqualError(t, err, "rlock: shutdown: functions that have not returned keep "+
			`"{job}:1", "{job}:2": `+
			"context deadline exceeded")
		require.Empty(t, env.Get(t, client, "handle"))
		require.NotEmpty(t, env.Get(t, client, "{job}:1"))
		gate.Open()
		require.NoError(t, env.Receive(t, ended), "its Release works after Close")
		require.Empty(t, env.Get(t, client, "{job}:1"))
	})
}

// A Shutdown of many locks frees all of them; one with keys that somebody else has meanwhile is not at fault.
func TestShutdownOfMany(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		client := e.Start(t).Client(t)
		locker := env.NewLocker(t, client)
		keys := env.Keys(10_000)
		env.TakeEach(t, locker, keys, rlock.WithTTL(time.Hour))
		require.NoError(t, env.Do(t, client, "SET", keys[7], "stranger").Error())
		require.NoError(t, locker.Shutdown(t.Context()))
		require.Equal(t, "stranger", env.Get(t, client, keys[7]))
		for i, key := range keys {
			if i != 7 {
				require.Empty(t, env.Get(t, client, key))
			}
		}
	})
}

// A context that has ended leaves no time for functions, and otherwise changes nothing.
func TestShutdownWithAnEndedContext(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		for range 20 { // what select chooses must not matter
			locker := env.NewLocker(t, client)
			env.MustLock(t)(locker.Acquire(t.Context(), "handle"))
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.NoError(t, locker.Shutdown(ctx))
			require.Empty(t, env.Get(t, client, "handle"))
		}
	})
}

// Close in the middle of a Shutdown ends it: what is left stays.
func TestCloseDuringShutdown(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		handle := env.MustLock(t)(locker.Acquire(t.Context(), "handle"))
		gate := env.NewGate(t)
		began := make(chan struct{})
		go func() {
			_ = locker.Do(t.Context(), "job", func(context.Context, *rlock.Lock) error {
				close(began)
				gate.Pass()
				return nil
			})
		}()
		env.Receive(t, began)
		shut := make(chan error, 1)
		go func() { shut <- locker.Shutdown(t.Context()) }()
		env.Receive(t, handle.Context().Done())
		locker.Close()
		require.ErrorIs(t, env.Receive(t, shut), rlock.ErrClosed)
		require.NotEmpty(t, env.Get(t, client, "handle"))
	})
}
