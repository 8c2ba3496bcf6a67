package peers

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// idleLease is the lease of the locks that are held and extended. Both libraries that extend
// automatically get the same lease.
const idleLease = 10 * time.Second

// idleCost is the cost of all held locks together.
type idleCost struct {
	name       string
	locks      int     // number of held locks
	clientCPU  float64 // share of one core
	serverCPU  float64
	scripts    float64 // a second
	goroutines int
	bytes      float64 // of each lock
	hung       string  // the step in which the library hung; "": it did not hang
}

// idleness is what each library that extends automatically pays for held locks.
type idleness struct {
	locks int
	costs []idleCost
}

// compareIdle makes each library that extends automatically hold locks for a while.
func compareIdle(t *testing.T, e env.Engine, locks int, d time.Duration) idleness {
	all := idleness{locks: locks}
	for _, dr := range drivers() {
		if dr.name != rlockExtended && !strings.HasPrefix(dr.name, rueidisLockName) {
			continue
		}
		t.Run(dr.name, func(t *testing.T) { all.costs = append(all.costs, hold(t, e, dr, locks, d)) })
	}
	return all
}

func hold(t *testing.T, e env.Engine, dr driver, locks int, d time.Duration) idleCost {
	server := e.Start(t)
	l := dr.open(t, server.Addr(), idleLease)
	m := meter{tb: t, server: server}
	before, goroutines := heap(), runtime.NumGoroutine()
	held, err := acquireMany(t.Context(), l, locks)
	if err != nil {
		t.Fatal(err)
	}
	c := idleCost{
		name:       dr.name,
		locks:      len(held),
		goroutines: runtime.NumGoroutine() - goroutines,
		bytes:      float64(heap()-before) / float64(max(len(held), 1)),
	}
	if len(held) < locks {
		c.hung = fmt.Sprintf("when lock %d was acquired, which is free", len(held)+1)
	}
	var s sample
	from := m.read()
	time.Sleep(d)
	s.charge(from, m.read())
	c.clientCPU = s.clientCPU.Seconds() / s.elapsed.Seconds()
	c.serverCPU = s.serverCPU.Seconds() / s.elapsed.Seconds()
	c.scripts = float64(s.scripts) / s.elapsed.Seconds()
	released := make(chan struct{})
	go func() {
		defer close(released)
		for _, lock := range held {
			_ = lock.Release(context.Background())
		}
	}()
	select {
	case <-released:
	case <-time.After(hungAfter): // rueidislock without NOLOOP wakes all of its locks again and again
		c.hung = "when they were released"
	}
	return c
}

// acquireMany acquires locks of free keys, as many as locks says. It acquires fewer if the library
// hangs. rueidislock with NOLOOP sometimes hangs here.
func acquireMany(ctx context.Context, l locker, locks int) ([]holding, error) {
	held := make([]holding, 0, locks)
	for i := range locks {
		select {
		case w := <-await(ctx, l, fmt.Sprintf("job:%d", i)):
			if w.err != nil {
				return nil, w.err
			}
			held = append(held, w.held)
		case <-time.After(hungAfter):
			return held, nil
		}
	}
	return held, nil
}

// heap returns the memory in use after a garbage collection.
func heap() int64 {
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	return int64(memory.HeapAlloc)
}

const workIdle = "idle"

func (i idleness) title() string {
	return fmt.Sprintf("%s, %d locks held and extended", workIdle, i.locks)
}

// rows are the costs of held locks.
func (i idleness) rows() (list []row) {
	for _, c := range i.costs {
		list = append(list, row{
			colWorkload: workIdle, colLevel: strconv.Itoa(i.locks), colCounts: "locks held and extended",
			colSetting: c.name, colClientCPU: ratio(100 * c.clientCPU), colServerCPU: ratio(100 * c.serverCPU),
			colScriptsIn: plain(c.scripts), colMore: strconv.Itoa(c.goroutines), colHeap: plain(c.bytes),
			colHung: c.hung,
		})
	}
	return list
}

func (i idleness) about() (workload, why string) {
	return workIdle, fmt.Sprintf("the libraries with automatic extension hold locks with a lease of %v",
		idleLease)
}
