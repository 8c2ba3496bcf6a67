package rlock

import (
	"context"
	"slices"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/events"
)

// observe returns the data of a Lock for the observer of a call that began at start. Until the call returns,
// only the goroutine of the caller tells the events: a panic must not occur in another goroutine.
func observe(ctx context.Context, o Observer, start clock.Instant) *observed {
	if o == nil {
		return nil
	}
	observed := &observed{since: start}
	observed.list.Begin(ctx, o)
	return observed
}

// emit counts an event and puts it on the list, with the facts that the lock knows. The caller holds mu, or
// is the acquisition, or the Release that has ended the lock.
func (l *Lock) emit(e *Event) {
	l.locker.counters.count(e)
	o := l.events
	if o == nil {
		return
	}
	e.Keys, e.Attempts = l.claim.Keys(), int(l.attempts)
	if e.Key == "" {
		e.Key = l.claim.Key()
	}
	now := clock.Now()
	passed := time.Duration(now - o.since)
	switch e.Kind {
	case EventContended, EventAcquireFailed:
		e.Waited = passed
	case EventAcquired, EventAttached:
		e.Waited, o.since = passed, now
		e.Fence = l.fence
	default:
		e.Held, e.Fence = passed, l.fence
	}
	if l.stateNow() == stateHeld {
		e.Remaining = max(l.deadline().Until(), 0)
	}
	o.list.Add(*e)
	if state := l.stateNow(); state > stateReleased || state == stateHeld {
		l.lease.mustTell(o)
	}
}

// emitOnce emits the events that come once for a Locker, with the first lock that has an observer and the
// condition. The caller holds mu.
func (l *Lock) emitOnce() {
	s := l.locker
	if l.extends() && !s.toldShort.Load() {
		if short := s.timeOuts.Short(l.terms.TTL()); short != nil && !s.toldShort.Swap(true) {
			l.emit(&Event{Kind: EventShortLease, Err: short})
		}
	}
	if s.wire.Queues().Used() || s.toldPolling.Load() {
		return
	}
	if refusal := s.wire.Queues().Refusal(); refusal != nil && !s.toldPolling.Swap(true) {
		l.emit(&Event{Kind: EventPolling, Err: &LockError{"queue", l.claim.Key(), refusal}})
	}
}

// deliver tells the observer the events of the lock. If another goroutine is telling, that goroutine tells
// them. Another goroutine tells the observers of other users of the lease, because one of them may take long.
// The caller holds no mutex.
func (l *Lock) deliver() {
	if l == nil || l.lease == nil || l.events == nil && !l.claim.IsShare() { // only a share has other users
		return
	}
	others := slices.DeleteFunc(l.toTell(), func(o *observed) bool { return o == l.events })
	if len(others) > 0 {
		go events.Each(others, (*observed).deliver)
	}
	l.events.deliver()
}

// deliver tells the observer, unless another goroutine is telling.
func (o *observed) deliver() {
	if o != nil {
		o.list.Deliver()
	}
}

// tell tells the observer of a call under way. With keep, the caller goes on telling.
func (o *observed) tell(keep bool) {
	if o != nil {
		o.list.Tell(keep)
	}
}

// deliver tells the observers of all Locks with new events. The caller holds no mutex.
func (s *lease) deliver() { events.Each(s.toTell(), (*observed).deliver) }

// mustTell notes that an observer has new events. A lock with an observer is watched. The caller holds mu.
func (s *lease) mustTell(o *observed) {
	if !o.listed {
		o.listed, o.next, s.observers = true, s.observers, o
	}
}

// toTell takes the observers with new events.
func (s *lease) toTell() (told []*observed) {
	s.mu.Lock()
	defer s.unlock()
	if s.watch == nil {
		return nil
	}
	for o := s.observers; o != nil; {
		told = append(told, o)
		o.listed, o.next, o = false, nil, o.next
	}
	s.observers = nil
	return told
}
