package rlock

import (
	"hash/maphash"
	"sync"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Locks returns the locks of this Locker that are held as far as this process can
// know without asking, however they were taken: those for which Lock.Valid is true.
// They come in no particular order. It is for looking, and for a shutdown that, once
// those who work under locks have stopped, frees what is left:
//
//	errs := locker.ReleaseEach(ctx, locker.Locks())
//	locker.Close()
//
// It is a snapshot: a call that is acquiring may get its lock right after. A lock
// whose key is gone from the server is in it until that is noticed (see Invalidations) or its
// lease ends. Once the Locker is closed there are none.
func (l *Locker) Locks() []*Lock {
	if l.usable() != nil {
		return nil
	}
	var held []*Lock
	for i := range l.registry.shards {
		held = l.registry.shards[i].valid(held)
	}
	return held
}

// registry lists the locks that are held. A lock is in it from its acquisition until it
// ends; one whose lease ends without anybody noticing is taken out later.
type registry struct {
	seed   maphash.Seed
	shards [16]registryShard
}

// registryShard is a list whose locks know their place in it. Its mutex is taken last.
type registryShard struct {
	mu    sync.Mutex
	locks []*Lock
	limit int // size at which locks are looked for whose lease has ended
}

func (r *registry) shard(l *Lock) *registryShard {
	return &r.shards[maphash.String(r.seed, l.claim.Key())%uint64(len(r.shards))]
}

func (r *registry) add(l *Lock) {
	s := r.shard(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	s.locks = append(s.locks, l)
	l.listed = uint32(len(s.locks))
}

func (r *registry) remove(l *Lock) {
	s := r.shard(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(l)
}

// remove takes a lock off the list, if it is on it: the last one gets its place. The
// caller holds mu.
func (s *registryShard) remove(l *Lock) {
	if l.listed == 0 {
		return
	}
	end := len(s.locks) - 1
	last := s.locks[end]
	s.locks[l.listed-1], last.listed = last, l.listed
	s.locks[end], s.locks = nil, s.locks[:end]
	l.listed = 0
}

// sweep takes off the locks whose lease has ended, for good as no extension revives
// one. It looks at all when there are twice as many as after the last time. The
// caller holds mu.
func (s *registryShard) sweep() {
	if len(s.locks) < s.limit {
		return
	}
	for i := len(s.locks) - 1; i >= 0; i-- {
		if s.locks[i].lease.Deadline() <= clock.Now() {
			s.remove(s.locks[i])
		}
	}
	s.limit = max(2*len(s.locks), 64)
}

func (s *registryShard) valid(held []*Lock) []*Lock {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.locks {
		if l.Valid() {
			held = append(held, l)
		}
	}
	return held
}
