package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

func TestAcquireAll(t *testing.T) {
	t.Parallel()
	onEvery(t, func(t *testing.T, client rueidis.Client) {
		a, b := newLocker(t, client), newLocker(t, client)
		lock, err := a.AcquireAll(t.Context(), []string{"x", "y", "z"})
		require.NoError(t, err)
		require.Equal(t, "x", lock.Key())
		require.Equal(t, []string{"x", "y", "z"}, lock.Keys())
		for _, key := range lock.Keys() {
			require.Equal(t, lock.Token(), get(t, client, key))
		}

		_, err = b.TryAcquireAll(t.Context(), []string{"w", "y", "z"})
		require.ErrorIs(t, err, rlock.ErrHeld)
		var facts *rlock.AcquireError
		require.ErrorAs(t, err, &facts)
		require.Equal(t, "y", facts.Key, "the first key that is held")
		require.Positive(t, facts.Left)
		require.Empty(t, get(t, client, "w"), "all or none")

		require.NoError(t, lock.Extend(t.Context(), time.Hour))
		left, err := do(t, client, "PTTL", "z").ToInt64()
		require.NoError(t, err)
		require.Greater(t, left, int64(3_500_000))

		state, err := lock.Check(t.Context())
		require.NoError(t, err)
		require.True(t, state.HeldBy(lock.Token()))

		require.NoError(t, lock.Release(t.Context()))
		for _, key := range lock.Keys() {
			require.Empty(t, get(t, client, key))
		}
	})
}

func TestSetLosesOneKey(t *testing.T) {
	t.Parallel()
	onEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := newLocker(t, client)
		lock, err := locker.AcquireAll(t.Context(), []string{"x", "y", "z"})
		require.NoError(t, err)
		require.NoError(t, do(t, client, "SET", "y", "thief").Error())
		before, err := do(t, client, "PTTL", "x").ToInt64()
		require.NoError(t, err)

		err = lock.Extend(t.Context(), time.Hour)
		require.ErrorIs(t, err, rlock.ErrLost)
		var facts *rlock.LockError
		require.ErrorAs(t, err, &facts)
		require.Equal(t, "y", facts.Key)
		after, err := do(t, client, "PTTL", "x").ToInt64()
		require.NoError(t, err)
		require.LessOrEqual(t, after, before, "a set is extended whole or not at all")

		require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrLost)
		require.Empty(t, get(t, client, "x"), "what is still ours is freed")
		require.Equal(t, "thief", get(t, client, "y"))
		require.Empty(t, get(t, client, "z"))
	})
}

func TestLockCheckNoticesTheLoss(t *testing.T) {
	t.Parallel()
	onEvery(t, func(t *testing.T, client rueidis.Client) {
		lock, err := newLocker(t, client).AcquireAll(t.Context(), []string{"x", "y"})
		require.NoError(t, err)
		require.NoError(t, do(t, client, "DEL", "y").Error())
		state, err := lock.Check(t.Context())
		require.ErrorIs(t, err, rlock.ErrLost)
		require.Equal(t, rlock.State{Key: "y"}, state)
		require.False(t, lock.Valid())
		require.ErrorIs(t, context.Cause(lock.Context()), rlock.ErrLost)
	})
}

// Ten thousand keys are more than Lua's unpack can take.
func TestTenThousandKeys(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		client := e.Start(t).Client(t)
		locker := newLocker(t, client, rlock.WithTTL(time.Minute))
		keys := make([]string, 10_000)
		for i := range keys {
			keys[i] = fmt.Sprintf("key:%d", i)
		}
		lock, err := locker.AcquireAll(t.Context(), keys)
		require.NoError(t, err)
		require.NotZero(t, lock.Fence())
		require.NoError(t, lock.Extend(t.Context(), time.Minute))
		require.Equal(t, lock.Token(), get(t, client, "key:9999"))
		require.NoError(t, lock.Release(t.Context()))
		require.Empty(t, get(t, client, "key:9999"))
	})
}

// Two who take one lock after the other, in opposite orders, wait until a lease ends. It is
// longer than a busy machine takes for a reply: a lock that comes later than its lease is
// none.
func TestCrossedLocks(t *testing.T) {
	t.Parallel()
	onEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := newLocker(t, client, rlock.WithTTL(3*time.Second))
		first := make(map[string]*rlock.Lock)
		for _, key := range []string{"a", "b"} {
			lock, err := locker.Acquire(t.Context(), key)
			require.NoError(t, err)
			first[key] = lock
		}
		require.NoError(t, together(2, func(i int) error {
			key := []string{"b", "a"}[i]
			_, err := locker.Acquire(t.Context(), key)
			if err == nil && first[key].Valid() {
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
	onEvery(t, func(t *testing.T, client rueidis.Client) {
		overlap(t, client, 8, 25)
		for n := range accounts {
			require.Empty(t, get(t, client, fmt.Sprintf("account:%d", n)))
		}
	})
}

// accounts are what overlap takes sets of.
const accounts = 5

// overlap has workers take random sets of accounts, each with a Locker of its own, and
// checks that no account has two holders and that its fences rise.
func overlap(t *testing.T, client rueidis.Client, workers, rounds int, opts ...rlock.Option) {
	t.Helper()
	var (
		holders [accounts]atomic.Int32
		fences  [accounts]uint64
	)
	opts = append(opts, rlock.WithRetry(rlock.Exponential(time.Millisecond, 20*time.Millisecond)))
	require.NoError(t, together(workers, func(int) error {
		locker, err := rlock.New(client, opts...)
		if err != nil {
			return err
		}
		defer locker.Close()
		for range rounds {
			picks := rand.Perm(accounts)[:1+rand.IntN(3)]
			names := make([]string, len(picks))
			for i, n := range picks {
				names[i] = fmt.Sprintf("account:%d", n)
			}
			err := locker.DoAll(t.Context(), names, func(_ context.Context, lock *rlock.Lock) error {
				for _, n := range picks {
					if holders[n].Add(1) != 1 {
						return fmt.Errorf("two holders of %d", n)
					}
					if lock.Fence() <= fences[n] {
						return fmt.Errorf("fence of %d fell from %d to %d", n, fences[n], lock.Fence())
					}
					fences[n] = lock.Fence()
				}
				time.Sleep(rand.N(time.Millisecond))
				for _, n := range picks {
					holders[n].Add(-1)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	}))
}
