//go:build !race

package cost

import (
	"math"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// The race detector makes pools forget, so allocations are counted without it.
func TestAllocationsBudget(t *testing.T) {
	client := env.Start(t).Client(t)
	locker := env.NewLocker(t, client)
	unfenced := env.NewLocker(t, client, rlock.WithFence(false))
	ctx := t.Context()
	cycle := func(locker *rlock.Locker) func() {
		return func() {
			lock, err := locker.Acquire(ctx, "job")
			if err != nil {
				t.Fatal(err)
			}
			if err := lock.Release(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	waited := env.NewLocker(t, client)
	for _, key := range []string{"other", "job"} {
		before, err := locker.Acquire(ctx, key)
		require.NoError(t, err)
		next := env.NextInLine(t, waited, key)
		require.NoError(t, before.Release(ctx))
		require.NoError(t, (<-next).Release(ctx))
	}
	sets := func() {
		lock, err := locker.AcquireAll(ctx, []string{"one", "two"})
		if err != nil {
			t.Fatal(err)
		}
		if err := lock.Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
	held, err := locker.Acquire(ctx, "held")
	require.NoError(t, err)
	for name, test := range map[string]struct {
		most float64
		run  func()
	}{
		"acquire and release":                {3, cycle(locker)},
		"acquire and release, without fence": {3, cycle(unfenced)},
		"acquire and release, after a wait":  {3, cycle(waited)},
		"acquire and release a set of two":   {14, sets},
		"err":                                {0, func() { held.Err() }},
	} {
		test.run() // scripts, pools and tables are warm
		require.LessOrEqual(t, testing.AllocsPerRun(500, test.run), test.most, name)
	}
	for name, locker := range map[string]*rlock.Locker{"fenced": locker, "unfenced": unfenced,
		"after a wait": waited} {
		require.LessOrEqual(t, bytesPerRun(5000, cycle(locker)), uint64(500), name)
	}
}

// Callers of one Locker that take turns pay for their Lock, and for what wakes them little: who
// leaves the line leaves its place in it to the next who waits. As scripts and goroutines cost
// more at first, the fewest of some rounds count.
func TestLineAllocationsBudget(t *testing.T) {
	const callers, cycles = 64, 200
	locker := env.NewLocker(t, env.Start(t).Client(t))
	allocs, bytes := math.Inf(1), math.Inf(1)
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				for range cycles {
					lock, err := locker.Acquire(t.Context(), "job")
					if !assert.NoError(t, err) || !assert.NoError(t, lock.Release(t.Context())) {
						return
					}
				}
			})
		}
		group.Wait()
		runtime.ReadMemStats(&after)
		allocs = min(allocs, float64(after.Mallocs-before.Mallocs)/callers/cycles)
		bytes = min(bytes, float64(after.TotalAlloc-before.TotalAlloc)/callers/cycles)
	}
	require.LessOrEqual(t, allocs, 1.5)
	require.LessOrEqual(t, bytes, 300.0)
}

// Calls that go together allocate for their script once what each of them would allocate by itself: that is
// why a cycle of many callers is cheaper than that of one. They have more keys than the names are kept
// of. As scripts and goroutines cost more at first, the fewest of some rounds count.
func TestManyCallersAllocationsBudget(t *testing.T) {
	const callers, cycles = 1024, 20
	locker := env.NewLocker(t, env.Start(t).Client(t))
	keys := env.Keys(callers)
	allocs := math.Inf(1)
	for range 10 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var group sync.WaitGroup
		for _, key := range keys {
			group.Go(func() {
				for range cycles {
					lock, err := locker.Acquire(t.Context(), key)
					if !assert.NoError(t, err) || !assert.NoError(t, lock.Release(t.Context())) {
						return
					}
				}
			})
		}
		group.Wait()
		runtime.ReadMemStats(&after)
		allocs = min(allocs, float64(after.Mallocs-before.Mallocs)/callers/cycles)
	}
	require.LessOrEqual(t, allocs, 3.0)
}

// bytesPerRun is like testing.AllocsPerRun, for bytes.
func bytesPerRun(runs uint64, run func()) uint64 {
	var before, after runtime.MemStats
	run()
	runtime.ReadMemStats(&before)
	for range runs {
		run()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / runs
}

// A reader who shares what another has pays for its Lock, and for little else.
func TestReadersAllocationsBudget(t *testing.T) {
	locker := env.NewLocker(t, env.Start(t).Client(t), rlock.WithTTL(rlock.NoExpiry), rlock.WithTurn(time.Hour))
	held, err := locker.AcquireShared(t.Context(), "job")
	require.NoError(t, err)
	cycle := func() {
		lock, err := locker.AcquireShared(t.Context(), "job")
		if err != nil || lock.Attempts() > 0 {
			t.Fatal(err, "it has asked the server")
		}
		if err := lock.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	cycle()
	require.LessOrEqual(t, testing.AllocsPerRun(50, cycle), 3.0)
	require.NoError(t, held.Release(t.Context()))
}
