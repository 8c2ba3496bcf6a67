package rlockmongo

import (
	"context"
	"sync"
	"time"
)

const (
	// apart is how much the clocks of two servers may differ. A lease counts as over only this long after its
	// end. So a lease that was written by the clock of one server is safe under the clock of another. NTP
	// keeps the servers of one network within a few milliseconds.
	apart = 100 * time.Millisecond
	// fresh is how long a reading is valid. NTP slews a clock by at most 500 ppm. By default, chrony slews by
	// up to a twelfth while it corrects an offset. So in this time the clocks of process and server drift
	// apart by at most half a second, and drift allows for that.
	fresh = 5 * time.Second
	drift = 10 // one part of so many, for both clocks together
	// jump is how much the wall clock and the monotonic clock may differ after a reading. More means that the
	// machine was suspended, when the monotonic clock may stand still.
	jump = 10 * time.Millisecond
	// narrow is a round trip short enough for a reading, and tries is how often to ask at most. What a slow
	// round trip leaves unknown makes leases longer.
	narrow = 10 * time.Millisecond
	tries  = 3
)

// reading is an answer to hello. server is the server's clock, cut to milliseconds, at some instant between
// sent and received.
type reading struct{ sent, received, server time.Time }

// bounds returns the earliest and the latest possible time of the server's clock now.
func (r reading) bounds(now time.Time) (earliest, latest time.Time) {
	unknown := now.Sub(r.sent) / drift
	earliest = r.server.Add(now.Sub(r.received) - unknown)
	latest = r.server.Add(time.Millisecond + now.Sub(r.sent) + unknown)
	return earliest, latest
}

// stale reports whether a reading of that age, by either clock of the process, is too old.
func stale(monotonic, wall time.Duration) bool {
	return monotonic > fresh || (wall-monotonic).Abs() > jump
}

// clock knows the server's clock from the answers to hello, which every server gives. MongoDB could compare
// with its own clock in an update ($$NOW), but other servers with its protocol cannot. So there is one way
// for all.
type clock struct {
	hello func(ctx context.Context) (time.Time, error)
	turn  chan struct{} // has room for one: who asks the server

	mu   sync.Mutex
	last *reading // nil: unknown
}

func newClock(hello func(ctx context.Context) (time.Time, error)) *clock {
	return &clock{hello: hello, turn: make(chan struct{}, 1)}
}

// forget makes the next call ask the server.
func (c *clock) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = nil
}

func (c *clock) known() (reading, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		return reading{}, false
	}
	now := time.Now()
	if stale(now.Sub(c.last.received), now.Round(0).Sub(c.last.received.Round(0))) {
		return reading{}, false
	}
	return *c.last, true
}

// read returns over and latest. A lease that ended by over is over. latest is the latest possible time of the
// server's clock.
func (c *clock) read(ctx context.Context) (over, latest time.Time, err error) {
	r, known := c.known()
	if !known {
		if r, err = c.learn(ctx); err != nil {
			return time.Time{}, time.Time{}, err
		}
	}
	earliest, latest := r.bounds(time.Now())
	return earliest.Add(-apart), latest, nil
}

// learn asks the server, or waits for another call that asks.
func (c *clock) learn(ctx context.Context) (reading, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return reading{}, ctx.Err()
	}
	if r, known := c.known(); known {
		return r, nil
	}
	var best reading
	for try := range tries {
		sent := time.Now()
		server, err := c.hello(ctx)
		if err != nil && try == 0 {
			return reading{}, err
		}
		if err != nil {
			break
		}
		r := reading{sent, time.Now(), server}
		if try == 0 || r.received.Sub(r.sent) < best.received.Sub(best.sent) {
			best = r
		}
		if r.received.Sub(r.sent) <= narrow {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = &best
	return best, nil
}
