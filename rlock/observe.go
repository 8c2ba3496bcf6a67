package rlock

import (
	"context"
	"sync"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// observed is what a Lock keeps for its observer. Events are put in a list where they
// happen, often under the lock's mutex, and told later with no mutex held, in order:
// so the observer may call the lock, and when it panics nothing is half done. A nil observed
// has no observer.
type observed struct {
	observer Observer
	ctx      context.Context // that the lock was acquired with
	since    clock.Instant   // when the call began, then when the lock was held

	mu      sync.Mutex
	events  []Event // to be told
	telling bool    // a goroutine is telling them
}

// observe returns what a Lock keeps for an observer of a call that began at start. Until that
// call returns, the caller's goroutine alone tells the events: a panic must not end up in
// another one.
func observe(ctx context.Context, o Observer, start clock.Instant) *observed {
	if o == nil {
		return nil
	}
	return &observed{observer: o, ctx: ctx, since: start, telling: true}
}

// emit counts an event and puts it on the list, with what the lock knows of it. The caller holds
// mu, or is the acquisition or the Release that has ended the lock.
func (l *Lock) emit(e Event) {
	l.locker.counters.count(e)
	o := l.events
	if o == nil {
		return
	}
	e.Keys, e.Attempts = l.claim.Keys(), l.Attempts()
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
		e.Remaining = max(l.lease.Deadline().Until(), 0)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, e)
}

// deliver tells the observer what has happened to the lock, unless another goroutine is
// at it, which then tells this too. The caller holds no mutex.
func (l *Lock) deliver() { l.events.deliver() }

func (o *observed) deliver() {
	if o == nil {
		return
	}
	o.mu.Lock()
	idle := !o.telling
	o.telling = true
	o.mu.Unlock()
	if idle {
		o.tell(false)
	}
}

// tell tells the observer all events of the list. Only the goroutine that set telling may call it;
// with keep, it stays the one that tells. If the observer panics or calls runtime.Goexit, tell
// tells the remaining events while the stack unwinds.
func (o *observed) tell(keep bool) {
	if o == nil {
		return
	}
	returned := false
	defer func() {
		if !returned {
			o.tell(keep)
		}
	}()
	for {
		e, ok := o.next(keep)
		if !ok {
			returned = true
			return
		}
		o.observer.Observe(o.ctx, e)
	}
}

// next takes an event off the list. When there is none, this goroutine is not telling
// any more, unless it is to keep doing so.
func (o *observed) next(keep bool) (e Event, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.events) == 0 {
		o.events, o.telling = nil, keep
		return Event{}, false
	}
	e = o.events[0]
	o.events = o.events[1:]
	return e, true
}

// deliverAll is deliver for many locks.
func deliverAll(locks []*Lock) { deliverEach(locks, (*observed).deliver) }

// deliverEach calls deliver for each lock that has an observer: a panic for one does not keep
// the others' events from being told.
func deliverEach(locks []*Lock, deliver func(*observed)) {
	for i, l := range locks {
		if l == nil || l.events == nil {
			continue
		}
		returned := false
		func() {
			defer func() {
				if !returned {
					deliverEach(locks[i+1:], deliver)
				}
			}()
			deliver(l.events)
			returned = true
		}()
	}
}
