package api

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// TryDo runs the function unless another does, which is no error.
func TestTryDo(t *testing.T) {
	t.Parallel()
	mine := errors.New("mine")
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker, elsewhere := env.NewLocker(t, client), env.NewLocker(t, client)
		type runner func(ctx context.Context, l *rlock.Locker, fn func(context.Context, *rlock.Lock) error) (bool,
			error)
		for name, run := range map[string]runner{
			"one key": func(ctx context.Context, l *rlock.Locker, fn func(context.Context, *rlock.Lock) error) (bool,
				error) {
				return l.TryDo(ctx, "{job}:a", fn)
			},
			"a set": func(ctx context.Context, l *rlock.Locker, fn func(context.Context, *rlock.Lock) error) (bool,
				error) {
				return l.TryDoAll(ctx, []string{"{job}:b", "{job}:a"}, fn)
			},
		} {
			t.Run(name, func(t *testing.T) {
				ran, err := run(t.Context(), locker, func(ctx context.Context, lock *rlock.Lock) error {
					for _, other := range []*rlock.Locker{locker, elsewhere} {
						began := time.Now()
						ran, err := run(t.Context(), other, func(context.Context, *rlock.Lock) error {
							t.Error("it runs beside another")
							return nil
						})
						require.NoError(t, err, "that another does it is no failure")
						require.False(t, ran)
						require.Less(t, time.Since(began), 5*time.Second, "it waits for nobody")
					}
					ran, err := run(ctx, locker, nil)
					require.ErrorIs(t, err, rlock.ErrInvalid)
					require.False(t, ran)
					ran, err = run(ctx, locker, func(context.Context, *rlock.Lock) error { return nil })
					require.ErrorIs(t, err, rlock.ErrAlreadyHeld, "it is the caller itself that stands in the way")
					require.False(t, ran)
					return mine
				})
				require.Equal(t, mine, err)
				require.True(t, ran)
				require.Empty(t, env.Get(t, client, "{job}:a"), "it is released")

				ran, err = run(t.Context(), elsewhere, func(ctx context.Context, lock *rlock.Lock) error {
					require.NoError(t, env.Do(t, client, "DEL", "{job}:a").Error())
					<-ctx.Done()
					return nil
				})
				require.ErrorIs(t, err, rlock.ErrLost)
				require.True(t, ran)

				ended, cancel := context.WithCancel(t.Context())
				cancel()
				ran, err = run(ended, locker, func(context.Context, *rlock.Lock) error {
					t.Error("it runs with a context that has ended")
					return nil
				})
				require.ErrorIs(t, err, context.Canceled)
				require.False(t, ran)
			})
		}
	})
}

// An fn whose own error says that a lock is held has run all the same.
func TestTryDoOfAFunctionThatFindsALockHeld(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		held, err := locker.Acquire(t.Context(), "inner")
		require.NoError(t, err)
		ran, err := locker.TryDo(t.Context(), "outer", func(ctx context.Context, _ *rlock.Lock) error {
			_, err := locker.TryAcquire(ctx, "inner")
			return err
		})
		require.ErrorIs(t, err, rlock.ErrHeld)
		require.True(t, ran)
		require.NoError(t, held.Release(t.Context()))
	})
}

// The holder's context leads to its lock, wherever it is handed on.
func TestFromContext(t *testing.T) {
	t.Parallel()
	_, found := rlock.FromContext(t.Context())
	require.False(t, found)
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		type key struct{}
		err := locker.Do(t.Context(), "outer", func(ctx context.Context, outer *rlock.Lock) error {
			below, cancel := context.WithTimeout(context.WithValue(ctx, key{}, 1), time.Minute)
			defer cancel()
			lock, found := rlock.FromContext(below)
			require.True(t, found)
			require.Same(t, outer, lock)

			_, err := locker.TryDoAll(below, []string{"a", "b"}, func(ctx context.Context, inner *rlock.Lock) error {
				lock, found := rlock.FromContext(ctx)
				require.True(t, found)
				require.Same(t, inner, lock)
				return nil
			})
			return err
		})
		require.NoError(t, err)

		lock, err := locker.Acquire(t.Context(), "by hand")
		require.NoError(t, err)
		same, found := rlock.FromContext(lock.Context())
		require.True(t, found)
		require.Same(t, lock, same)
		require.NoError(t, lock.Release(t.Context()))
		same, found = rlock.FromContext(lock.Context())
		require.True(t, found, "of a lock that has ended, too")
		require.ErrorIs(t, same.Err(), rlock.ErrReleased)
	})
}

// Err is nil while the lock is held, and then what its context ended with.
func TestErr(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		for name, test := range map[string]struct {
			end  func(t *testing.T, locker *rlock.Locker, lock *rlock.Lock)
			want error
		}{
			"released": {func(t *testing.T, _ *rlock.Locker,
				lock *rlock.Lock) {
				require.NoError(t, lock.Release(t.Context()))
			}, rlock.ErrReleased},
			"detached": {func(t *testing.T, _ *rlock.Locker, lock *rlock.Lock) {
				_, err := lock.Detach()
				require.NoError(t, err)
			}, rlock.ErrDetached},
			"lost": {func(t *testing.T, _ *rlock.Locker, lock *rlock.Lock) {
				require.NoError(t, env.Do(t, client, "DEL", lock.Key()).Error())
				require.Error(t, lock.Extend(t.Context(), time.Minute))
			}, rlock.ErrLost},
			"expired": {func(t *testing.T, _ *rlock.Locker, lock *rlock.Lock) {
				_ = lock.Extend(t.Context(), 20*time.Millisecond) // whose answer may come after that
				time.Sleep(time.Until(lock.Deadline()) + time.Millisecond)
			}, rlock.ErrExpired},
			"closed": {func(_ *testing.T, locker *rlock.Locker, _ *rlock.Lock) { locker.Close() }, rlock.ErrClosed},
		} {
			for _, watched := range []bool{false, true} {
				t.Run(name, func(t *testing.T) {
					locker := locker
					if name == "closed" {
						locker = env.NewLocker(t, client)
					}
					lock, err := locker.Acquire(t.Context(), "job:"+name, rlock.WithTTL(time.Minute))
					require.NoError(t, err)
					require.NoError(t, lock.Err())
					if watched {
						lock.Context()
					}
					test.end(t, locker, lock)
					require.ErrorIs(t, lock.Err(), test.want)
					require.ErrorIs(t, lock.Err(), rlock.ErrNotHeld)
					require.ErrorIs(t, lock.Extend(t.Context(), time.Minute), rlock.ErrNotHeld)
					require.Equal(t, lock.Err(), context.Cause(lock.Context()))
					env.Do(t, client, "DEL", lock.Key())
				})
			}
		}
	})
}
