//go:build !race && unix

package cost

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// TestCapacity measures the table of capacity in docs/RUNBOOK.md, and prints it with -v. Its limits are
// several times what it has measured, so that only a change of the order of magnitude fails on a busy
// machine.
func TestCapacity(t *testing.T) {
	env.Long(t)
	for _, locks := range []int{1_000, 10_000, 100_000} {
		t.Run(fmt.Sprintf("%d locks held and extended", locks), func(t *testing.T) {
			server := env.Start(t)
			locker := env.OpenLocker(t, server.Option(), rlock.WithTTL(30*time.Second), rlock.WithAutoExtend(true))
			warm(t, locker)
			before := measure(t, server)
			var held []*rlock.Lock
			for keys := env.Keys(locks); len(keys) > 0; keys = keys[min(len(keys), 10_000):] {
				held = append(held, env.TakeEach(t, locker, keys[:min(len(keys), 10_000)])...)
			}
			time.Sleep(10 * time.Second) // a third of the lease: each has been extended
			used := spend(t, server, 20*time.Second)
			used.add(before, measure(t, server))
			t.Log(used)
			require.Len(t, locker.Locks(), locks, "none was lost")
			require.Less(t, used.process, 0.6, "of a core")
			require.Less(t, used.heap, int64(locks)*600+4<<20)
			runtime.KeepAlive(held)
		})
	}
	for _, callers := range []int{100, 1_000, 10_000} {
		t.Run(fmt.Sprintf("%d callers of a process wait for a key", callers), func(t *testing.T) {
			server := env.Start(t)
			holder, waiter := env.OpenLocker(t, server.Option()), env.OpenLocker(t, server.Option())
			waits(t, server, holder, callers, func(int) *rlock.Locker { return waiter })
		})
	}
	for _, processes := range []int{100, 1_000} {
		t.Run(fmt.Sprintf("%d processes wait for a key", processes), func(t *testing.T) {
			server := env.Start(t)
			client := server.Client(t, func(o *rueidis.ClientOption) { o.BlockingPoolSize = processes + 1 })
			lockers := make([]*rlock.Locker, processes)
			for i := range lockers {
				lockers[i] = env.NewLocker(t, client)
			}
			waits(t, server, env.OpenLocker(t, server.Option()), processes,
				func(i int) *rlock.Locker { return lockers[i] })
		})
	}
	t.Run("checks", func(t *testing.T) {
		server := env.Start(t)
		locker := env.OpenLocker(t, server.Option())
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		env.AwaitCached(t, locker, "job")
		t.Logf("%.0f checks a second from the cache, %.0f that ask the server",
			rate(t, func() error { return env.ErrorOf(locker.Check(t.Context(), "job")) }),
			rate(t, func() error { return lock.Verify(t.Context()) }))
	})
}

// waits has n callers wait for a key that holder has, and measures that.
func waits(t *testing.T, server *env.Server, holder *rlock.Locker, n int, locker func(i int) *rlock.Locker) {
	t.Helper()
	warm(t, holder)
	lock, err := holder.Acquire(t.Context(), "job", rlock.WithTTL(30*time.Second), rlock.WithAutoExtend(true))
	require.NoError(t, err)
	before := measure(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var callers sync.WaitGroup
	for i := range n {
		callers.Go(func() { _, _ = locker(i).Acquire(ctx, "job") })
	}
	counted := map[*rlock.Locker]bool{}
	for i := range n {
		counted[locker(i)] = true
	}
	require.Eventually(t, func() bool {
		var waiting int64
		for l := range counted {
			waiting += l.Stats().Waiting
		}
		return waiting == int64(n)
	}, time.Minute, 50*time.Millisecond)
	time.Sleep(5 * time.Second) // all have joined, and heartbeats have settled
	used := spend(t, server, 20*time.Second)
	used.add(before, measure(t, server))
	t.Log(used)
	require.Less(t, used.scripts, 110.0, "however many wait: a hundred a second, and what holds the key")
	cancel()
	callers.Wait()
	require.NoError(t, lock.Release(context.WithoutCancel(ctx)))
}

// warm has a Locker dial what it dials, and both sides make their tables.
func warm(t *testing.T, locker *rlock.Locker) {
	t.Helper()
	for i := range 100 {
		lock, err := locker.Acquire(t.Context(), fmt.Sprint("warm:", i))
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
	}
}

// usage is what something costs: shares of a core, calls of scripts a second, and bytes.
type usage struct {
	process, server, scripts float64
	heap, data               int64
	tracked                  int
}

func (u usage) String() string {
	return fmt.Sprintf("process %.1f %% of a core and %.1f MB, server %.1f %% and %.1f MB; %.1f scripts a "+
		"second; %d keys tracked",
		100*u.process, float64(u.heap)/1e6, 100*u.server, float64(u.data)/1e6, u.scripts, u.tracked)
}

// moment is what has been spent until then, and what is in use.
type moment struct {
	at              time.Time
	process, server float64 // seconds of processor
	scripts         int64
	heap, data      int64 // the heap and the stacks of this process; the data of the server
	tracked         int
}

func measure(t *testing.T, server *env.Server) moment {
	t.Helper()
	var own syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &own))
	spent := time.Duration(own.Utime.Nano() + own.Stime.Nano())
	reply := server.Do(t, "INFO")
	info, err := reply.ToString()
	require.NoError(t, err)
	field := func(name string) float64 {
		_, value, found := strings.Cut(info, "\n"+name+":")
		require.True(t, found, name)
		value, _, _ = strings.Cut(value, "\r")
		n, err := strconv.ParseFloat(value, 64)
		require.NoError(t, err)
		return n
	}
	heap := heapInUse()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return moment{
		at: time.Now(), process: spent.Seconds(), server: field("used_cpu_user") + field("used_cpu_sys"),
		scripts: server.ScriptCalls(t), heap: heap + int64(memory.StackInuse), data: int64(field("used_memory")),
		tracked: server.TrackedKeys(t),
	}
}

// spend measures what is spent in a while.
func spend(t *testing.T, server *env.Server, d time.Duration) usage {
	t.Helper()
	first := measure(t, server)
	begun := measure(t, server) // what a measurement itself costs is left out
	time.Sleep(d)
	last := measure(t, server)
	took := last.at.Sub(begun.at).Seconds()
	return usage{
		process: max(0, last.process-begun.process-(begun.process-first.process)) / took,
		server:  (last.server - begun.server) / took,
		scripts: float64(last.scripts-begun.scripts) / took,
	}
}

// add adds the memory that is in use since before.
func (u *usage) add(before, now moment) {
	u.heap, u.data, u.tracked = now.heap-before.heap, now.data-before.data, now.tracked
}

// rate returns how often a second all processors can do something together.
func rate(t *testing.T, do func() error) float64 {
	t.Helper()
	var done atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range 32 {
		all.Go(func() {
			for time.Since(began) < 2*time.Second {
				if err := do(); err != nil {
					t.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}
