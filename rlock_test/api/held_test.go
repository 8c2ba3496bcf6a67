package api

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestHeld(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client, rlock.WithTTL(time.Minute))
		must := func(lock *rlock.Lock, err error) *rlock.Lock {
			t.Helper()
			require.NoError(t, err)
			return lock
		}
		require.Empty(t, locker.Locks())
		taken := map[string]*rlock.Lock{
			"waited for":   must(locker.Acquire(t.Context(), "a")),
			"tried":        must(locker.TryAcquire(t.Context(), "b")),
			"own token":    must(locker.Acquire(t.Context(), "c", rlock.WithToken("mine"))),
			"twice":        must(locker.Acquire(t.Context(), "c", rlock.WithToken("mine"))),
			"a set":        must(locker.AcquireAll(t.Context(), []string{"d", "e"})),
			"extended":     must(locker.Acquire(t.Context(), "f", rlock.WithAutoExtend(true))),
			"never ending": must(locker.Acquire(t.Context(), "g", rlock.WithTTL(rlock.NoExpiry))),
		}
		detached := must(locker.Acquire(t.Context(), "h"))
		taken["attached"] = must(locker.Attach(t.Context(), env.Detach(t, detached)))

		all := func() []*rlock.Lock {
			list := []*rlock.Lock{}
			for _, lock := range taken {
				list = append(list, lock)
			}
			return list
		}
		env.SameLocks(t, all(), locker.Locks())
		_, err := locker.TryAcquire(t.Context(), "a")
		require.ErrorIs(t, err, rlock.ErrHeld)
		env.SameLocks(t, all(), locker.Locks(), "what is not acquired is not held")

		require.NoError(t, locker.Do(t.Context(), "i", func(_ context.Context, lock *rlock.Lock) error {
			env.SameLocks(t, append(all(), lock), locker.Locks())
			return nil
		}))
		env.SameLocks(t, all(), locker.Locks())

		require.NoError(t, taken["a set"].Release(t.Context()))
		delete(taken, "a set")
		env.SameLocks(t, all(), locker.Locks(), "released")

		require.NoError(t, env.Do(t, client, "DEL", "b").Error())
		env.SameLocks(t, all(), locker.Locks(), "nobody has noticed yet")
		err = taken["tried"].Verify(t.Context())
		require.ErrorIs(t, err, rlock.ErrLost)
		delete(taken, "tried")
		env.SameLocks(t, all(), locker.Locks(), "lost")

		short := must(locker.TryAcquire(t.Context(), "j", rlock.WithTTL(3*time.Second)))
		require.True(t, slices.Contains(locker.Locks(), short))
		time.Sleep(3 * time.Second)
		env.SameLocks(t, all(), locker.Locks(), "expired")

		for _, lock := range locker.Locks() {
			if lock.Key() != "c" { // which is one lock with two handles
				require.NoError(t, lock.Release(t.Context()))
			}
		}
		env.SameLocks(t, []*rlock.Lock{taken["own token"], taken["twice"]}, locker.Locks())
		locker.Close()
		require.Empty(t, locker.Locks())
	})
}

func TestHeldTogether(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		require.NoError(t, env.Together(16, func(i int) error {
			for round := range 30 {
				lock, err := locker.Acquire(t.Context(), fmt.Sprint(i, ":", round%3))
				if err != nil {
					return err
				}
				found := false
				for _, held := range locker.Locks() {
					found = found || held == lock
				}
				if !found {
					return fmt.Errorf("%s is not listed", lock.Key())
				}
				if err := lock.Release(t.Context()); err != nil {
					return err
				}
			}
			return nil
		}))
		require.Empty(t, locker.Locks())
	})
}

// Locks that nobody releases or looks at again are forgotten after their lease.
func TestHeldForgets(t *testing.T) {
	t.Parallel()
	locker := env.NewLocker(t, env.Start(t).Client(t))
	var freed atomic.Int64
	const locks = 3000
	take := func(round string) (taken int64) {
		for i := range locks {
			lock, err := locker.TryAcquire(t.Context(), fmt.Sprint(round, i), rlock.WithTTL(200*time.Millisecond))
			if err == nil { // else a busy machine was too late for it
				runtime.AddCleanup(lock, func(int) { freed.Add(1) }, 0)
				taken++
			}
		}
		return taken
	}
	first := take("first")
	require.Positive(t, first)
	time.Sleep(300 * time.Millisecond)
	take("second")
	env.Soon(t, func() bool { runtime.GC(); return freed.Load() >= first*9/10 }, "the first are gone")
}

// Nothing keeps a lock that has ended, not even one that would never have expired.
func TestEndedLocksAreFreed(t *testing.T) {
	t.Parallel()
	locker := env.OpenLocker(t, env.Start(t).Option(), rlock.WithTTL(rlock.NoExpiry))
	var freed atomic.Int64
	const locks = 300
	for i := range locks {
		lock, err := locker.Acquire(t.Context(), fmt.Sprint(i))
		require.NoError(t, err)
		runtime.AddCleanup(lock, func(int) { freed.Add(1) }, 0)
		if i%2 == 0 {
			lock.Context()
		}
		if i%3 == 0 {
			env.Detach(t, lock)
		} else {
			require.NoError(t, lock.Release(t.Context()))
		}
	}
	env.Soon(t, func() bool { runtime.GC(); return freed.Load() >= locks-3 }, "they are gone")
}
