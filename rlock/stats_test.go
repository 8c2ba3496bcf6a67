package rlock_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
)

// counted returns what a histogram has counted, by the bound of the bucket.
func counted(h rlock.Histogram) map[float64]uint64 {
	by := map[float64]uint64{}
	for i, n := range h.Counts {
		if n > 0 {
			by[h.Bound(i)] = n
		}
	}
	return by
}

// A lock counts as held until it ends, in whatever way, and for as long as it was held and not until
// somebody has noticed.
func TestHowLongLocksAreHeld(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end    func(t *testing.T, locker *rlock.Locker, lock *rlock.Lock)
		bucket float64
		held   float64
	}{
		"released": {func(t *testing.T, _ *rlock.Locker, lock *rlock.Lock) {
			time.Sleep(3 * time.Second)
			require.NoError(t, lock.Release(t.Context()))
		}, 4, 3},
		"detached": {func(t *testing.T, _ *rlock.Locker, lock *rlock.Lock) {
			time.Sleep(3 * time.Second)
			_, err := lock.Detach()
			require.NoError(t, err)
		}, 4, 3},
		"expired long before anybody looks": {func(t *testing.T, locker *rlock.Locker, lock *rlock.Lock) {
			time.Sleep(time.Hour)
			require.Zero(t, locker.Stats().Held)
			require.Zero(t, locker.Stats().Holds.Count())
			require.ErrorIs(t, lock.Err(), rlock.ErrExpired)
		}, 16, 9.989},
		"closed long before anybody looks": {func(t *testing.T, locker *rlock.Locker, lock *rlock.Lock) {
			time.Sleep(time.Second / 4)
			locker.Close()
			require.Zero(t, locker.Stats().Held)
			time.Sleep(time.Hour)
			require.ErrorIs(t, lock.Err(), rlock.ErrClosed)
		}, 0.25, 0.25},
		"lost": {func(t *testing.T, locker *rlock.Locker, lock *rlock.Lock) {
			time.Sleep(5 * time.Second)
			client := locker.Client()
			require.NoError(t, client.Do(t.Context(), client.B().Del().Key("job").Build()).Error())
			require.ErrorIs(t, lock.Verify(t.Context()), rlock.ErrLost)
		}, 8, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, client rueidis.Client, _ *redis) {
				locker := open(t, client)
				lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(10*time.Second))
				require.NoError(t, err)
				require.Equal(t, 1, locker.Stats().Held)
				require.Zero(t, locker.Stats().Holds)
				c.end(t, locker, lock)
				s := locker.Stats()
				require.Zero(t, s.Held)
				require.Equal(t, map[float64]uint64{c.bucket: 1}, counted(s.Holds))
				require.Equal(t, c.held, s.Holds.Sum)
				require.EqualValues(t, 1, s.Released+s.Detached+s.Expired+s.Closed+s.Lost)
			})
		})
	}
}

// Who waits counts when the wait is over, whether or not the lock came of it.
func TestHowLongWaitsTake(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, client rueidis.Client, _ *redis) {
		locker := open(t, client)
		defer locker.Close()
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Hour))
		require.NoError(t, err)
		go func() {
			time.Sleep(6 * time.Second)
			lock.Release(t.Context())
		}()
		_, err = locker.TryAcquire(t.Context(), "job")
		require.ErrorIs(t, err, rlock.ErrHeld)
		require.Zero(t, locker.Stats().Waits, "it has not waited")
		short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err = locker.Acquire(short, "job")
		require.ErrorIs(t, err, rlock.ErrGaveUp)
		require.Equal(t, map[float64]uint64{4: 1}, counted(locker.Stats().Waits))
		next, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		require.NoError(t, next.Release(t.Context()))
		s := locker.Stats()
		require.Equal(t, map[float64]uint64{4: 2}, counted(s.Waits))
		require.InDelta(t, 6, s.Waits.Sum, 0.01)
		require.InDelta(t, s.Waited.Seconds(), s.Waits.Sum, 1e-5)
		require.EqualValues(t, s.Contended-1, s.Waits.Count())
		require.EqualValues(t, 2, s.Acquired, "the others did not wait")
	})
}

func TestHistogramsOfNoLocker(t *testing.T) {
	t.Parallel()
	var locker *rlock.Locker
	h := locker.Stats().Waits
	require.Zero(t, h.Count())
	require.Equal(t, 1.0/16384, h.Bound(0))
	require.Equal(t, math.Inf(1), h.Bound(len(h.Counts)-1))
}
