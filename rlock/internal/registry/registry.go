// Package registry has what is held, to list it.
//
// It does not know what that is: only when each of it is over at the latest.
package registry

import (
	"hash/maphash"
	"maps"
	"sync"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Item is held until its Deadline, or until it is removed. Its Deadline passes for good: it does
// not move once it has passed.
type Item interface {
	comparable
	Deadline() clock.Instant
}

// Registry has Items from Add to Remove. It takes out later one whose Deadline passes without a
// Remove.
type Registry[T Item] struct {
	seed   maphash.Seed
	shards [16]shard[T]
}

// shard is a part of the Items. While it holds its mutex, it calls nothing but Deadline, so callers
// may hold a mutex of their own.
type shard[T Item] struct {
	mu    sync.Mutex
	items map[T]struct{}
	limit int // size at which add looks for Items that are over
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
	if len(s.items) >= s.limit {
		maps.DeleteFunc(s.items, func(item T, _ struct{}) bool { return item.Deadline() <= clock.Now() })
		s.limit = max(2*len(s.items), 64)
	}
	if s.items == nil {
		s.items = map[T]struct{}{}
	}
	s.items[item] = struct{}{}
}

// Remove takes an Item out, if it is in the Registry.
func (r *Registry[T]) Remove(item T) {
	s := r.shard(item)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.items, item)
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
	for item := range s.items {
		if item.Deadline() > now {
			n++
		}
	}
	return n
}

func (s *shard[T]) appendTo(all []T) []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	for item := range s.items {
		all = append(all, item)
	}
	return all
}
