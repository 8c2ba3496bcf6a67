// Package registry has what is held, to list it.
//
// It does not know what that is: only when each of it is over at the latest.
package registry

import (
	"hash/maphash"
	"slices"
	"sync"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Item is held until its Deadline, or until it is removed. Its Deadline passes for good: it does
// not move once it has passed.
type Item interface {
	comparable
	Deadline() clock.Instant
	Entry() *Entry // which belongs to the Item: always the same, and no other's
}

// Entry is what a Registry keeps in each of its Items, so that it finds the Item again without a search. The
// zero Entry is in no Registry. The mutex of its shard guards it.
type Entry struct{ position uint32 } // in the shard, counted from 1

// Registry has Items from Add to Remove. It takes out later one whose Deadline passes without a
// Remove.
type Registry[T Item] struct {
	seed   maphash.Seed
	swept  func([]T)
	shards [16]shard[T]
}

// shard is a part of the Items. While it holds its mutex, it calls nothing but Deadline, Entry and what Each
// was given, so callers may hold a mutex of their own.
type shard[T Item] struct {
	mu    sync.Mutex
	items []T
	limit int // size at which Add looks for Items that are over
}

// Init makes a Registry ready. Its methods may be called from then on. swept is called, on a goroutine of its
// own, with Items that were taken out although nobody has removed them.
func (r *Registry[T]) Init(swept func([]T)) { r.seed, r.swept = maphash.MakeSeed(), swept }

func (r *Registry[T]) shard(item T) *shard[T] {
	return &r.shards[maphash.Comparable(r.seed, item)%uint64(len(r.shards))]
}

// Add adds an Item, unless it is in the Registry. Now and then it takes out those that are over: when there
// are twice as many as after the last time.
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

// remove takes out an Item of the shard. The last one gets its position. The caller holds mu.
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
	for _, item := range slices.Backward(s.items) { // so that what gets another position was looked at
		if item.Deadline() <= now {
			s.remove(item)
			over = append(over, item)
		}
	}
	s.limit = max(2*len(s.items), 64)
	return over
}

// Each calls f for each Item, in no particular order. Some may be over. f is called while a mutex is held: it
// must be quick, and not use the Registry.
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
