package rlock

import (
	"hash/maphash"
	"maps"
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

// registry has the locks that are held. A lock is in it from its acquisition until it
// ends; one whose lease ends without anybody noticing is taken out later.
type registry struct {
	seed   maphash.Seed
	shards [16]registryShard
}

// registryShard is a set of locks. Its mutex is taken last.
type registryShard struct {
	mu    sync.Mutex
	locks map[*Lock]struct{}
	limit int // size at which add looks for locks whose lease has ended
}

func (r *registry) shard(l *Lock) *registryShard {
	return &r.shards[maphash.Comparable(r.seed, l)%uint64(len(r.shards))]
}

// add also takes out the locks whose lease has ended, for good as no extension revives one. It
// looks at all when there are twice as many as after the last time.
func (r *registry) add(l *Lock) {
	s := r.shard(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.locks) >= s.limit {
		maps.DeleteFunc(s.locks, func(l *Lock, _ struct{}) bool { return l.lease.Deadline() <= clock.Now() })
		s.limit = max(2*len(s.locks), 64)
	}
	if s.locks == nil {
		s.locks = map[*Lock]struct{}{}
	}
	s.locks[l] = struct{}{}
}

func (r *registry) remove(l *Lock) {
	s := r.shard(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.locks, l)
}

// valid appends the locks that are valid to held.
func (s *registryShard) valid(held []*Lock) []*Lock {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := range s.locks {
		if l.Valid() {
			held = append(held, l)
		}
	}
	return held
}
