// Package registry has what is held, to list it.
//
// It does not know what that is: only when each of it is over at the latest.
package registry

import (
	"hash/maphash"
	"sync"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Item is held until its Deadline, or until it is removed. Its Deadline passes for good: it does
// not move once it has passed.
type Item[T any] interface {
	comparable
	Deadline() clock.Instant
	Entry() *Entry[T] // which belongs to the Item, and always the same
}

// Entry is what a Registry keeps in each of its Items, so that one that comes or goes costs neither memory
// nor a search. The zero Entry is in no Registry.
type Entry[T any] struct{ before, after T }

// Registry has Items from Add to Remove. It takes out later one whose Deadline passes without a
// Remove.
type Registry[T Item[T]] struct {
	seed   maphash.Seed
	shards [16]shard[T]
}

// shard is a part of the Items. While it holds its mutex, it calls nothing but Deadline and Entry, so
// callers may hold a mutex of their own.
type shard[T Item[T]] struct {
	mu    sync.Mutex
	first T // the zero value: there is none
	size  int
	limit int // size at which Add looks for Items that are over
}

// Init makes a Registry ready. Its methods may be called from then on.
func (r *Registry[T]) Init() { r.seed = maphash.MakeSeed() }

func (r *Registry[T]) shard(item T) *shard[T] {
	return &r.shards[maphash.Comparable(r.seed, item)%uint64(len(r.shards))]
}

// Add adds an Item. Now and then it takes out those that are over: when there are twice as many as
// after the last time.
func (r *Registry[T]) Add(item T) {
	s := r.shard(item)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has(item) {
		return
	}
	if s.size >= s.limit {
		s.sweep()
	}
	var none T
	if item.Entry().after = s.first; s.first != none {
		s.first.Entry().before = item
	}
	s.first = item
	s.size++
}

// Remove takes an Item out, if it is in the Registry.
func (r *Registry[T]) Remove(item T) {
	s := r.shard(item)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has(item) {
		s.remove(item)
	}
}

// has reports whether an Item is in the shard. The caller holds mu.
func (s *shard[T]) has(item T) bool {
	var none T
	return s.first == item || item.Entry().before != none
}

// remove takes out an Item of the shard. The caller holds mu.
func (s *shard[T]) remove(item T) {
	var none T
	e := item.Entry()
	if e.before == none {
		s.first = e.after
	} else {
		e.before.Entry().after = e.after
	}
	if e.after != none {
		e.after.Entry().before = e.before
	}
	*e = Entry[T]{}
	s.size--
}

// sweep takes out the Items that are over. The caller holds mu.
func (s *shard[T]) sweep() {
	now := clock.Now()
	s.each(func(item T) {
		if item.Deadline() <= now {
			s.remove(item)
		}
	})
	s.limit = max(2*s.size, 64)
}

// each calls do with each Item, which do may remove. The caller holds mu.
func (s *shard[T]) each(do func(item T)) {
	var none T
	for item := s.first; item != none; {
		after := item.Entry().after
		do(item)
		item = after
	}
}

// All returns the Items, in no particular order. Some may be over.
func (r *Registry[T]) All() (all []T) {
	for i := range r.shards {
		all = r.shards[i].appendTo(all)
	}
	return all
}

// Count returns how many Items are not over.
func (r *Registry[T]) Count() (n int) {
	now := clock.Now()
	for i := range r.shards {
		n += r.shards[i].count(now)
	}
	return n
}

func (s *shard[T]) count(now clock.Instant) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.each(func(item T) {
		if item.Deadline() > now {
			n++
		}
	})
	return n
}

func (s *shard[T]) appendTo(all []T) []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.each(func(item T) { all = append(all, item) })
	return all
}
