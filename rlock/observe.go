package rlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// observed is what a Lock keeps for its observer. Events are put in a list where they
// happen, often under the lock's mutex, and told later with no mutex held, in order:
// so the observer may call the lock, and when it panics nothing is half done.
type observed struct {
	observer Observer
	since    clock.Instant // when the call began, then when the lock was held

	mu      sync.Mutex
	events  []Event // to be told
	telling bool    // a goroutine is telling them
}

// observe gives the lock an observer, if the settings have one. Until its call returns,
// the caller's goroutine alone tells the events: a panic must not end up in another one.
func (l *Lock) observe(set *settings, start clock.Instant) {
	if set.observer != nil {
		l.events = &observed{observer: set.observer, since: start, telling: true}
	}
}

// deliver tells the observer what has happened to the lock, unless another goroutine is
// at it, which then tells this too. The caller holds no mutex.
func (l *Lock) deliver() {
	o := l.events
	if o == nil {
		return
	}
	o.mu.Lock()
	idle := !o.telling
	o.telling = true
	o.mu.Unlock()
	if idle {
		o.tellAll(l.parent, false)
	}
}

// deliverFirst tells what has happened during the call that made the lock. With more,
// the call goes on, and keeps telling to itself.
func (l *Lock) deliverFirst(more bool) {
	if o := l.events; o != nil {
		o.tellAll(l.parent, more)
	}
}

// tellAll tells the events. When the observer panics or ends the goroutine, the others
// are told on the way out.
func (o *observed) tellAll(ctx context.Context, keep bool) {
	returned := false
	defer func() {
		if !returned {
			o.tellAll(ctx, keep)
		}
	}()
	for {
		e, ok := o.next(keep)
		if !ok {
			returned = true
			return
		}
		o.observer.Observe(ctx, e)
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
func deliverAll(locks []*Lock) { deliverEach(locks, (*Lock).deliver) }

// deliverEach calls deliver for each lock that has an observer: a panic for one does not keep
// the others' events from being told.
func deliverEach(locks []*Lock, deliver func(*Lock)) {
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
			deliver(l)
			returned = true
		}()
	}
}

// emitContended follows a look that found the lock held. The first one counts.
func (l *Lock) emitContended(by blocker, local bool) {
	if l.become(stateWaiting) && l.count(EventContended) {
		l.tell(Event{Kind: EventContended, Key: by.key, Waited: l.events.passed(), Remaining: by.left, Local: local})
	}
}

// emitFailed follows an acquisition that failed.
func (l *Lock) emitFailed(err *AcquireError) {
	if l.count(EventAcquireFailed) {
		l.tell(Event{Kind: EventAcquireFailed, Key: err.Key, Waited: err.Waited, Remaining: err.Remaining, Err: err})
	}
}

// emitHeld begins the events of a lock that is held. The caller holds mu, so that no
// other one comes first.
func (l *Lock) emitHeld(how arrival) {
	if how.handedOver {
		l.locker.counters.handedOver.Add(1)
	}
	if l.count(how.kind) {
		waited := l.events.passed()
		l.events.since = clock.Now()
		l.tellHeld(Event{Kind: how.kind, Waited: waited, HandedOver: how.handedOver})
	}
}

// emitExtension follows the answer of an extension, unless the lock has ended. The
// caller holds mu.
func (l *Lock) emitExtension(err error) {
	kind := EventExtended
	if err != nil {
		kind = EventExtendFailed
	}
	if l.stateNow() == stateHeld && l.count(kind) {
		l.tellHeld(Event{Kind: kind, Err: err})
	}
}

// emitEnd follows the end of a lock that was not given up with Release. The caller holds
// mu.
func (l *Lock) emitEnd(cause *reason) {
	kind := EventLost
	switch cause {
	case detached:
		kind = EventDetached
	case closed:
		kind = EventClosed
	}
	told := l.count(kind)
	if cause == expired {
		l.locker.counters.expired.Add(1) // second, as Stats takes it off the first
	}
	if told {
		l.tellHeld(Event{Kind: kind, Err: cause})
	}
}

// emitRelease follows the Release that ended the lock.
func (l *Lock) emitRelease(err error) {
	kind := EventReleased
	switch {
	case errors.Is(err, ErrLost):
		kind, err = EventLost, ErrLost
	case err != nil:
		kind = EventReleaseFailed
	}
	if l.count(kind) {
		l.tellHeld(Event{Kind: kind, Err: err})
	}
}

// count counts an event and reports whether somebody is to be told.
func (l *Lock) count(kind EventKind) bool {
	l.locker.counters.events[kind].Add(1)
	return l.events != nil
}

// passed returns the time since the call began, or the lock was held.
func (o *observed) passed() time.Duration { return time.Duration(clock.Now() - o.since) }

// tell puts an event on the list of those to be told.
func (l *Lock) tell(e Event) {
	e.Keys, e.Attempts = l.claim.Keys(), l.Attempts()
	if e.Key == "" {
		e.Key = l.claim.Key()
	}
	o := l.events
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, e)
}

// tellHeld is tell for a lock that is held, or was.
func (l *Lock) tellHeld(e Event) {
	e.Fence, e.Held = l.fence, l.events.passed()
	if l.stateNow() == stateHeld {
		e.Remaining = max(l.lease.Deadline().Until(), 0)
	}
	l.tell(e)
}
