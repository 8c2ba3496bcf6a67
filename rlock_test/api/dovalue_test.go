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

// DoValue hands back what the function has made, and the errors of Do.
func TestDoValue(t *testing.T) {
	t.Parallel()
	mine := errors.New("mine")
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		for name, c := range map[string]struct {
			fn    func(ctx context.Context, lock *rlock.Lock) (int, error)
			value int
			err   error
		}{
			"a value": {func(_ context.Context, lock *rlock.Lock) (int, error) {
				require.NoError(t, lock.Err())
				return 17, nil
			}, 17, nil},
			"an error":         {func(context.Context, *rlock.Lock) (int, error) { return 0, mine }, 0, mine},
			"an error with it": {func(context.Context, *rlock.Lock) (int, error) { return 16, mine }, 16, mine},
			"a loss": {func(ctx context.Context, lock *rlock.Lock) (int, error) {
				require.NoError(t, env.Do(t, client, "DEL", lock.Key()).Error())
				<-ctx.Done()
				return 18, nil
			}, 18, rlock.ErrLost},
		} {
			value, err := rlock.DoValue(t.Context(), locker, "job", c.fn)
			require.Equal(t, c.value, value, name)
			require.ErrorIs(t, err, c.err, name)
			require.Empty(t, env.Get(t, client, "job"), name)
		}

		ended, cancel := context.WithCancel(t.Context())
		cancel()
		value, err := rlock.DoValue(ended, locker, "job", func(context.Context, *rlock.Lock) (int, error) {
			t.Error("it runs with a context that has ended")
			return 1, nil
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, value)
		_, err = rlock.DoValue[int](t.Context(), locker, "job", nil)
		require.ErrorIs(t, err, rlock.ErrInvalid)
		_, err = rlock.DoValue(t.Context(), nil, "job",
			func(context.Context, *rlock.Lock) (int, error) { return 1, nil })
		require.ErrorIs(t, err, rlock.ErrInvalid)
		require.PanicsWithValue(t, "mine", func() {
			_, _ = rlock.DoValue(t.Context(), locker, "job",
				func(context.Context, *rlock.Lock) (int, error) { panic("mine") })
		})
		require.Empty(t, env.Get(t, client, "job"))
	})
}

// However a call ends before fn is called, the value is the zero value; however it ends after that, it is
// what fn has made, and the error says what has become of the lock.
func TestDoValueThatEnds(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		type result struct {
			value string
			err   error
		}
		call := func(ctx context.Context, locker *rlock.Locker,
			fn func(ctx context.Context, lock *rlock.Lock) (string, error)) <-chan result {
			got := make(chan result, 1)
			go func() {
				value, err := rlock.DoValue(ctx, locker, "job", fn)
				got <- result{value, err}
			}()
			return got
		}
		never := func(context.Context, *rlock.Lock) (string, error) { return "called", nil }
		holds, locker, closing := env.NewLocker(t, client), env.NewLocker(t, client), env.NewLocker(t, client)
		held, err := holds.Acquire(t.Context(), "job", rlock.WithTTL(time.Minute))
		require.NoError(t, err)

		ctx, cancel := context.WithCancel(t.Context())
		waits, closes := call(ctx, locker, never), call(t.Context(), closing, never)
		env.AwaitWaiting(t, locker, 1)
		env.AwaitWaiting(t, closing, 1)
		cancel()
		closing.Close()
		for want, got := range map[error]<-chan result{rlock.ErrGaveUp: waits, rlock.ErrClosed: closes} {
			r := env.Receive(t, got)
			require.ErrorIs(t, r.err, want)
			require.Empty(t, r.value)
		}
		require.NoError(t, held.Release(t.Context()))

		// fn ends its own lock, in each way that there is.
		ctx, cancel = context.WithCancel(t.Context())
		defer cancel()
		closing = env.NewLocker(t, client)
		for name, c := range map[string]struct {
			locker *rlock.Locker
			end    func(lock *rlock.Lock)
			why    error
			err    error
		}{
			"release": {locker, func(lock *rlock.Lock) { require.NoError(t, lock.Release(t.Context())) },
				rlock.ErrReleased, nil},
			"detach": {locker, func(lock *rlock.Lock) { env.Detach(t, lock) }, rlock.ErrDetached, rlock.ErrDetached},
			"force": {locker, func(lock *rlock.Lock) {
				require.NoError(t, env.Admin(locker).ForceRelease(t.Context(), "job", lock.Token()))
			}, rlock.ErrLost, rlock.ErrLost},
			"close":  {closing, func(*rlock.Lock) { closing.Close() }, rlock.ErrClosed, nil},
			"cancel": {locker, func(*rlock.Lock) { cancel() }, context.Canceled, nil},
		} {
			r := env.Receive(t, call(ctx, c.locker, func(ctx context.Context, lock *rlock.Lock) (string, error) {
				c.end(lock)
				<-ctx.Done()
				if why := context.Cause(ctx); !errors.Is(why, c.why) {
					t.Errorf("%s: the context has ended because of %v", name, why)
				}
				return name, nil
			}))
			if name == "cancel" {
				ctx, cancel = context.WithCancel(t.Context())
			}
			require.Equal(t, name, r.value)
			if c.err == nil {
				require.NoError(t, r.err, name)
			} else {
				require.ErrorIs(t, r.err, c.err, name)
			}
			require.NoError(t, env.Do(t, client, "DEL", "job").Error())
		}
		cancel()
	})
}
