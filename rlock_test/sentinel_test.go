package rlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

func TestSentinel(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		t.Parallel()
		s := e.StartSentinel(t)
		direct := s.Primary.Client(t)
		for name, locker := range map[string]*rlock.Locker{
			"pushed": openLocker(t, s.Option()),
			"polled": newLocker(t, s.Client(t)),
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				key := "job:" + name
				t.Run("one key", func(t *testing.T) {
					lock, err := locker.Acquire(t.Context(), key)
					require.NoError(t, err)
					require.NotZero(t, lock.Fence())
					_, err = locker.TryAcquire(t.Context(), key)
					require.ErrorIs(t, err, rlock.ErrHeld)
					require.NoError(t, lock.Extend(t.Context(), time.Minute))
					require.Greater(t, left(t, direct, key), 30*time.Second)
					state, err := lock.Check(t.Context())
					require.NoError(t, err)
					require.True(t, state.HeldBy(lock.Token()))
					state, err = locker.Inspect(t.Context(), key)
					require.NoError(t, err)
					require.True(t, state.HeldBy(lock.Token()))
					soon(t, func() bool {
						state, err = locker.Check(t.Context(), key)
						require.NoError(t, err)
						return state.HeldBy(lock.Token()) && state.Cached
					}, "the holder reaches the cache")
					require.NoError(t, lock.Release(t.Context()))
					require.Empty(t, get(t, direct, key))
				})
				t.Run("a set", func(t *testing.T) {
					keys := []string{key + ":a", key + ":b", key + ":c"}
					err := locker.DoAll(t.Context(), keys, func(_ context.Context, lock *rlock.Lock) error {
						for _, held := range keys {
							require.Equal(t, lock.Token(), get(t, direct, held))
						}
						return nil
					})
					require.NoError(t, err)
					for _, freed := range keys {
						require.Empty(t, get(t, direct, freed))
					}
				})
				t.Run("a stranger", func(t *testing.T) {
					require.NoError(t, do(t, direct, "SET", key, "other").Error())
					acquired := make(chan error, 1)
					go func() {
						acquired <- locker.Do(t.Context(), key, func(context.Context, *rlock.Lock) error { return nil })
					}()
					soon(t, func() bool { return locker.Stats().Waiting == 1 }, "it waits")
					require.NoError(t, do(t, direct, "DEL", key).Error())
					require.NoError(t, <-acquired)
				})
			})
		}
	})
}

// A key without a lease is polled four times a second where the server does not push.
func TestSentinelPushes(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		t.Parallel()
		s := e.StartSentinel(t)
		locker, direct := openLocker(t, s.Option()), s.Primary.Client(t)
		require.NoError(t, do(t, direct, "SET", "job", "other").Error())
		acquired := make(chan error, 1)
		go func() {
			_, err := locker.Acquire(t.Context(), "job")
			acquired <- err
		}()
		tracked(t, s.Primary, 1)
		before := locker.Stats().Attempts
		time.Sleep(time.Second)
		require.Equal(t, before, locker.Stats().Attempts, "it does not poll")
		require.NoError(t, do(t, direct, "DEL", "job").Error())
		require.NoError(t, <-acquired)
		require.LessOrEqual(t, locker.Stats().Attempts, before+2)
	})
}

// What a failover does to those who hold and those who wait.
func TestFailover(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		t.Parallel()
		s := e.StartSentinel(t)
		direct := s.Client(t)
		holder := openLocker(t, s.Option(), rlock.WithTTL(15*time.Second), rlock.WithAutoExtend(true))
		rival := newLocker(t, s.Client(t))

		kept, err := holder.Acquire(t.Context(), "kept")
		require.NoError(t, err)
		lost, err := holder.Acquire(t.Context(), "lost")
		require.NoError(t, err)
		deadline := lost.Deadline()
		require.NoError(t, do(t, direct, "SET", "foreign", "other").Error())
		waiters := map[string]<-chan *rlock.Lock{
			"kept":    outlives(t, rival, "kept"),
			"lost":    outlives(t, rival, "lost"),
			"foreign": outlives(t, holder, "foreign"),
		}
		soon(t, func() bool { return rival.Stats().Waiting == 2 && holder.Stats().Waiting == 1 }, "all wait")
		forgets(t, s.Replica, map[string]string{"kept": kept.Token(), "lost": lost.Token(), "foreign": "other"})
		s.Failover(t)

		ends(t, lost, rlock.ErrNotHeld)
		require.Less(t, time.Now(), deadline)
		next := <-waiters["lost"]
		require.Greater(t, next.Fence(), lost.Fence(), "the counter was lost")
		require.ErrorIs(t, lost.Release(t.Context()), rlock.ErrNotHeld)

		soon(t, func() bool { return left(t, direct, "kept") > 14*time.Second }, "it is extended on the new primary")
		require.True(t, kept.Valid())
		require.NoError(t, kept.Release(t.Context()))
		require.Greater(t, (<-waiters["kept"]).Fence(), kept.Fence())

		require.NoError(t, do(t, direct, "DEL", "foreign").Error())
		require.Greater(t, (<-waiters["foreign"]).Fence(), next.Fence())
	})
}

// outlives acquires a key, whatever happens to the server meanwhile.
func outlives(t *testing.T, locker *rlock.Locker, key string) <-chan *rlock.Lock {
	acquired := make(chan *rlock.Lock, 1)
	go func() {
		defer close(acquired)
		lock, err := locker.Acquire(t.Context(), key)
		if err != nil {
			t.Errorf("acquire %s: %v", key, err)
			return
		}
		acquired <- lock
	}()
	return acquired
}

// forgets waits until a replica has the keys, and makes it one that was not told in
// time of the lost lock and of any fence.
func forgets(t *testing.T, replica *bed.Server, values map[string]string) {
	t.Helper()
	for key, value := range values {
		soon(t, func() bool {
			reply := replica.Do(t, "GET", key)
			if reply.IsNil() {
				return false
			}
			got, err := reply.ToString()
			require.NoError(t, err)
			return got == value
		}, "the replica has "+key)
	}
	replica.Do(t, "CONFIG", "SET", "replica-read-only", "no")
	replica.Do(t, "DEL", "lost")
	counters := replica.Do(t, "KEYS", "rlock:fence:*")
	names, err := counters.AsStrSlice()
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		replica.Do(t, "SET", name, "1")
	}
}
