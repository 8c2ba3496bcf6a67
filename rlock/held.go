package rlock

import (
	"hash/maphash"
	"sync"
)

// Held returns the locks of this Locker that are held as far as this process can
// know without asking, however they were taken: those for which Lock.Valid is true.
// They come in no particular order. It is for looking, and for a shutdown that
// frees what is left:
//
//	for _, lock := range locker.Held() {
//		err := lock.Release(ctx)
//		…
//	}
//	locker.Close()
//
// It is a snapshot: a call that is acquiring may get its lock right after. A lock
// whose key is gone from the server is in it until that is noticed (see Hook) or its
// lease ends. Once the Locker is closed there are none.
func (l *Locker) Held() []*Lock {
	var held []*Lock
	for i := range l.roll.shards {
		held = l.roll.shards[i].valid(held)
	}
	return held
}

// roll lists the locks that are held. A lock is on it from its acquisition until it
// ends; one whose lease ends without anybody noticing is taken off later.
type roll struct {
	seed   maphash.Seed
	shards [16]rollShard
}

// rollShard is a list that is linked through its locks, so that being on it costs
// no allocation. Its mutex is taken last.
type rollShard struct {
	mu    sync.Mutex
	first *Lock
	count int
	limit int // size at which locks are looked for whose lease has ended
}

func (r *roll) shard(l *Lock) *rollShard {
	return &r.shards[maphash.String(r.seed, l.token)%uint64(len(r.shards))]
}

func (r *roll) add(l *Lock) {
	s := r.shard(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	if s.first != nil {
		s.first.previous = l
	}
	l.next, s.first, l.listed = s.first, l, true
	s.count++
}

func (r *roll) remove(l *Lock) {
	s := r.shard(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unlink(l)
}

// unlink takes a lock off the list, if it is on it. The caller holds mu.
func (s *rollShard) unlink(l *Lock) {
	if !l.listed {
		return
	}
	if l.previous == nil {
		s.first = l.next
	} else {
		l.previous.next = l.next
	}
	if l.next != nil {
		l.next.previous = l.previous
	}
	l.next, l.previous, l.listed = nil, nil, false
	s.count--
}

// sweep takes off the locks whose lease has ended, for good as no extension revives
// one. It looks at all when there are twice as many as after the last time. The
// caller holds mu.
func (s *rollShard) sweep() {
	if s.count < s.limit {
		return
	}
	for l := s.first; l != nil; {
		next := l.next
		if instant(l.deadline.Load()) <= now() {
			s.unlink(l)
		}
		l = next
	}
	s.limit = max(2*s.count, 64)
}

func (s *rollShard) valid(held []*Lock) []*Lock {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := s.first; l != nil; l = l.next {
		if l.Valid() {
			held = append(held, l)
		}
	}
	return held
}
