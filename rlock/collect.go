package rlock

import (
	"context"
	"slices"
	"time"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/lease"
)

// A set that has waited this long takes its keys one by one for as long again, and
// so on in turn.
const collectAfter = 2 * time.Second

// collector keeps a set from starving among locks of its single keys, which are
// never all free at the same time. After a while it has each attempt keep what is
// free, in the order of the keys' names, up to the first that is held. So it waits
// for each key no longer than a lock of that key alone does.
//
// Two sets cannot block each other, because of the order. A set and a caller who
// takes one lock while holding another can, so what was collected is freed again
// after a while.
type collector struct {
	lock    *Lock
	keys    []string      // sorted; nil: it is not collecting
	turning clock.Instant // when that changes
}

// next starts or ends collecting when it is time. It reports whether it has just
// started.
func (c *collector) next(ctx context.Context) bool {
	if clock.Now() < c.turning {
		return false
	}
	c.turning = clock.Now().After(collectAfter)
	if c.keys == nil {
		c.keys = slices.Sorted(slices.Values(c.lock.keys()))
		return true
	}
	l := c.lock
	if _, err := l.locker.scripts.Release(ctx, l.locker.client, gen.ReleaseParams{Locks: c.keys, Token: l.lease.Token()}); err != nil {
		// The release may still run, and the reaper repeats it. Neither may free what a later
		// attempt takes, so that attempt needs another token.
		l.abandon(l.lease.TTL(), int(l.late)+1)
		l.late = 0
		l.lease.SetToken("") // it gets a new one
	}
	c.keys = nil
	return false
}

// end returns when to try again at the latest: what was collected must not expire.
func (c *collector) end() clock.Instant {
	switch {
	case c == nil:
		return clock.Never
	case c.keys == nil || c.lock.lease.TTL() == NoExpiry:
		return c.turning
	}
	return min(c.turning, clock.Now().After(c.lock.lease.TTL()/lease.Renewals))
}

// order returns the keys for the next attempt, and whether it is to keep some.
func (c *collector) order(l *Lock) (keys []string, collect bool) {
	if c == nil || c.keys == nil {
		return l.keys(), false
	}
	return c.keys, true
}
