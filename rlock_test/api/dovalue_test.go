package api

import (
	"context"
	"errors"
	"testing"

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
				require.True(t, lock.Valid())
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
		_, err = rlock.DoValue(t.Context(), nil, "job", func(context.Context, *rlock.Lock) (int, error) { return 1, nil })
		require.ErrorIs(t, err, rlock.ErrInvalid)
		require.PanicsWithValue(t, "mine", func() {
			_, _ = rlock.DoValue(t.Context(), locker, "job", func(context.Context, *rlock.Lock) (int, error) { panic("mine") })
		})
		require.Empty(t, env.Get(t, client, "job"))
	})
}
