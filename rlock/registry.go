package rlock

import (
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/events"
	"github.com/rlock-go/toolkit/rlock/internal/registry"
)

// holder is a lock that is held, as the registry knows it.
type holder Lock

// Deadline is when the lock ends at the latest.
func (h *holder) Deadline() clock.Instant { return (*Lock)(h).deadline() }

// Entry is its place in the registry of the Locker.
func (h *holder) Entry() *registry.Entry { return &h.listed }

// Locks returns the locks of this Locker that are Valid now, in no particular order. It is for looking,
// and for a shutdown that frees what is left once those who work under locks have stopped:
//
//	errs := locker.ReleaseEach(ctx, locker.Locks())
//	locker.Close()
//
// It is a snapshot: a call that is acquiring may get its lock right after. A closed Locker has none.
func (l *Locker) Locks() []*Lock {
	if l.usable() != nil {
		return nil
	}
	var held []*Lock
	for _, h := range l.registry.All() {
		if lock := (*Lock)(h); lock.Valid() {
			held = append(held, lock)
		}
	}
	return held
}

// eachLock calls do for the locks of a Locker that are meant, with mu held. Their observers are told after
// that, because one of them may take long or end the goroutine.
func eachLock(l *Locker, meant func(*Lock) bool, do func(*Lock)) {
	var done []*Lock
	defer func() { events.Each(done, (*Lock).deliver) }()
	events.Each(l.registry.All(), func(item *holder) {
		lock := (*Lock)(item)
		lock.mu.Lock()
		defer lock.unlock()
		if meant(lock) {
			done = append(done, lock) // first, because do may panic
			do(lock)
		}
	})
}
