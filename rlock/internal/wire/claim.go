package wire

import (
	"slices"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// Claim is what one acquisition asks the server for, and what the server may still have of it.
// Nobody copies a Claim after its first use.
//
// A Claim is settled while each command of it that may take keys, or a place in a queue, has an answer: then
// one answer to a release is the end of it. A command without an answer may come after any release, and so
// may one that user code has ended with a panic or runtime.Goexit.
//
// At most one acquisition, hand-over or release of it may run at a time. Abandon and FreeLater may run
// beside a release.
type Claim struct {
	key   [1]string // the first key. It is inline so that a Claim of one key needs no list.
	tally tally     // of a Claim whose keys one script frees
	rare  *rare     // nil: one key, and nothing special about it
}

// rare is what only few Claims need. It is apart so that the others stay small.
type rare struct {
	keys   []string // of a set, in the caller's order; nil: one key
	parts  []part   // of a set, by slot; nil: one script takes all keys
	chosen bool     // see Choose
	share  Share    // that it is of; the zero Share: the whole key

	loose string   // the token of commands without an answer; "": the Claim is settled
	joins []string // the keys in whose queues some of them have asked for places
}

// settle notes that the reaper looks after what the commands may have taken.
func (r *rare) settle() { r.loose, r.joins = "", nil }

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
// slots. At a backend they always are; the order is the same for all sets.
func (s *Server) All(keys []string, crossSlot bool) Claim {
	c := One(keys[0])
	if len(keys) == 1 {
		return c
	}
	c.rare = &rare{keys: keys}
	var groups [][]string
	switch {
	case s.backed:
		groups = slices.Collect(slices.Chunk(slices.Sorted(slices.Values(keys)), 1))
	case crossSlot && s.cluster:
		groups = slot.Groups(keys)
	default:
		return c
	}
	if len(groups) == 1 {
		return c
	}
	c.rare.parts = make([]part, len(groups))
	for i, keys := range groups {
		c.rare.parts[i].keys = keys
	}
	return c
}

// needRare makes rare.
func (c *Claim) needRare() *rare {
	if c.rare == nil {
		c.rare = &rare{}
	}
	return c.rare
}

// Choose notes that the caller chose the token. Another acquisition with that token may then
// rightfully hold the keys, so the reaper does not free them.
func (c *Claim) Choose() { c.needRare().chosen = true }

// Chosen reports whether the caller chose the token.
func (c *Claim) Chosen() bool { return c.rare != nil && c.rare.chosen }

// Key returns the first key.
func (c *Claim) Key() string { return c.key[0] }

// IsSet reports whether there are several keys.
func (c *Claim) IsSet() bool { return c.rare != nil && c.rare.keys != nil }

// Keys returns all keys in the order in which the caller named them. Nobody may change the list.
func (c *Claim) Keys() []string {
	if !c.IsSet() {
		return c.key[:]
	}
	return c.rare.keys
}

// SpansSlots reports whether the keys are in several slots, so that no script takes all of them.
func (c *Claim) SpansSlots() bool { return c.rare != nil && c.rare.parts != nil }

// BySlot returns the keys of each slot, in the order of slots, or all keys if one script takes them.
func (c *Claim) BySlot() [][]string {
	if !c.SpansSlots() {
		return [][]string{c.Keys()}
	}
	parts := make([][]string, len(c.rare.parts))
	for i := range c.rare.parts {
		parts[i] = c.rare.parts[i].keys
	}
	return parts
}

// tallyOf returns the tally of the keys of a part.
func (c *Claim) tallyOf(i int) *tally {
	if !c.SpansSlots() {
		return &c.tally
	}
	return &c.rare.parts[i].tally
}

// Unsettle notes that a command without an answer may have given the keys this token, or may still do so.
func (c *Claim) Unsettle(token string) { c.needRare().loose = token }

// UnsettlePlace notes that a command without an answer may have given the token the key or a place in its
// queue, or may still do so.
func (c *Claim) UnsettlePlace(key, token string) {
	c.Unsettle(token)
	c.rare.addJoin(key)
}

func (r *rare) addJoin(key string) {
	if !slices.Contains(r.joins, key) {
		r.joins = append(r.joins, key)
	}
}

// GoOn notes what commands for the token of another Claim may have done, because this one goes on with it.
func (c *Claim) GoOn(from *Claim) {
	if from.Settled() {
		return
	}
	c.Unsettle(from.rare.loose)
	for _, key := range from.rare.joins {
		c.rare.addJoin(key)
	}
}

// Settled reports whether no command can take the keys, or a place, without a holder who knows of it.
func (c *Claim) Settled() bool { return c.rare == nil || c.rare.loose == "" }

// Abandon has the reaper free the keys that have one of the tokens, or that of commands without an answer.
// ttl is the longest lease that such a command could have started. A join may have left a place too, and a
// command that replaces one of several tokens may come late.
func (s *Server) Abandon(c *Claim, tokens []string, ttl time.Duration) {
	if c.Chosen() {
		return
	}
	late := !c.Settled() || len(tokens) > 1
	if !c.Settled() && !slices.Contains(tokens, c.rare.loose) {
		tokens = append(tokens[:len(tokens):len(tokens)], c.rare.loose)
	}
	for _, keys := range c.BySlot() {
		for _, token := range tokens {
			s.reap(releaseCall{keys: keys, token: token, late: late}, ttl)
		}
	}
	if c.Settled() {
		return
	}
	for _, key := range c.rare.joins {
		s.reap(releaseCall{keys: []string{key}, token: c.rare.loose, waits: true, late: true}, placeStays)
	}
}

// abandonLate is Abandon for commands with a token that the lock has no longer: none of tokens.
func (s *Server) abandonLate(c *Claim, tokens []string) {
	if !c.Settled() && !slices.Contains(tokens, c.rare.loose) {
		s.Abandon(c, nil, clock.NoExpiry)
	}
}
