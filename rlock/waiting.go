package rlock

import (
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/registry"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// waiter is a Lock that is being acquired by a call that waits, as the registry of these knows it. Once it is
// held, it has its entry in the registry of what is held.
type waiter Lock

// Deadline says that the wait ends by itself.
func (w *waiter) Deadline() clock.Instant { return clock.Never }

// Entry is its place in the registry.
func (w *waiter) Entry() *registry.Entry { return &w.listed }

// enlist lists an acquisition that is about to wait, or may have to wait for an answer.
func (a *acquisition) enlist() {
	if l := a.lock; l.want.wait && !l.waits {
		l.waits = true
		l.locker.waiters.Add((*waiter)(l))
	}
}

// delist takes a lock from the list of those that wait. The caller is the acquisition.
func delist(l *Lock) {
	if l.waits {
		l.waits = false
		l.locker.waiters.Remove((*waiter)(l))
	}
}

// waitingNow tells how many acquisitions wait now, of how many of them the server has not answered, and for
// how long the oldest has waited. Candidates of Lead wait for as long as others lead, so the oldest is none
// of them, unless it is the server that they wait for.
func waitingNow(l *Locker) (all, unanswered int64, oldest time.Duration) {
	now := clock.Now()
	l.waiters.Each(func(w *waiter) {
		silent := w.own.line.Silence().Lasts(now) >= remote.LongestAnswer
		switch state := (*Lock)(w).stateNow(); {
		case state == stateUnanswered:
			silent = true
		case state != stateWaiting && !silent:
			return // the server will have answered soon
		}
		all++
		if silent {
			unanswered++
		}
		if silent || !w.want.lead {
			oldest = max(oldest, time.Duration(now-w.since))
		}
	})
	return all, unanswered, oldest
}
