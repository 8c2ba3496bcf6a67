package api

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestCheckAnswersFromTheCache(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		state, err := locker.Check(t.Context(), "job")
		require.NoError(t, err)
		require.Equal(t, rlock.State{Key: "job"}, state)
		state, err = locker.Check(t.Context(), "job")
		require.NoError(t, err)
		require.Equal(t, rlock.State{Key: "job", Cached: true}, state)

		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		env.Soon(t, func() bool {
			state, err = locker.Check(t.Context(), "job")
			require.NoError(t, err)
			return state.HeldBy(lock.Token()) && state.Cached
		}, "an acquisition reaches the cache")
		require.Positive(t, state.Remaining())
		require.LessOrEqual(t, state.Remaining(), 10*time.Second)

		require.NoError(t, lock.Release(t.Context()))
		env.Soon(t, func() bool {
			state, err = locker.Check(t.Context(), "job")
			require.NoError(t, err)
			return !state.Held
		}, "a release reaches the cache")
	})
}

func TestCheckSeesTheLeaseEnd(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		require.NoError(t, env.Do(t, client, "SET", "job", "foreign", "PX", "4000").Error())
		state, err := locker.Check(t.Context(), "job")
		require.NoError(t, err)
		require.True(t, state.HeldBy("foreign"))
		require.LessOrEqual(t, state.Remaining(), 4*time.Second)
		env.Soon(t, func() bool {
			state, err = locker.Check(t.Context(), "job")
			require.NoError(t, err)
			return !state.Held
		}, "an expired lock leaves the cache")
	})
}

func TestInspect(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		state, err := locker.Inspect(t.Context(), "job")
		require.NoError(t, err)
		require.Equal(t, rlock.State{Key: "job"}, state)

		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		state, err = locker.Inspect(t.Context(), "job")
		require.NoError(t, err)
		require.True(t, state.HeldBy(lock.Token()))
		require.False(t, state.HeldBy("another"))
		require.False(t, state.Cached)
		require.InDelta(t, 10*time.Second, state.Remaining(), float64(5*time.Second))

		require.NoError(t, env.Do(t, client, "SET", "foreign", "").Error())
		state, err = locker.Inspect(t.Context(), "foreign")
		require.NoError(t, err)
		require.True(t, state.HeldBy(""), "an empty value is a holder too")
		require.Equal(t, rlock.NoExpiry, state.Remaining())
	})
}

// The State of a set is that of the key with the least time left.
func TestVerifyOfASet(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		lock, err := env.NewLocker(t, client).AcquireAll(t.Context(), []string{"x", "y", "z"}, rlock.WithTTL(time.Hour))
		require.NoError(t, err)
		require.NoError(t, env.Do(t, client, "PEXPIRE", "y", "60000").Error())
		state, err := lock.Verify(t.Context())
		require.NoError(t, err)
		require.Equal(t, "y", state.Key)
		require.LessOrEqual(t, state.Remaining(), time.Minute)
		require.True(t, lock.Valid())
	})
}

// A client without a cache gets true answers, one round trip each.
func TestCheckWithoutACache(t *testing.T) {
	t.Parallel()
	noCache := func(t *testing.T, option rueidis.ClientOption) {
		option.DisableCache = true
		client, err := rueidis.NewClient(option)
		require.NoError(t, err)
		t.Cleanup(client.Close)
		locker := env.NewLocker(t, client)
		for range 2 {
			state, err := locker.Check(t.Context(), "job")
			require.NoError(t, err)
			require.Equal(t, rlock.State{Key: "job"}, state)
		}
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		state, err := locker.Check(t.Context(), "job")
		require.NoError(t, err)
		require.True(t, state.HeldBy(lock.Token()))
		require.False(t, state.Cached)
		require.InDelta(t, 10*time.Second, state.Remaining(), float64(5*time.Second))
	}
	t.Run("embedded", func(t *testing.T) { noCache(t, rlocktest.Start(t).Option()) })
	env.Each(t, func(t *testing.T, e env.Engine) { noCache(t, e.Start(t).Option()) })
}
