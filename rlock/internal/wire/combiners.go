package wire

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

const (
	// shards is how many locks the combiners of a cluster have, so that callers of different slots seldom
	// wait for each other.
	shards = 64
	// sparePairs is how many pairs without calls a shard keeps at most, for the next slots.
	sparePairs = 8
	// fewSlots is in how many slots calls are under way at most while they wait for company. With more, the
	// scripts of a slot would be small, and nobody knows when a server is done that works for all of them.
	fewSlots = 4
)

// combiners has the pair of combiners that a call belongs to. Where there is no cluster, one pair has all
// calls. On a cluster the keys of a script are of one slot, so each slot with calls under way has a pair of
// its own: it is made for the first call, and dropped after the last.
type combiners struct {
	whole   *pair        // nil on a cluster
	shards  []shard      // each has the slots whose numbers leave the same remainder
	used    atomic.Int32 // slots with calls under way
	newPair func(tries, releases *sync.Mutex) *pair
}

// shard has the pairs of some slots. Its mutex is that of their combiners too.
type shard struct {
	all   *combiners
	mu    sync.Mutex
	slots map[uint16]*pair
	spare []*pair
}

// pair has the two combiners of a server, or of one slot of a cluster.
type pair struct {
	// calls is how many callers have entered and not left. Both combiners count: callers take and release
	// in turn, and those of one combiner alone are now many and now few.
	calls    atomic.Int64
	tries    tryCombiner
	releases releaseCombiner

	home  *shard // that has it; nil: it is for all slots
	slot  uint16
	used  bool // it is counted among those with calls under way
	pause int  // refusals for which it stays, because calls go by themselves for a while
}

// newCombiners returns combiners that send calls with tries and releases; see combiner.send.
func newCombiners(
	cluster bool,
	tries func(context.Context, []*member[tryCall, Answer]) error,
	releases func(context.Context, []*member[releaseCall, int64]) error,
) *combiners {
	// Members are of one server, because a channel that was made in a synctest bubble must stay there.
	spareTries, sparePasses := new(sync.Pool), new(sync.Pool)
	all := &combiners{newPair: func(triesMu, releasesMu *sync.Mutex) *pair {
		p := new(pair)
		p.tries = tryCombiner{send: tries, pair: p, mu: triesMu, spare: spareTries}
		p.releases = releaseCombiner{send: releases, pair: p, mu: releasesMu, spare: sparePasses}
		return p
	}}
	if !cluster {
		all.whole = all.newPair(new(sync.Mutex), new(sync.Mutex))
		return all
	}
	all.shards = make([]shard, shards)
	for i := range all.shards {
		all.shards[i].all, all.shards[i].slots = all, map[uint16]*pair{}
	}
	return all
}

// enter returns the pair for a key, and counts a caller. It calls leave when it has an answer, or gives up.
func (all *combiners) enter(key string) *pair {
	p := all.whole
	if p != nil {
		p.calls.Add(1)
		return p
	}
	n := slot.Of(key)
	s := &all.shards[n%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if p = s.slots[n]; p == nil {
		p = s.next()
		p.slot = n
		s.slots[n] = p
	}
	if !p.used {
		p.used = true
		all.used.Add(1)
	}
	p.calls.Add(1)
	return p
}

// next returns a pair for a slot that has none.
func (s *shard) next() *pair {
	last := len(s.spare) - 1
	if last < 0 {
		p := s.all.newPair(&s.mu, &s.mu)
		p.home = s
		return p
	}
	p := s.spare[last]
	s.spare = s.spare[:last]
	return p
}

// leave takes back what enter has counted.
func (p *pair) leave() {
	if p.calls.Add(-1) > 0 || p.home == nil {
		return
	}
	p.home.mu.Lock()
	defer p.home.mu.Unlock()
	p.rest()
}

// rest drops the pair of a slot after its last call. Callers may leave before their scripts have an answer,
// so that is when there are neither callers nor scripts. Whoever calls it has locked the mutex of the pair.
func (p *pair) rest() {
	if !p.used || p.calls.Load() > 0 || p.tries.underway > 0 || p.releases.underway > 0 {
		return
	}
	p.used = false
	p.home.all.used.Add(-1)
	p.drop()
}

// drop forgets the pair of a slot that has nothing to do, and no refusal to remember. Whoever still refers to
// it, such as a caller who is about to leave or a timer that is late, has the same mutex. If another slot has
// the pair by then, it does for that slot what is due, and otherwise nothing.
func (p *pair) drop() {
	s := p.home
	if p.used || p.pause > 0 {
		return
	}
	delete(s.slots, p.slot)
	if len(s.spare) < sparePairs {
		s.spare = append(s.spare, p)
	}
}

// keep has the pair of a slot stay for as long as calls go by themselves after a refusal, although there may
// be none: it must not forget that. Whoever calls it has locked the mutex of the pair.
func (p *pair) keep() {
	if p.home == nil {
		return
	}
	p.pause++
	time.AfterFunc(Patience, func() {
		p.home.mu.Lock()
		defer p.home.mu.Unlock()
		p.pause--
		p.drop()
	})
}

// amongMany reports whether calls of many slots are under way.
func (p *pair) amongMany() bool { return p.home != nil && p.home.all.used.Load() > fewSlots }
