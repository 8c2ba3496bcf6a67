package rlock

import (
	"context"
	"slices"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/lease"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
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
		c.keys = slices.Sorted(slices.Values(c.lock.claim.Keys()))
		return true
	}
	// A release without an answer may still run, and the reaper repeats it. Neither may free what
	// a later attempt takes, so that attempt has another token.
	l := c.lock
	l.locker.remote.RollBack(ctx, &l.claim, l.claim.BySlot(), remote.Request{Token: l.lease.Token(), TTL: l.lease.TTL()})
	l.lease.SetToken("")
	c.keys = nil
	return false
}

// kept returns the keys that the next attempt is to keep one by one, nil if it takes all or none.
func (c *collector) kept() []string {
	if c == nil {
		return nil
	}
	return c.keys
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
