// Package events tells an observer what happens to its subject. It tells one event at a time, in order,
// while no mutex is held.
//
// It does not know what an event says, what the subject is, or who observes it.
package events

import (
	"context"
	"sync"
)

// Observer is told of events.
type Observer[E any] interface {
	Observe(ctx context.Context, e E)
}

// List has the events of one subject that must be told. A goroutine that causes an event adds it, often
// under a mutex of the subject. The events are told later, with no mutex held. So the observer may call the
// subject, and a panic of the observer leaves nothing half done.
type List[E any] struct {
	observer Observer[E]
	ctx      context.Context

	mu      sync.Mutex
	events  []E  // events to tell
	telling bool // a goroutine is telling them
}

// Begin makes the List of a new subject. The observer gets ctx with each event. The goroutine that calls
// Begin tells the events until it calls Tell without keep. So what a caller has begun does not panic in
// another goroutine.
func (l *List[E]) Begin(ctx context.Context, o Observer[E]) {
	l.observer, l.ctx, l.telling = o, ctx, true
}

// Add adds an event.
func (l *List[E]) Add(e E) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

// Deliver tells the events. If another goroutine is telling, that goroutine tells these events too. The
// caller holds no mutex.
func (l *List[E]) Deliver() {
	if l.begin() {
		l.Tell(false)
	}
}

// begin makes the caller the telling goroutine, unless there is one. It reports whether it has.
func (l *List[E]) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	idle := !l.telling
	l.telling = true
	return idle
}

// Tell tells the events. Only the telling goroutine may call it. With keep, the goroutine stays the telling
// one. If the observer panics or calls runtime.Goexit, Tell tells the remaining events while the stack
// unwinds.
func (l *List[E]) Tell(keep bool) {
	returned := false
	defer func() {
		if !returned {
			l.Tell(keep)
		}
	}()
	for {
		e, ok := l.next(keep)
		if !ok {
			returned = true
			return
		}
		l.observer.Observe(l.ctx, e)
	}
}

// next takes an event off the List. If there is none, the goroutine stops telling, unless keep is true.
func (l *List[E]) next(keep bool) (e E, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.events) == 0 {
		l.events, l.telling = nil, keep
		return e, false
	}
	e = l.events[0]
	l.events = l.events[1:]
	return e, true
}

// Each calls do for each subject, to tell its events or to cause some. If do panics or ends the goroutine
// for one subject, Each calls do for the others while the stack unwinds.
func Each[T any](subjects []T, do func(T)) {
	next := 0
	defer func() {
		if next < len(subjects) {
			Each(subjects[next:], do)
		}
	}()
	for next < len(subjects) {
		next++
		do(subjects[next-1])
	}
}
