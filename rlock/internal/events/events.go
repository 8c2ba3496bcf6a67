// Package events tells an observer what happens to its subject: in order, one event at a time,
// and while nobody holds a mutex.
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

// List has the events of one subject that are to be told. Whoever causes an event adds it, often
// under a mutex of the subject, and somebody tells it later, with no mutex held. So the observer
// may call the subject, and when it panics nothing is half done.
type List[E any] struct {
	observer Observer[E]
	ctx      context.Context

	mu      sync.Mutex
	events  []E  // to be told
	telling bool // a goroutine is telling them
}

// Begin makes the List of a new subject; ctx is what the observer gets with each event. The
// goroutine that calls Begin is telling from now on, until it calls Tell without keep: what a
// caller has begun must not panic in another goroutine.
func (l *List[E]) Begin(ctx context.Context, o Observer[E]) {
	l.observer, l.ctx, l.telling = o, ctx, true
}

// Add adds an event.
func (l *List[E]) Add(e E) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

// Deliver tells the events, unless another goroutine is telling, which then tells these too. The
// caller holds no mutex.
func (l *List[E]) Deliver() {
	if l.begin() {
		l.Tell(false)
	}
}

// begin reports whether nobody was telling. The caller is telling then.
func (l *List[E]) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	idle := !l.telling
	l.telling = true
	return idle
}

// Tell tells the events. Only the goroutine that is telling may call it; with keep, it stays the one
// that is. If the observer panics or calls runtime.Goexit, Tell tells the remaining events while the
// stack unwinds.
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

// next takes an event off the List. When there is none, this goroutine is not telling any more,
// unless it is to keep doing so.
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
// for one of them, it is called for the others while the stack unwinds.
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
