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
			return state.Token() == lock.Token() && state.Cached
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
		require.Equal(t, "foreign", state.Token())
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
		state := env.HolderOf(t, locker, "job")
		require.Empty(t, state.Token())

		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		state = env.HolderOf(t, locker, "job")
		require.Equal(t, lock.Token(), state.Token())
		require.InDelta(t, 10*time.Second, state.Remaining, float64(5*time.Second))

		require.NoError(t, env.Do(t, client, "SET", "foreign", "").Error())
		state = env.HolderOf(t, locker, "foreign")
		require.Equal(t, "", state.Token(), "an empty value is a holder too")
		require.Equal(t, rlock.NoExpiry, state.Remaining)
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
			require.Empty(t, state.Token())
		}
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		state, err := locker.Check(t.Context(), "job")
		require.NoError(t, err)
		require.Equal(t, lock.Token(), state.Token())
		require.False(t, state.Cached)
		require.InDelta(t, 10*time.Second, state.Remaining(), float64(5*time.Second))
	}
	t.Run("embedded", func(t *testing.T) { noCache(t, rlocktest.Start(t).Option()) })
	env.Each(t, func(t *testing.T, e env.Engine) { noCache(t, e.Start(t).Option()) })
}
