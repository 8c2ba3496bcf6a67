// Package collect decides how a waiting set goes on when a key is in its way, and gives back what the set
// has. It does not know who wants the set, or how an attempt is made. Way says how a set waits, and
// Collector what it has.
package collect

import (
	"context"
	"slices"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

const (
	// firstPatience is for how long a set keeps keys the first time. Each later time is twice as long,
	// because the set may wait for a job that lasts longer.
	firstPatience = 10 * time.Second

	// soon is when a set tries again after it has given back its keys because a server did not answer.
	soon = 2 * time.Second

	// Patience is for how long a call for keys of one slot may wait for its answer. Meanwhile the set may
	// have keys of other slots.
	Patience = 2 * time.Second
)

// Server gives back keys, as wire.Server does.
type Server interface {
	RollBack(ctx context.Context, c *wire.Claim, parts [][]string, r wire.Request)
}

// Way says how a set takes its keys. The zero Way is for a set that has not waited yet.
//
// A set first tries to take all its keys at once. If a key is in its way, it waits in the queue of that key
// and holds nothing. So it blocks no other caller meanwhile. Once it gets that key, it tries to take the
// others with it. If another key is in its way, the set gives the first key back and waits for the other.
//
// Locks of the single keys may never leave all keys free at the same time. So a set that meets a key for
// which it has waited already changes its way. It takes its keys one after the other, in the order of their
// names, and keeps what it gets. Because of the order, two sets cannot block each other.
type Way struct {
	met     []string // the keys for which it has waited; it waits for the last one
	inOrder bool     // it takes its keys one after the other, and keeps what it gets
}

// Meets returns how the set goes on after it has tried to take all its keys and found key in its way. key
// may again be the key for which it waits, since other callers take that key too.
func (w Way) Meets(key string) Way {
	last := len(w.met) - 1
	switch at := slices.Index(w.met, key); {
	case w.inOrder || at >= 0 && at == last:
	case at >= 0:
		w.inOrder = true
	default:
		w.met = append(w.met[:last+1:last+1], key)
	}
	return w
}

// InOrder reports whether the set takes its keys one after the other.
func (w Way) InOrder() bool { return w.inOrder }

// Collector is for one waiting set. A nil Collector is for a set that has not met a key yet.
//
// The set joins all queues of a slot with one score, the score of its first place there. So it does not
// begin to wait anew with each key. A key that it keeps stands idle only as long as the callers before it
// need.
//
// A set that keeps keys, and a caller who takes one lock while holding another, can block each other. So
// the set gives back what it keeps if it has not got all keys after a while, and begins anew.
type Collector struct {
	server   Server
	claim    *wire.Claim
	ttl      time.Duration
	way      Way
	keys     []string      // sorted, if the set takes them in order; otherwise nil
	patience time.Duration // for how long the set keeps keys in order the next time
	turn     clock.Instant // when it gives its keys back or, if it has none, the latest time to try again
	scores   []int64       // by slot, the first score in a queue of the slot; 0: none

	kept   int  // how many keys, in the order in which they are taken, had the token by some answer
	unsure bool // other keys may have the token: an attempt is under way, or has failed
}

// New returns the Collector of a claim with a lease of ttl.
func New(s Server, c *wire.Claim, ttl time.Duration) *Collector {
	return &Collector{server: s, claim: c, ttl: ttl, patience: firstPatience, turn: clock.Never}
}

// Meets notes that an attempt to take all keys has found key in its way. It reports whether the set takes
// its keys in order from now on. Some of the keys may be free.
func (c *Collector) Meets(key string) (begun bool) {
	c.way, c.turn = c.way.Meets(key), clock.Never
	if !c.way.InOrder() {
		return false
	}
	c.keys = slices.Sorted(slices.Values(c.claim.Keys()))
	c.turn, c.patience = clock.Now().After(c.patience), 2*c.patience
	return true
}

// Over reports whether the set has kept keys for long enough.
func (c *Collector) Over() bool { return c != nil && c.keys != nil && clock.Now() >= c.turn }

// BeginAnew gives back the keys that token may have, and makes the set take all keys at once again. Then
// later attempts need another token. A release without an answer may still run, and the reaper repeats it.
// Neither may free what a later attempt takes.
func (c *Collector) BeginAnew(ctx context.Context, token string) (anew bool) {
	if c == nil || c.keys == nil && !c.Has() {
		return false
	}
	c.GiveBack(ctx, token)
	c.way, c.keys, c.turn = Way{}, nil, clock.Now().After(soon)
	return true
}

// GiveBack gives back the keys that token has. A silent server delays the set only for Patience, and the
// reaper goes on then. Later attempts need another token.
func (c *Collector) GiveBack(ctx context.Context, token string) {
	ctx, end := clock.Within(ctx, Patience)
	defer end()
	c.server.RollBack(ctx, c.claim, c.claim.BySlot(), wire.Request{Token: token, TTL: c.ttl})
	c.kept, c.unsure = 0, false
}

// Asks notes that an attempt may take keys. The caller calls Asks before the attempt, and passes the result
// to Blocked. Until the answer, the set may have any of its keys.
func (c *Collector) Asks() (unsure bool) {
	if c == nil || c.keys == nil {
		return false
	}
	unsure, c.unsure = c.unsure, true
	return unsure
}

// Blocked notes that an attempt has ended at a held key. kept is how many keys it has found or made the
// set's. unsure is what Asks has returned.
func (c *Collector) Blocked(unsure bool, kept int) {
	if c != nil {
		c.unsure, c.kept = unsure, max(c.kept, kept)
	}
}

// Got notes that the set has got a key in the queue of that key.
func (c *Collector) Got(key string) { c.kept = max(c.kept, c.position(key)+1) }

// Has reports whether the set has some of its keys, or may have.
func (c *Collector) Has() bool { return c != nil && (c.unsure || c.kept > 0) }

// Lost reports whether the set has lost keys: an attempt has ended at key, but the set had key, or a key
// after it. The set would get keys out of order, so it must give back what it has.
func (c *Collector) Lost(key string) bool { return c != nil && c.position(key) < c.kept }

// position returns how many keys the set takes before key.
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

// Score returns the score with which the set joins the queue of a key. It is the first score that the set
// had in a queue of the key's slot. Each slot may be on a server with a clock of its own, so each slot has
// its own score.
func (c *Collector) Score(key string) int64 {
	if at := c.slot(key); at < len(c.scores) {
		return c.scores[at]
	}
	return 0
}

// Joined notes the score of the set in the queue of a key.
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

// Keys returns the keys for the next attempt to keep one by one. It returns nil if the attempt takes all or
// none.
func (c *Collector) Keys() []string {
	if c == nil {
		return nil
	}
	return c.keys
}

// End returns the latest time to try again. The keys that the set has must not expire before that.
func (c *Collector) End() clock.Instant {
	switch {
	case c == nil:
		return clock.Never
	case c.keys == nil || c.ttl == clock.NoExpiry:
		return c.turn
	}
	return min(c.turn, clock.Now().After(c.ttl/terms.Renewals))
}
