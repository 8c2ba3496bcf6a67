// Package collect decides how a set that waits goes on when a key is in its way, and gives back what it has.
//
// A set first tries to take all its keys at once. If a key is in its way, the set waits in the queue of that
// key, and holds nothing: so it keeps nobody from its other keys meanwhile. When it is granted that key, it
// tries to take the others with it. If another one is in its way, it gives the first back and waits for that
// one. Among locks of its single keys, which are never all free at the same time, that alone would go on for
// ever. So a set that meets a key for which it has waited already takes its keys one after the other, in the
// order of their names, and keeps what it gets. Two sets cannot block each other, because of the order.
//
// In each queue of a slot the set has the score with which it joined the first of them: it does not begin to
// wait anew with each key, and what it keeps stands idle for no longer than those take who came before it.
//
// A set that keeps keys and a caller who takes one lock while holding another can block each other. So the
// set gives back what it keeps if it has not got all its keys after a while, and begins anew.
//
// The package does not know who wants the set, or how an attempt is made.
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
	// firstPatience is for how long a set keeps keys the first time. Each time after it is twice as long,
	// because the set may wait for a job that lasts longer.
	firstPatience = 10 * time.Second

	// soon is after which time a set tries again that has given back its keys because a server did not answer.
	soon = 2 * time.Second

	// Patience is for how long a call for keys of one slot may wait for its answer while the set has keys of
	// others.
	Patience = 2 * time.Second
)

// Server gives back keys, as wire.Server does.
type Server interface {
	RollBack(ctx context.Context, c *wire.Claim, parts [][]string, r wire.Request)
}

// Way is how a set takes its keys. The zero Way is that of a set that has not waited yet.
type Way struct {
	met     []string // the keys that it has waited for; it waits for the last
	inOrder bool     // it takes them one after the other, and keeps what it gets
}

// Meets returns how the set goes on that has tried to take all its keys and has found one in its way. That may be
// the one for which it waits, again, since others take that one too.
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

// Collector is for one set that waits. A nil Collector is that of a set that has not met a key yet.
type Collector struct {
	server   Server
	claim    *wire.Claim
	ttl      time.Duration
	way      Way
	keys     []string      // sorted, if it takes them in order
	patience time.Duration // for how long it keeps keys in order the next time
	turn     clock.Instant // when it gives them back or, if it has none, tries again at the latest
	scores   []int64       // the first in a queue of each slot; 0: none

	kept   int  // so many keys, in the order in which they are taken, an answer said to have the token
	unsure bool // others may have it: an attempt is under way, or has failed
}

// New returns the Collector of a claim with a lease of ttl.
func New(s Server, c *wire.Claim, ttl time.Duration) *Collector {
	return &Collector{server: s, claim: c, ttl: ttl, patience: firstPatience, turn: clock.Never}
}

// Meets notes that an attempt to take all keys has found one in its way. It reports whether the set takes its
// keys in order from now on; some of them may be free.
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

// BeginAnew gives back the keys that token has, if there may be any, and has the set take all of them at
// once again. Later attempts need another token then: a release without an answer may still run, and the
// reaper repeats it, and neither may free what a later attempt takes.
func (c *Collector) BeginAnew(ctx context.Context, token string) (anew bool) {
	if c == nil || c.keys == nil && !c.Has() {
		return false
	}
	c.GiveBack(ctx, token)
	c.way, c.keys, c.turn = Way{}, nil, clock.Now().After(soon)
	return true
}

// GiveBack gives back the keys that token has. A server that does not answer cannot hold the set up for
// long; the reaper goes on then. Later attempts need another token.
func (c *Collector) GiveBack(ctx context.Context, token string) {
	ctx, end := clock.Within(ctx, Patience)
	defer end()
	c.server.RollBack(ctx, c.claim, c.claim.BySlot(), wire.Request{Token: token, TTL: c.ttl})
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
