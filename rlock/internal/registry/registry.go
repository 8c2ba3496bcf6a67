// Package registry lists what is held. It does not know what an Item is. It knows only the latest time at
// which each Item is over.
package registry

import (
	"hash/maphash"
	"slices"
	"sync"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Item is held until its Deadline, or until it is removed. Once a Deadline has passed, it does not move.
type Item interface {
	comparable
	Deadline() clock.Instant
	Entry() *Entry // the Entry of this Item, always the same
}

// Entry is what a Registry keeps in each Item, so that it finds the Item without a search. The zero Entry
// is in no Registry. The mutex of its shard guards it.
type Entry struct{ position uint32 } // in the shard, counted from 1

// Registry has Items from Add to Remove. If a Deadline passes without a Remove, it takes the Item out
// later.
type Registry[T Item] struct {
	seed   maphash.Seed
	swept  func([]T)
	shards [16]shard[T]
}

// shard has a part of the Items. While a goroutine holds the mutex, it calls only Deadline, Entry and the f
// of Each. So its caller may hold a mutex of its own.
type shard[T Item] struct {
	mu    sync.Mutex
	items []T
	limit int // the size at which Add looks for Items that are over
}

// Init makes a Registry ready. Call it before the other methods. The Registry calls swept on a goroutine of
// its own, with Items that it has taken out without a Remove.
func (r *Registry[T]) Init(swept func([]T)) { r.seed, r.swept = maphash.MakeSeed(), swept }

func (r *Registry[T]) shard(item T) *shard[T] {
	return &r.shards[maphash.Comparable(r.seed, item)%uint64(len(r.shards))]
}

// Add adds an Item, unless it is in the Registry. When the number of Items has doubled since the last time,
// Add takes out the Items that are over.
func (r *Registry[T]) Add(item T) {
	s := r.shard(item)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.items) >= s.limit {
		if over := s.sweep(); len(over) > 0 {
			go r.swept(over)
		}
	}
	if e := item.Entry(); e.position == 0 {
		s.items = append(s.items, item)
		e.position = uint32(len(s.items))
	}
}

// Remove takes an Item out, if it is in the Registry.
func (r *Registry[T]) Remove(item T) {
	s := r.shard(item)
	s.mu.Lock()
	defer s.mu.Unlock()
	if item.Entry().position != 0 {
		s.remove(item)
	}
}

// remove takes an Item out of the shard. The last Item gets its position. The caller holds mu.
func (s *shard[T]) remove(item T) {
	e, end := item.Entry(), len(s.items)-1
	last := s.items[end]
	s.items[e.position-1], last.Entry().position = last, e.position
	e.position = 0
	var none T
	s.items[end] = none
	if s.items = s.items[:end]; cap(s.items) > 64 && end < cap(s.items)/4 {
		s.items = append(make([]T, 0, 2*end), s.items...)
	}
}

// sweep takes out the Items that are over, and returns them. The caller holds mu.
func (s *shard[T]) sweep() (over []T) {
	now := clock.Now()
	for _, item := range slices.Backward(s.items) { // backward, so that an Item that moves was looked at before
		if item.Deadline() <= now {
			s.remove(item)
			over = append(over, item)
		}
	}
	s.limit = max(2*len(s.items), 64)
	return over
}

// Each calls f for each Item, in no particular order. Some Items may be over. A mutex is held meanwhile: f
// must be quick, and must not use the Registry.
func (r *Registry[T]) Each(f func(T)) {
	for i := range r.shards {
		r.shards[i].each(f)
	}
}

func (s *shard[T]) each(f func(T)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, item := range s.items {
		f(item)
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
	for _, item := range s.items {
		if item.Deadline() > now {
			n++
		}
	}
	return n
}

func (s *shard[T]) appendTo(all []T) []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(all, s.items...)
}
