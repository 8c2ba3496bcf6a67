//go:build !race

package cost

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// What 10,000 locks cost that are held, extended, told of losses, and otherwise
// left alone. The race detector needs memory of its own, so this is measured
// without it.
func TestIdleBudget(t *testing.T) {
	env.Long(t)
	const (
		locks    = 10_000
		ttl      = 6 * time.Second
		interval = ttl / 3
		rounds   = 4
	)
	server := env.Start(t)
	locker, err := rlock.Open(server.Option(), rlock.WithTTL(ttl), rlock.WithAutoExtend(true))
	require.NoError(t, err)
	defer locker.Close()
	keys := make([]string, locks)
	for i := range keys {
		keys[i] = fmt.Sprintf("job:%d", i)
	}
	held := make([]*rlock.Lock, locks)
	for i := range 100 { // connections, each with its buffers, scripts, tables
		first, err := locker.Acquire(t.Context(), fmt.Sprintf("first:%d", i))
		require.NoError(t, err)
		require.NoError(t, first.Release(t.Context()))
	}

	before, heap := runtime.NumGoroutine(), heapInUse()
	for i, key := range keys {
		held[i], err = locker.Acquire(t.Context(), key)
		require.NoError(t, err)
	}
	time.Sleep(2 * interval) // all have been extended
	used, goroutines := heapInUse(), runtime.NumGoroutine()
	for range 10 { // an extension that is under way has more of both
		time.Sleep(interval / 10)
		used, goroutines = min(used, heapInUse()), min(goroutines, runtime.NumGoroutine())
	}
	perLock := (used - heap) / locks
	t.Logf("%d bytes a lock, the Lock itself included", perLock)
	require.LessOrEqual(t, perLock, int64(512))
	require.LessOrEqual(t, goroutines, before+4, "however many locks there are")

	first := server.CommandStats(t)
	time.Sleep(rounds * interval)
	last := server.CommandStats(t)
	grown := func(command string) int64 { return last[command] - first[command] }
	t.Logf("%d scripts and %d reads in %d intervals", grown("evalsha"), grown("client|caching"), rounds)
	require.Equal(t, int64(0), grown("eval"))
	require.GreaterOrEqual(t, grown("evalsha"), int64(locks/100*(rounds-1)))
	require.LessOrEqual(t, grown("evalsha"), int64(locks/100*(rounds+1)), "a hundred locks a script")
	require.LessOrEqual(t, grown("client|caching"), 2*grown("evalsha"),
		"what is extended together is read together")
	require.Len(t, locker.Locks(), locks)
}

func heapInUse() int64 {
	var m runtime.MemStats
	for range 3 { // what finalizers and pools keep goes with a later cycle
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A key that nobody holds or wants any more costs no memory, however many there were.
func TestForgottenKeysBudget(t *testing.T) {
	const keys = 20_000
	server := env.Start(t)
	locker, err := rlock.Open(server.Option())
	require.NoError(t, err)
	defer locker.Close()
	cycle := func(from, to int) {
		for i := from; i < to; i++ {
			lock, err := locker.Acquire(t.Context(), fmt.Sprintf("job:%d", i))
			require.NoError(t, err)
			require.NoError(t, lock.Release(t.Context()))
		}
	}
	cycle(0, 1000) // connections, scripts, tables
	before := heapInUse()
	cycle(1000, 1000+keys)
	perKey := float64(heapInUse()-before) / keys
	t.Logf("%.2f bytes a key that was used once", perKey)
	require.Less(t, perKey, 4.0)
	require.Empty(t, locker.Locks())
}
