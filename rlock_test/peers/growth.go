package peers

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// curve shows how the cost of one operation of rlock grows with a size.
type curve struct {
	name   string // what grows
	says   string // the complexity, and the reason
	points []point
}

// point is the cost at one size.
type point struct {
	size      int
	took      time.Duration // of one operation
	serverCPU time.Duration
	clientCPU time.Duration
	scripts   float64
	allocs    float64
}

// grow measures a curve, one size after the other. do prepares a size, calls begin, makes a number
// of operations, and returns this number.
func grow(t *testing.T, e env.Engine, name, says string, first, last int,
	do func(tb testing.TB, l *rlock.Locker, size int, begin func()) int) curve {
	c := curve{name: name, says: says}
	for size := first; size <= last; size *= 10 {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			server := e.Start(t)
			l, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{server.Addr()}},
				rlock.WithTTL(10*time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(l.Close)
			m := meter{tb: t, server: server}
			var from reading
			n := do(t, l, size, func() { from = m.read() })
			var s sample
			s.charge(from, m.read())
			each := func(d time.Duration) time.Duration { return d / time.Duration(n) }
			c.points = append(c.points, point{
				size: size, took: each(s.elapsed), serverCPU: each(s.serverCPU), clientCPU: each(s.clientCPU),
				scripts: float64(s.scripts) / float64(n), allocs: float64(s.allocs) / float64(n),
			})
		})
	}
	return c
}

func (c curve) title() string { return "growth with " + c.name }

// rows are the points of a curve.
func (c curve) rows() (list []row) {
	for _, p := range c.points {
		list = append(list, row{
			colWorkload: c.title(), colLevel: strconv.Itoa(p.size), colCounts: c.name, colSetting: rlockPlain,
			colEachTakes: micros(float64(p.took)), colServer: micros(float64(p.serverCPU)),
			colClient: micros(float64(p.clientCPU)), colScripts: plain(p.scripts), colAllocs: plain(p.allocs),
		})
	}
	return list
}

func (c curve) about() (workload, why string) { return c.title(), c.says }

// heldKeys measures the cost of a lock among many held locks.
func heldKeys(t *testing.T, e env.Engine, p plan) curve {
	const says = "the cost of each lock is constant: a key on the server, an entry of a map on the client. " +
		"At the last size, processor caches and garbage collection add to the cost"
	return grow(t, e, "locks held", says, 100, min(p.largest, 1_000_000),
		func(tb testing.TB, l *rlock.Locker, size int, begin func()) int {
			keys := make([]string, size)
			for i := range keys {
				keys[i] = fmt.Sprintf("job:%d", i)
			}
			begin()
			results, err := l.TryAcquireEach(tb.Context(), keys)
			if err != nil {
				tb.Fatal(err)
			}
			for _, r := range results {
				if r.Err != nil {
					tb.Fatal(r.Err)
				}
			}
			return size
		})
}

// setSize measures the cost of a key of a set.
func setSize(t *testing.T, e env.Engine, p plan) curve {
	const says = "the cost of each key is constant, and a set takes two scripts whatever its size. " +
		"A small set pays for the round trip"
	return grow(t, e, "keys of a set", says, 1, min(p.largest, 10_000),
		func(tb testing.TB, l *rlock.Locker, size int, begin func()) int {
			keys := make([]string, size)
			for i := range keys {
				keys[i] = fmt.Sprintf("{set}:%d", i)
			}
			rounds := max(1, 10_000/size)
			begin()
			for range rounds {
				lock, err := l.AcquireAll(tb.Context(), keys)
				if err != nil {
					tb.Fatal(err)
				}
				if err := lock.Release(tb.Context()); err != nil {
					tb.Fatal(err)
				}
			}
			return rounds * size
		})
}

// waiters measures the cost of a hand-over while others wait.
func waiters(t *testing.T, e env.Engine, p plan) curve {
	const says = "the cost of each acquisition is constant, because a release wakes the next waiter only. " +
		"The first waiters pay for scripts that the later waiters share"
	return grow(t, e, "waiters of one lock", says, 1, min(p.largest, 10_000),
		func(tb testing.TB, l *rlock.Locker, size int, begin func()) int {
			first, err := l.Acquire(tb.Context(), "job")
			if err != nil {
				tb.Fatal(err)
			}
			ended := make(chan error, size)
			for range size {
				go func() {
					lock, err := l.Acquire(tb.Context(), "job")
					if err == nil {
						err = lock.Release(context.Background())
					}
					ended <- err
				}()
			}
			for l.Stats().Waiting < int64(size) {
				time.Sleep(time.Millisecond)
			}
			begin()
			if err := first.Release(tb.Context()); err != nil {
				tb.Fatal(err)
			}
			for range size {
				if err := <-ended; err != nil {
					tb.Fatal(err)
				}
			}
			return size
		})
}

// lockers measures the cost of an acquisition among Lockers that share a lock. Each Locker has a
// client of its own, like a process. All Lockers run in one process here, so the machine does not
// bound their number.
func lockers(t *testing.T, e env.Engine, p plan) curve {
	const says = "each acquisition takes two scripts. One joins the queue, the other releases the lock and " +
		"grants it to the first waiting process. Heartbeats of the other processes come on top"
	c := curve{name: "processes", says: says}
	for n := 1; n <= min(p.largest, 64); n *= 2 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			server := e.Start(t)
			crowd := make([]locker, n)
			for i := range crowd {
				crowd[i] = openRlock()(t, server.Addr(), lease)
			}
			s := meter{tb: t, server: server}.run(2*p.round, n,
				func(ctx context.Context, worker int, latency *latencies) error {
					return cycle(ctx, crowd[worker], "job", 0, latency)
				})
			each := func(d time.Duration) time.Duration { return d / time.Duration(max(s.ops, 1)) }
			c.points = append(c.points, point{
				size: n, took: each(s.elapsed), serverCPU: each(s.serverCPU), clientCPU: each(s.clientCPU),
				scripts: float64(s.scripts) / float64(s.ops), allocs: float64(s.allocs) / float64(s.ops),
			})
		})
	}
	return c
}
