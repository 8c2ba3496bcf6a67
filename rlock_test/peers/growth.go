package peers

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

// curve is how the cost of one operation of rlock grows with something.
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
	scripts   float64
}

// grow measures a curve, one size after the other. do makes ready for a size, calls begin,
// makes a number of operations, and says how many.
func grow(t *testing.T, e bed.Engine, name, says string, sizes []int, do func(tb testing.TB, l *rlock.Locker, size int, begin func()) int) curve {
	c := curve{name: name, says: says}
	for _, size := range sizes {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			server := e.Start(t)
			l, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{server.Addr()}}, rlock.WithTTL(10*time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(l.Close)
			m := meter{tb: t, server: server}
			var s sample
			var from reading
			n := do(t, l, size, func() { from = m.read() })
			s.charge(from, m.read())
			c.points = append(c.points, point{
				size: size, took: s.elapsed / time.Duration(n), serverCPU: s.serverCPU / time.Duration(n),
				scripts: float64(s.scripts) / float64(n),
			})
		})
	}
	return c
}

// markdown is the table of a curve.
func (c curve) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### growth with %s: %s\n\n| %s | each takes | server | scripts |\n|---|---|---|---|\n", c.name, c.says, c.name)
	for _, p := range c.points {
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", p.size, span(p.took), span(p.serverCPU), short(p.scripts))
	}
	return b.String()
}

// heldKeys is the cost of a lock among many that are held.
func heldKeys(t *testing.T, e bed.Engine, sizes []int) curve {
	return grow(t, e, "locks held", "constant: a key, and an entry of a map", sizes, func(tb testing.TB, l *rlock.Locker, size int, begin func()) int {
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

// setSize is the cost of a key of a set.
func setSize(t *testing.T, e bed.Engine, sizes []int) curve {
	return grow(t, e, "keys of a set", "linear: every key is read and written, in one script", sizes, func(tb testing.TB, l *rlock.Locker, size int, begin func()) int {
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

// waiters is the cost of a hand-over while others wait.
func waiters(t *testing.T, e bed.Engine, sizes []int) curve {
	return grow(t, e, "waiters of one lock", "constant: only the next in line does anything", sizes, func(tb testing.TB, l *rlock.Locker, size int, begin func()) int {
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
