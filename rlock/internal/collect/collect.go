// Package collect decides when a set that waits takes its keys one by one, and gives back what it
// has got when that takes too long.
//
// It keeps a set from starving among locks of its single keys, which are never all free at the same
// time. After a while it has each attempt keep what is free, in the order of the keys' names, up to
// the first that is held. So the set waits for each key no longer than a lock of that key alone does.
//
// Two sets cannot block each other, because of the order. A set and a caller who takes one lock while
// holding another can, so what was collected is given back after a while.
//
// It does not know who wants the set, or how an attempt is made.
package collect

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
const after = 2 * time.Second

// Server gives back keys, as remote.Server does.
type Server interface {
	RollBack(ctx context.Context, c *remote.Claim, parts [][]string, r remote.Request)
}

// Collector is for one set that waits. A nil Collector collects nothing.
type Collector struct {
	server Server
	claim  *remote.Claim
	ttl    time.Duration
	keys   []string      // sorted; nil: it is not collecting
	turn   clock.Instant // when that changes
}

// New returns the Collector of a claim with a lease of ttl, for which somebody waits since start.
func New(s Server, c *remote.Claim, ttl time.Duration, start clock.Instant) *Collector {
	return &Collector{server: s, claim: c, ttl: ttl, turn: start.After(after)}
}

// Step begins or ends collecting when it is time. If it has just begun, some of the keys may be free.
// If it has ended, the keys that token had are given back. Later attempts need another token then: a
// release without an answer may still run, and the reaper repeats it, and neither may free what a
// later attempt takes.
func (c *Collector) Step(ctx context.Context, token string) (begun, ended bool) {
	if clock.Now() < c.turn {
		return false, false
	}
	c.turn = clock.Now().After(after)
	if c.keys == nil {
		c.keys = slices.Sorted(slices.Values(c.claim.Keys()))
		return true, false
	}
	c.server.RollBack(ctx, c.claim, c.claim.BySlot(), remote.Request{Token: token, TTL: c.ttl})
	c.keys = nil
	return false, true
}

// Turn has the next Step begin or end collecting.
func (c *Collector) Turn() { c.turn = clock.Now() }

// Keys returns the keys that the next attempt is to keep one by one, nil if it takes all or none.
func (c *Collector) Keys() []string {
	if c == nil {
		return nil
	}
	return c.keys
}

// End returns when to try again at the latest: what was collected must not expire.
func (c *Collector) End() clock.Instant {
	switch {
	case c == nil:
		return clock.Never
	case c.keys == nil || c.ttl == clock.NoExpiry:
		return c.turn
	}
	return min(c.turn, clock.Now().After(c.ttl/lease.Renewals))
}
