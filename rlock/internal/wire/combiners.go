package wire

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

const (
	// shards is how many mutexes the combiners of a cluster have, so that callers of different slots seldom
	// wait for each other.
	shards = 64
	// sparePairs is how many pairs without calls a shard keeps for the next slots.
	sparePairs = 8
	// fewSlots is how many slots may have calls under way while calls wait for company. With more slots,
	// the scripts of each slot would be small. And no combiner knows when a server that works for many
	// slots is done.
	fewSlots = 4
)

// combiners has the pair of combiners for each call. Without a cluster, one pair has all calls. On a
// cluster the keys of a script are in one slot, so each slot with calls under way has its own pair. The
// first call of a slot makes the pair, and the last call drops it.
type combiners struct {
	whole   *pair        // nil on a cluster
	shards  []shard      // each shard has the slots with the same remainder
	used    atomic.Int32 // slots with calls under way
	newPair func(tries, releases *sync.Mutex) *pair
}

// shard has the pairs of some slots. The combiners of these pairs use its mutex too.
type shard struct {
	all   *combiners
	mu    sync.Mutex
	slots map[uint16]*pair
	spare []*pair
}

// pair has the two combiners of a server, or of one slot of a cluster.
type pair struct {
	// calls is how many callers have entered and not left. Both combiners count together: callers take and
	// release in turn, so the calls of one combiner alone are now many and now few.
	calls    atomic.Int64
	tries    tryCombiner
	releases releaseCombiner

	home  *shard // the shard of the pair; nil: the pair is for all slots
	slot  uint16
	used  bool // the slot counts as one with calls under way
	pause int  // how many refusals keep the pair, because calls go by themselves for a while
}

// newCombiners returns combiners that send calls with tries and releases: see combiner.send.
func newCombiners(
	cluster bool,
	tries func(context.Context, []*member[tryCall, Answer]) error,
	releases func(context.Context, []*member[releaseCall, int64]) error,
) *combiners {
	// Each server has its own spare members: a channel made in a synctest bubble must stay there.
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

// enter returns the pair for a key, and counts a caller. The caller calls leave when it has an answer, or
// gives up.
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

func (p *pair) leave() {
	if p.calls.Add(-1) > 0 || p.home == nil {
		return
	}
	p.home.mu.Lock()
	defer p.home.mu.Unlock()
	p.rest()
}

// rest drops the pair of a slot once it has neither callers nor scripts. Callers may leave before their
// scripts have an answer. The caller holds the mutex of the pair.
func (p *pair) rest() {
	if !p.used || p.calls.Load() > 0 || p.tries.underway > 0 || p.releases.underway > 0 {
		return
	}
	p.used = false
	p.home.all.used.Add(-1)
	p.drop()
}

// drop forgets the pair of a slot that has nothing to do and no refusal to remember. A leaving caller or a
// late timer may still refer to the pair, and uses the same mutex. If another slot has the pair by then,
// the caller or timer does what is due for that slot, or nothing.
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

// keep keeps the pair of a slot while calls go by themselves after a refusal. Without calls, the pair would
// be dropped and the refusal forgotten. The caller holds the mutex of the pair.
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

func (p *pair) amongMany() bool { return p.home != nil && p.home.all.used.Load() > fewSlots }
