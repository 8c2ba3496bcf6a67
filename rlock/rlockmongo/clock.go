package rlockmongo

import (
	"context"
	"sync"
	"time"
)

const (
	// apart is by how much the clocks of two servers may differ. A lease counts as over only that long after
	// its end, so one that was written by the clock of one server is safe under that of another. NTP holds
	// servers of one network within a few milliseconds.
	apart = 100 * time.Millisecond
	// fresh is for how long a reading serves. NTP slews a clock by at most 500 ppm, but chrony by a twelfth, by
	// default, while it makes up for an offset. So in this time the process's clock and the server's drift apart
	// by half a second at most, which drift allows for.
	fresh = 5 * time.Second
	drift = 10 // one part of so many, for both clocks together
	// jump is by how much the wall clock and the monotonic one may differ since a reading. More says that the
	// machine was suspended, while the monotonic clock may stand still.
	jump = 10 * time.Millisecond
	// narrow is a round trip that is short enough not to ask again, and tries how often to ask at most: what a
	// slow one leaves unknown makes leases longer for as long.
	narrow = 10 * time.Millisecond
	tries  = 3
)

// reading is an answer to hello: server is what the server's clock showed, cut to milliseconds, at some
// instant between sent and received.
type reading struct{ sent, received, server time.Time }

// bounds returns between which times the server's clock is now.
func (r reading) bounds(now time.Time) (earliest, latest time.Time) {
	unknown := now.Sub(r.sent) / drift
	earliest = r.server.Add(now.Sub(r.received) - unknown)
	latest = r.server.Add(time.Millisecond + now.Sub(r.sent) + unknown)
	return earliest, latest
}

// stale says whether a reading serves no longer, that was made so long ago by either clock of the process.
func stale(monotonic, wall time.Duration) bool {
	return monotonic > fresh || (wall-monotonic).Abs() > jump
}

// clock knows the server's clock. All servers tell it in the answer to hello. MongoDB could compare with its
// own clock in an update ($$NOW), but others that speak its protocol do not know that: so there is one way.
type clock struct {
	hello func(ctx context.Context) (time.Time, error)
	turn  chan struct{} // has room for one: who asks the server

	mu   sync.Mutex
	last *reading // nil: unknown
}

func newClock(hello func(ctx context.Context) (time.Time, error)) *clock {
	return &clock{hello: hello, turn: make(chan struct{}, 1)}
}

// forget has the next call ask the server.
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

// read returns by when leases must have ended to be over, and what the server's clock shows at most.
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

// learn asks the server, or waits for another call that does.
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
