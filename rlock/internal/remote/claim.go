package remote

import (
	"slices"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/reaper"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// Claim is what one acquisition asks the server for, and what the server may still have of it:
// the keys, and the commands that got no answer. Nobody copies a Claim after its first use.
//
// One call at a time may acquire or hand over, and one at a time may release. Abandon may run
// beside either.
type Claim struct {
	key   [1]string // the first key. It is inline so that a Claim of one key needs no list.
	tally tally     // of a Claim whose keys one script frees
	more  *more     // nil: one key, and nothing special about it
}

// more is what only few Claims need. It is apart so that the others stay small.
type more struct {
	keys   []string // of a set, in the caller's order; nil: one key
	parts  []part   // of a set, by slot; nil: one script takes all keys
	chosen bool     // see Choose

	// Commands that may have taken the keys, or may still do so, because they got no answer.
	unanswered int
	token      string // that the last of them gives the keys
}

// part is what one slot has of a set.
type part struct {
	keys  []string
	tally tally
}

// tally is what the releases of some keys have done so far.
type tally struct {
	freed   int32
	perhaps bool // a release without an answer may have freed keys
}

// One returns the Claim of a key.
func One(key string) Claim { return Claim{key: [1]string{key}} }

// All returns the Claim of a set of keys. With crossSlot, on a cluster, they may be of several
// slots.
func (s *Server) All(keys []string, crossSlot bool) Claim {
	c := One(keys[0])
	if len(keys) == 1 {
		return c
	}
	c.more = &more{keys: keys}
	if !crossSlot || !s.cluster {
		return c
	}
	groups := slot.Groups(keys)
	if len(groups) == 1 {
		return c
	}
	c.more.parts = make([]part, len(groups))
	for i, keys := range groups {
		c.more.parts[i].keys = keys
	}
	return c
}

// needMore makes more.
func (c *Claim) needMore() *more {
	if c.more == nil {
		c.more = &more{}
	}
	return c.more
}

// Choose notes that the caller chose the token. Another acquisition with that token may then
// rightfully hold the keys, so the reaper does not free them.
func (c *Claim) Choose() { c.needMore().chosen = true }

// Chosen reports whether the caller chose the token.
func (c *Claim) Chosen() bool { return c.more != nil && c.more.chosen }

// Key returns the first key.
func (c *Claim) Key() string { return c.key[0] }

// IsSet reports whether there are several keys.
func (c *Claim) IsSet() bool { return c.more != nil && c.more.keys != nil }

// Keys returns all keys in the order in which the caller named them. Nobody may change the list.
func (c *Claim) Keys() []string {
	if !c.IsSet() {
		return c.key[:]
	}
	return c.more.keys
}

// Split reports whether the keys are of several slots, so that no script takes all of them.
func (c *Claim) Split() bool { return c.more != nil && c.more.parts != nil }

// Parts returns the keys of each call that is about all of them, in the order of slots.
func (c *Claim) Parts() [][]string {
	if !c.Split() {
		return [][]string{c.Keys()}
	}
	parts := make([][]string, len(c.more.parts))
	for i := range c.more.parts {
		parts[i] = c.more.parts[i].keys
	}
	return parts
}

// tallyOf returns the tally of the keys of a part.
func (c *Claim) tallyOf(i int) *tally {
	if !c.Split() {
		return &c.tally
	}
	return &c.more.parts[i].tally
}

// AddUnanswered notes that n commands which give the keys that token have got no answer, or have
// taken the keys for an acquisition that has failed.
func (c *Claim) AddUnanswered(token string, n int) {
	if n > 0 {
		m := c.needMore()
		m.token = token
		m.unanswered += n
	}
}

// Unanswered is how many commands may have taken the keys, or may still do so.
func (c *Claim) Unanswered() int {
	if c.more == nil {
		return 0
	}
	return c.more.unanswered
}

// Abandon has the reaper free the keys that have one of the tokens, because commands without an
// answer may have taken them or may still do so: those that the Claim knows of, and more. The
// longest lease that these could have started has that TTL.
func (s *Server) Abandon(c *Claim, tokens []string, ttl time.Duration, more int) {
	count := c.Unanswered() + more
	if c.Chosen() || count == 0 {
		return
	}
	if c.Unanswered() > 0 && !slices.Contains(tokens, c.more.token) {
		tokens = append(tokens[:len(tokens):len(tokens)], c.more.token)
	}
	for _, keys := range c.Parts() {
		for _, token := range tokens {
			s.reaper.Add(reaper.Item{Keys: keys, Token: token, Unanswered: count}, ttl)
		}
	}
}
