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

func TestAcquireAll(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		a, b := env.NewLocker(t, client), env.NewLocker(t, client)
		lock, err := a.AcquireAll(t.Context(), []string{"x", "y", "z"})
		require.NoError(t, err)
		require.Equal(t, "x", lock.Key())
		require.Equal(t, []string{"x", "y", "z"}, lock.Keys())
		for _, key := range lock.Keys() {
			require.Equal(t, lock.Token(), env.Get(t, client, key))
		}

		_, err = b.TryAcquireAll(t.Context(), []string{"w", "y", "z"})
		require.ErrorIs(t, err, rlock.ErrHeld)
		var facts *rlock.AcquireError
		require.ErrorAs(t, err, &facts)
		require.Equal(t, "y", facts.Key, "the first key that is held")
		require.Positive(t, facts.Remaining)
		require.Empty(t, env.Get(t, client, "w"), "all or none")

		require.NoError(t, lock.Extend(t.Context(), time.Hour))
		left, err := env.Do(t, client, "PTTL", "z").ToInt64()
		require.NoError(t, err)
		require.Greater(t, left, int64(3_500_000))

		require.NoError(t, lock.Verify(t.Context()))

		require.NoError(t, lock.Release(t.Context()))
		for _, key := range lock.Keys() {
			require.Empty(t, env.Get(t, client, key))
		}
	})
}

func TestSetLosesOneKey(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		lock, err := locker.AcquireAll(t.Context(), []string{"x", "y", "z"})
		require.NoError(t, err)
		require.NoError(t, env.Do(t, client, "SET", "y", "thief").Error())
		before, err := env.Do(t, client, "PTTL", "x").ToInt64()
		require.NoError(t, err)

		err = lock.Extend(t.Context(), time.Hour)
		require.ErrorIs(t, err, rlock.ErrLost)
		var facts *rlock.LockError
		require.ErrorAs(t, err, &facts)
		require.Equal(t, "y", facts.Key)
		after, err := env.Do(t, client, "PTTL", "x").ToInt64()
		require.NoError(t, err)
		require.LessOrEqual(t, after, before, "a set is extended whole or not at all")

		require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrLost)
		require.Empty(t, env.Get(t, client, "x"), "what is still ours is freed")
		require.Equal(t, "thief", env.Get(t, client, "y"))
		require.Empty(t, env.Get(t, client, "z"))
	})
}

func TestLockCheckNoticesTheLoss(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		lock, err := env.NewLocker(t, client).AcquireAll(t.Context(), []string{"x", "y"})
		require.NoError(t, err)
		require.NoError(t, env.Do(t, client, "DEL", "y").Error())
		err = lock.Verify(t.Context())
		require.ErrorIs(t, err, rlock.ErrLost)
		require.ErrorContains(t, err, `"y"`)
		require.Error(t, lock.Err())
		require.ErrorIs(t, context.Cause(lock.Context()), rlock.ErrLost)
	})
}

// Ten thousand keys are more than Lua's unpack can take.
func TestTenThousandKeys(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		client := e.Start(t).Client(t)
		locker := env.NewLocker(t, client, rlock.WithTTL(time.Minute))
		keys := make([]string, 10_000)
		for i := range keys {
			keys[i] = fmt.Sprintf("key:%d", i)
		}
		lock, err := locker.AcquireAll(t.Context(), keys)
		require.NoError(t, err)
		require.NotZero(t, lock.Fence())
		require.NoError(t, lock.Extend(t.Context(), time.Minute))
		require.Equal(t, lock.Token(), env.Get(t, client, "key:9999"))
		require.NoError(t, lock.Release(t.Context()))
		require.Empty(t, env.Get(t, client, "key:9999"))
	})
}

// Two who take one lock after the other, in opposite orders, wait until a lease ends. It is
// longer than a busy machine takes for a reply: a lock that comes later than its lease is
// none.
func TestCrossedLocks(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client, rlock.WithTTL(3*time.Second))
		first := make(map[string]*rlock.Lock)
		for _, key := range []string{"a", "b"} {
			lock, err := locker.Acquire(t.Context(), key)
			require.NoError(t, err)
			first[key] = lock
		}
		require.NoError(t, env.Together(2, func(i int) error {
			key := []string{"b", "a"}[i]
			_, err := locker.Acquire(t.Context(), key)
			if err == nil && first[key].Err() == nil {
				return errors.New("two holders of " + key)
			}
			return err
		}))
	})
}

// Workers take overlapping sets in any order. Exclusion, progress and rising
// fences are checked per key; opposite orders would deadlock one-by-one locking.
func TestOverlappingSets(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		env.OverlapSets(t, client, 8, 25)
		for n := range env.Accounts {
			require.Empty(t, env.Get(t, client, fmt.Sprintf("account:%d", n)))
		}
	})
}
