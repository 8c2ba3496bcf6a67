package wire

import (
	"slices"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// Claim is what one acquisition asks the server for, and what the server may still have of it. A Claim must
// not be copied after its first use.
//
// A Claim is settled while it has an answer to each command that may take keys, or a place in a queue. Then
// one answer to a release ends the Claim. A command without an answer may reach the server after any
// release. The same holds for a command that user code has ended with a panic or runtime.Goexit.
//
// Only one acquisition, hand-over or release of a Claim may run at a time. Abandon and FreeLater may run
// beside a release.
type Claim struct {
	key   [1]string // the first key; inline, so that a Claim of one key needs no list
	tally tally     // of a Claim whose keys one script frees
	rare  *rare     // nil: one key, with nothing special about it
}

// rare has what only few Claims need. It is apart, so that other Claims stay small.
type rare struct {
	keys   []string // of a set, in the caller's order; nil: one key
	parts  []part   // of a set, by slot; nil: one script takes all keys
	chosen bool     // see Choose
	share  Share    // the share that the Claim asks for; the zero Share: the whole key

	loose string   // the token of commands without an answer; "": the Claim is settled
	joins []string // the keys in whose queues these commands have asked for places
}

// settle notes that the reaper frees what the commands may have taken.
func (r *rare) settle() { r.loose, r.joins = "", nil }

// part has the keys of a set that are in one slot.
type part struct {
	keys  []string
	tally tally
}

// tally says what the releases of some keys have done so far.
type tally struct {
	freed   int32
	perhaps bool // a release without an answer may have freed keys
}

// One returns the Claim of one key.
func One(key string) Claim { return Claim{key: [1]string{key}} }

// All returns the Claim of a set of keys. With crossSlot, the keys may be in several slots of a cluster. At
// a backend each key is a slot of its own. The slots have the same order for all sets.
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

func (c *Claim) needRare() *rare {
	if c.rare == nil {
		c.rare = &rare{}
	}
	return c.rare
}

// Choose notes that the caller chose the token. Another acquisition with that token may hold the keys
// rightfully, so the reaper does not free them.
func (c *Claim) Choose() { c.needRare().chosen = true }

// Chosen reports whether the caller chose the token.
func (c *Claim) Chosen() bool { return c.rare != nil && c.rare.chosen }

// Key returns the first key.
func (c *Claim) Key() string { return c.key[0] }

// IsSet reports whether there are several keys.
func (c *Claim) IsSet() bool { return c.rare != nil && c.rare.keys != nil }

// Keys returns all keys in the order of the caller. The list must not be changed.
func (c *Claim) Keys() []string {
	if !c.IsSet() {
		return c.key[:]
	}
	return c.rare.keys
}

// SpansSlots reports whether the keys are in several slots, so that no script can take all of them.
func (c *Claim) SpansSlots() bool { return c.rare != nil && c.rare.parts != nil }

// BySlot returns the keys of each slot, in the order of the slots. If one script takes all keys, it returns
// one list.
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

func (c *Claim) tallyOf(i int) *tally {
	if !c.SpansSlots() {
		return &c.tally
	}
	return &c.rare.parts[i].tally
}

// Unsettle notes that a command without an answer may give the token the keys, now or later.
func (c *Claim) Unsettle(token string) { c.needRare().loose = token }

// UnsettlePlace notes that a command without an answer may give the token the key or a place in its queue,
// now or later.
func (c *Claim) UnsettlePlace(key, token string) {
	c.Unsettle(token)
	c.rare.addJoin(key)
}

func (r *rare) addJoin(key string) {
	if !slices.Contains(r.joins, key) {
		r.joins = append(r.joins, key)
	}
}

// GoOn takes over what commands for the token of from may have done, because c goes on with that token.
func (c *Claim) GoOn(from *Claim) {
	if from.Settled() {
		return
	}
	c.Unsettle(from.rare.loose)
	for _, key := range from.rare.joins {
		c.rare.addJoin(key)
	}
}

// Settled reports whether every command that may take the keys or a place has an answer.
func (c *Claim) Settled() bool { return c.rare == nil || c.rare.loose == "" }

// Abandon makes the reaper free the keys that have one of the tokens, or the token of commands without an
// answer. ttl is the longest lease that a command without an answer can have started. The reaper also frees
// a place that a join may have left, and expects late commands that replace one of several tokens.
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

// abandonLate calls Abandon for a token of commands without an answer, if the lock no longer has that
// token.
func (s *Server) abandonLate(c *Claim, tokens []string) {
	if !c.Settled() && !slices.Contains(tokens, c.rare.loose) {
		s.Abandon(c, nil, clock.NoExpiry)
	}
}
