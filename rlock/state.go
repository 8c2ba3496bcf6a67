package rlock

import (
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// state is the state of a Lock for the caller who has it. Only become changes it.
//
//	acquiring ─▶ unanswered ─▶ waiting ─▶ held ─▶ released, lost, expired, detached or closed
//	    └─────────────┴───────────┴─▶ held or failed
//
// It does not say whether the server has freed the keys of a lock that has ended. If a Release got no
// answer, the lock is released, and Release may be called again.
type state uint32

const (
	stateAcquiring  state = iota
	stateUnanswered       // the server does not answer the acquisition, or cannot serve yet
	stateWaiting          // the acquisition has found the key held
	stateHeld
	stateFailed   // the acquisition failed; nobody has the Lock
	stateReleased // from here on the lock has ended
	stateLost
	stateExpired
	stateDetached
	stateClosed
)

// causes has, for each state in which a lock has ended, the error that says why.
var causes = [...]*reason{
	stateReleased: released,
	stateLost:     lost,
	stateExpired:  expired,
	stateDetached: detached,
	stateClosed:   closed,
}

// endings has, for each state in which a lock has ended without a Release, the event.
var endings = [...]EventKind{
	stateLost:     EventLost,
	stateExpired:  EventLost,
	stateDetached: EventDetached,
	stateClosed:   EventClosed,
}

// transitions has, for each state, the set of states that may follow it.
var transitions = [...]uint32{
	stateAcquiring:  1<<stateUnanswered | 1<<stateWaiting | 1<<stateHeld | 1<<stateFailed,
	stateUnanswered: 1<<stateWaiting | 1<<stateHeld | 1<<stateFailed,
	stateWaiting:    1<<stateHeld | 1<<stateFailed,
	stateHeld:       1<<stateReleased | 1<<stateLost | 1<<stateExpired | 1<<stateDetached | 1<<stateClosed,
	stateClosed:     0,
}

// stateNow is what the lock is now.
func (l *Lock) stateNow() state { return state(l.state.Load()) }

// cause returns why the lock has ended, nil if it has not.
func (l *Lock) cause() *reason { return causes[l.stateNow()] }

// become changes the state, and does everything that follows from the change. If the new
// state may not follow the present one, it changes nothing and reports false. now is a
// recent reading of the clock. The caller holds mu, or is the acquisition.
func (l *Lock) become(to state, now clock.Instant) bool {
	from := l.stateNow()
	if transitions[from]&(1<<to) == 0 {
		return false
	}
	l.state.Store(uint32(to))
	if to == stateHeld || to == stateFailed {
		delist(l)
	}
	if from == stateHeld {
		holdEnded(l, to, now)
		if to == stateExpired && l.shared == nil {
			l.leaveExpired() // before the context wakes somebody who tries
		}
		l.ended(to)
	}
	return true
}

// unlock ends a critical section of mu. If the lock has ended in it, its Context ends after it: that calls
// methods of the caller's context, which may panic, or ask this very lock.
func (l *Lock) unlock() {
	var over *lockContext
	cause := l.cause()
	if cause != nil && l.extras != nil && l.ctx != nil && !l.ctx.over {
		over = l.ctx
		over.over = true
	}
	l.mu.Unlock()
	if over != nil {
		over.end(cause)
	}
}

// ended does what follows when a lock that was held has ended. The caller holds mu.
func (l *Lock) ended(to state) {
	cause, longer := causes[to], l.lease.Unsure()
	if l.shared != nil {
		longer = leaveReaders(l, to) || longer
		if cause == expired {
			l.leaveExpired() // the last of them has the token
		}
	}
	if cause == expired && longer {
		freeExpired(l, NoExpiry) // the keys may have a longer lease, which nobody uses
	}
	l.locker.registry.Remove((*holder)(l))
	if l.watched {
		l.locker.renewals.Remove((*scheduled)(l))
		if l.locker.monitor != nil {
			l.locker.monitor.Remove((*monitored)(l))
		}
	}
	if cause != released { // the Release does all three when the keys are free
		if l.token != tokenMoved {
			l.tokenOver(goesOn(l, to))
		}
		l.ticket.Leave()
		l.emit(&Event{Kind: endings[to], Err: cause})
	}
}

// finish ends the lock, unless it has ended before, and returns why it ended. The
// caller holds mu.
func (l *Lock) finish(to state) *reason {
	l.become(to, clock.Now())
	return l.cause()
}

// overdue reports whether a held lock must end, and returns the state in which it ends: whichever
// came first of the end of its lease and the Close of its Locker.
func (l *Lock) overdue(now clock.Instant) (to state, over bool) {
	closed := l.locker.isClosed()
	if closed {
		now = l.locker.closedAt
	}
	switch {
	case l.lease.Deadline() <= now:
		return stateExpired, true
	case closed:
		return stateClosed, true
	}
	return stateHeld, false
}

// endIfOver ends the lock if it is overdue. The caller holds mu.
func (l *Lock) endIfOver() { l.endIfOverAt(clock.Now()) }

// endIfOverAt is endIfOver for a caller who has just read the clock.
func (l *Lock) endIfOverAt(now clock.Instant) {
	if to, over := l.overdue(now); over {
		l.become(to, now)
	}
}

// arrival is how a Lock comes to be held.
type arrival struct {
	kind       EventKind // EventAcquired or EventAttached
	start      clock.Instant
	handedOver bool
	atLeast    time.Duration // for how long it keeps others out
}

// hold begins a lease that lasts until deadline. If the Locker was closed meanwhile, or the
// lease must already count as over, the lock is not held, and hold returns the cause. Before hold
// is called, no other goroutine has the Lock. hold gives it to the queue, the schedule and the registry,
// and holds mu meanwhile.
func (l *Lock) hold(deadline clock.Instant, fence uint64, how arrival) error {
	l.mu.Lock()
	defer l.unlock()
	l.fence = fence
	l.lease.Start(deadline)
	now := clock.Now()
	if to, over := l.overdue(now); over {
		return causes[to]
	}
	waitedFor := l.ticket.Hold((*holder)(l), now)
	if needsWatch := waitedFor || l.set.extends(l.want.do) || l.events != nil; needsWatch && !l.watch() {
		return closed
	}
	contended := l.stateNow() == stateWaiting
	if contended {
		l.locker.counters.addWait(time.Duration(now-how.start), l.want.wait)
	}
	keepFor(l, how.atLeast, now)
	l.become(stateHeld, now)
	l.since = now
	l.emit(&Event{Kind: how.kind, Contended: contended, HandedOver: how.handedOver})
	if l.events != nil && l.set.extends(l.want.do) && !l.locker.short.Load() {
		if short := l.locker.timeOuts.Short(l.lease.TTL()); short != nil && !l.locker.short.Swap(true) {
			l.emit(&Event{Kind: EventShortLease, Err: short})
		}
	}
	l.locker.registry.Add((*holder)(l))
	return nil
}

// watch puts the lock on the schedule of renewals, which extends it, or only ends it on time. If the
// server tells of changed keys, watch also adds the lock to the monitor. If the Locker is closed, watch
// ends the lock and reports false. The caller holds mu.
func (l *Lock) watch() bool {
	l.needExtras()
	l.watched = true
	if !l.locker.renewals.Add((*scheduled)(l), (*scheduled)(l).next(clock.Now()), l.lease.Deadline()) {
		l.endIfOver()
		return false
	}
	if l.locker.monitor != nil {
		l.locker.monitor.Add((*monitored)(l))
	}
	return true
}
