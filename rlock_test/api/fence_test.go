package api

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestFencesRise(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		a, b := env.NewLocker(t, client), env.NewLocker(t, client)
		last := map[string]uint64{}
		take := func(locker *rlock.Locker, keys ...string) {
			t.Helper()
			lock, err := locker.TryAcquireAll(t.Context(), keys)
			require.NoError(t, err)
			for _, key := range keys {
				require.Greater(t, lock.Fence(), last[key])
				last[key] = lock.Fence()
			}
			require.NoError(t, lock.Release(t.Context()))
		}
		for range 50 {
			take(a, "job")
			take(b, "job")
		}
		// A set counts for each of its keys, whatever their slots.
		for range 5 {
			take(a, "other", "job", "third")
			take(b, "third")
			take(a, "job")
			take(b, "other")
			take(b, "third", "other")
		}
	})
}

// What a failover, a flush or an eviction can do to the counter.
func TestFencesSurviveALostCounter(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		var last uint64
		for range 5 {
			for range 20 {
				lock, err := locker.Acquire(t.Context(), "job")
				require.NoError(t, err)
				require.Greater(t, lock.Fence(), last)
				last = lock.Fence()
				require.NoError(t, lock.Release(t.Context()))
			}
			time.Sleep(70 * time.Millisecond) // the clock is counted in steps of 65.536 ms
			require.NoError(t, env.Do(t, client, "FLUSHALL").Error())
		}
	})
}

func TestCountersAreBounded(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		for i := range 50 {
			// One slot for all, as in any cluster that keeps related keys together.
			lock, err := locker.Acquire(t.Context(), fmt.Sprintf("{tenant}:%d", i))
			require.NoError(t, err)
			require.NoError(t, lock.Release(t.Context()))
		}
		keys, err := env.Do(t, client, "KEYS", "*").AsStrSlice()
		require.NoError(t, err)
		require.Len(t, keys, 1)
		require.True(t, strings.HasPrefix(keys[0], "rlock:fence:{"), keys[0])
		require.Equal(t, redislua.Slot("{tenant}:1"), redislua.Slot(keys[0]), "the counter is in its locks' slot")
		left, err := env.Do(t, client, "PTTL", keys[0]).ToInt64()
		require.NoError(t, err)
		require.Equal(t, int64(-1), left)
	})
}

func TestWithoutFence(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client, rlock.WithFence(false))
		one, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		require.Zero(t, one.Fence())
		set, err := locker.AcquireAll(t.Context(), []string{"x", "y"})
		require.NoError(t, err)
		require.Zero(t, set.Fence())
		require.NoError(t, one.Release(t.Context()))
		require.NoError(t, set.Release(t.Context()))
		keys, err := env.Do(t, client, "KEYS", "*").AsStrSlice()
		require.NoError(t, err)
		require.Empty(t, keys)
	})
}

// A counter that is lost starts anew above every number before, however soon.
func TestFencesRiseAtOnceAfterAFlush(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		last := map[string]uint64{}
		for range 30 {
			for _, keys := range [][]string{{"job"}, {"job", "other"}, {"other"}} {
				lock, err := locker.AcquireAll(t.Context(), keys)
				require.NoError(t, err)
				for _, key := range keys {
					require.Greater(t, lock.Fence(), last[key])
					last[key] = lock.Fence()
				}
				require.NoError(t, lock.Release(t.Context()))
			}
			require.NoError(t, env.Do(t, client, "FLUSHALL").Error())
		}
	})
}

// A lock with the name of a counter would break the fences of its slot.
func TestCountersAreNoLocks(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		_, err := env.NewLocker(t, client).Acquire(t.Context(), "rlock:fence:{0}")
		require.ErrorIs(t, err, rlock.ErrInvalid)
		_, err = env.NewLocker(t, client, rlock.WithPrefix("rlock:")).AcquireAll(t.Context(),
			[]string{"a", "fence:{x}"})
		require.ErrorIs(t, err, rlock.ErrInvalid)
	})
}

// serverMicros is the server's clock, in microseconds since 1970.
func serverMicros(t *testing.T, client rueidis.Client) int64 {
	t.Helper()
	parts, err := env.Do(t, client, "TIME").AsIntSlice()
	require.NoError(t, err)
	return parts[0]*1e6 + parts[1]
}

// However fast and uselessly fences are taken in advance, they stay behind the
// server's clock, so that none falls when the counter is lost.
func TestFencesStayBehindTheClock(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		locker, client := env.OpenOn(t, server), server.Client(t)
		for name, different := range map[string]int{"same lease": 1, "leases that cannot be shared": 2} {
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				var last atomic.Uint64
				require.NoError(t, env.Together(8, func(i int) error {
					for ctx.Err() == nil {
						err := locker.Do(ctx, "job", func(_ context.Context, lock *rlock.Lock) error {
							last.Store(lock.Fence())
							return nil
						}, rlock.WithTTL(time.Duration(10+i%different)*time.Second))
						if err != nil && ctx.Err() == nil {
							return err
						}
					}
					return nil
				}))
				require.LessOrEqual(t, int64(last.Load()), serverMicros(t, client))
				server.Do(t, "FLUSHALL")
				lock, err := locker.Acquire(t.Context(), "job")
				require.NoError(t, err)
				require.Greater(t, lock.Fence(), last.Load())
				require.NoError(t, lock.Release(t.Context()))
			})
		}
	})
}
