// Package collect decides when a set that waits takes its keys one by one, and gives back what it
// has got when that takes too long.
//
// It keeps a set from starving among locks of its single keys, which are never all free at the same
// time. It has each attempt keep what is free, in the order of the keys' names, up to the first that is
// held, and the set then waits in the queue of that one. In all queues of a slot it has the score with
// which it joined the first of them: it does not begin to wait anew with each key, so what it has got
// stands idle for no longer than those take who came before the set.
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
	"github.com/rlock-go/toolkit/rlock/internal/remote"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
)

// A set that waits takes its keys one by one for so long. Then it takes all or none for as long, so that
// others get what it has kept from them, and so on in turn.
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
	scores []int64       // the first in a queue of each slot; 0: none

	kept   int  // so many keys, in the order in which they are taken, an answer said to have the token
	unsure bool // others may have it: an attempt is under way, or has failed
}

// New returns the Collector of a claim with a lease of ttl. The first Step begins to collect.
func New(s Server, c *remote.Claim, ttl time.Duration) *Collector {
	return &Collector{server: s, claim: c, ttl: ttl, turn: clock.Now()}
}

// Step begins or ends collecting when it is time. If it has just begun, some of the keys may be free.
// If it has ended, the keys that token had are given back. Later attempts need another token then: a
// release without an answer may still run, and the reaper repeats it, and neither may free what a
// later attempt takes.
func (c *Collector) Step(ctx context.Context, token string) (begun, ended bool) {
	if clock.Now() < c.turn {
		return false, false
	}
	if begun = c.keys == nil; begun {
		c.keys = slices.Sorted(slices.Values(c.claim.Keys()))
	} else {
		c.GiveBack(ctx, token)
		c.keys = nil
	}
	c.turn = clock.Now().After(after) // GiveBack may have taken long
	return begun, !begun
}

// GiveBack gives back the keys that token has. A server that does not answer cannot hold the set up for longer
// than a turn; the reaper goes on then. Later attempts need another token.
func (c *Collector) GiveBack(ctx context.Context, token string) {
	ctx, end := clock.Within(ctx, after)
	defer end()
	c.server.RollBack(ctx, c.claim, c.claim.BySlot(), remote.Request{Token: token, TTL: c.ttl})
	c.kept, c.unsure = 0, false
}

// Asks notes, before it is sent, that an attempt may take keys: until there is an answer, nobody knows
// which. It returns what Blocked is to be told.
func (c *Collector) Asks() (unsure bool) {
	if c == nil || c.keys == nil {
		return false
	}
	unsure, c.unsure = c.unsure, true
	return unsure
}

// Blocked notes that an attempt has ended at a key that is held, and how many keys it has found or made
// the set's. unsure is what Asks has returned.
func (c *Collector) Blocked(unsure bool, kept int) {
	if c != nil {
		c.unsure, c.kept = unsure, max(c.kept, kept)
	}
}

// Got notes that the set has got a key in the queue of that key.
func (c *Collector) Got(key string) { c.kept = max(c.kept, c.position(key)+1) }

// Has reports whether the set has collected some of its keys, or may have.
func (c *Collector) Has() bool { return c != nil && (c.unsure || c.kept > 0) }

// Lost reports whether the set had a key at which an attempt has ended, or had another that comes after it.
// It would get the others out of order, so it has to give back what it has.
func (c *Collector) Lost(key string) bool { return c != nil && c.position(key) < c.kept }

// position returns how many keys the set takes before a key of it.
func (c *Collector) position(key string) (n int) {
	parts, at := c.claim.BySlot(), c.slot(key)
	for _, keys := range parts[:at] {
		n += len(keys)
	}
	for _, other := range parts[at] {
		if other < key {
			n++
		}
	}
	return n
}

// Patience returns for how long a call for keys of one slot may wait for its answer while the set has keys of
// others: as long as its turn, but long enough for a server that is far away.
func (c *Collector) Patience() time.Duration {
	if c == nil {
		return after
	}
	return max(c.turn.Until(), after/2)
}

// Score returns the score with which the set joins the queue of a key: the first that it had in a queue of
// the key's slot. Slots are apart because each may be on a server with a clock of its own.
func (c *Collector) Score(key string) int64 {
	if at := c.slot(key); at < len(c.scores) {
		return c.scores[at]
	}
	return 0
}

// Joined notes the score that the set has in the queue of a key.
func (c *Collector) Joined(key string, score int64) {
	if c.scores == nil {
		c.scores = make([]int64, len(c.claim.BySlot()))
	}
	if first := &c.scores[c.slot(key)]; *first == 0 {
		*first = score
	}
}

// slot returns the position of the slot of a key of the set.
func (c *Collector) slot(key string) int {
	if !c.claim.SpansSlots() {
		return 0
	}
	return slices.IndexFunc(c.claim.BySlot(), func(keys []string) bool { return slices.Contains(keys, key) })
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
	return min(c.turn, clock.Now().After(c.ttl/terms.Renewals))
}
