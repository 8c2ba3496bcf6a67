package rlock

import (
	"errors"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/line"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
)

// causes has the error for each state of an ended lock.
var causes = [...]*reason{
	stateReleased: released,
	stateLost:     lost,
	stateExpired:  expired,
	stateLimited:  limited,
	stateDetached: detached,
	stateClosed:   closed,
}

// endings has the event for each state in which a lock has ended without a Release.
var endings = [...]EventKind{
	stateLost:     EventLost,
	stateExpired:  EventExpired,
	stateLimited:  EventExpired,
	stateDetached: EventDetached,
	stateClosed:   EventClosed,
}

// leaseStates has the state of a lease whose last user has ended without a Release. The index is the state in
// which this user has ended.
var leaseStates = [...]leaseState{
	stateLost:     leaseLost,
	stateExpired:  leaseExpired,
	stateLimited:  leaseExpired,
	stateDetached: leaseDetached,
	stateClosed:   leaseClosed,
}

// transitions has, for each state, the states that may follow.
var transitions = [...]uint32{
	stateAcquiring:  1<<stateUnanswered | 1<<stateWaiting | 1<<stateHeld | 1<<stateFailed,
	stateUnanswered: 1<<stateWaiting | 1<<stateHeld | 1<<stateFailed,
	stateWaiting:    1<<stateHeld | 1<<stateFailed,
	stateHeld: 1<<stateReleased | 1<<stateLost | 1<<stateExpired | 1<<stateLimited | 1<<stateDetached |
		1<<stateClosed,
	stateClosed: 0,
}

// cause returns why the lock has ended, or nil if it has not ended.
func (l *Lock) cause() *reason { return causes[l.stateNow()] }

// become changes the state, with everything that follows from the change. If the new state may not follow the
// present state, become changes nothing and returns false. now is a recent reading of the clock. The caller
// holds mu, or is the acquisition.
func (l *Lock) become(to state, now clock.Instant) bool {
	from := l.stateNow()
	if transitions[from]&(1<<to) == 0 {
		return false
	}
	l.state.Store(uint32(to))
	if to == stateHeld || to == stateFailed {
		l.delist()
	}
	if from == stateHeld {
		l.holdEnded(to, now)
		l.endContext(causes[to])
		l.ended(to, now)
	}
	return true
}

// ended does the work after the end of a lock that was held. The caller holds mu.
func (l *Lock) ended(to state, now clock.Instant) {
	cause := causes[to]
	longer := l.terms.Unsure() || l.terms.Deadline() > l.deadline()
	l.removeUser(l)
	l.locker.registry.Remove((*holder)(l))
	if cause == released {
		return // the Release hands the lease over, or gives it back to the server
	}
	back, next := l.done(now, line.Want{}, true)
	if l.leaseGone = !back; back {
		if errors.Is(cause, expired) {
			l.noteLeftover()
			if longer {
				l.freeExpired(NoExpiry) // the keys may have a longer lease that no lock uses
			}
		}
		l.tokenOver(l.tokenLives(to))
		l.retire(leaseStates[to])
	}
	next.Send()
	l.emit(&Event{Kind: endings[to], Err: cause})
}

// finish ends the lock, unless it has ended before, and returns why it ended. A loss ends all users of the
// lease. The caller holds mu.
func (l *Lock) finish(to state) *reason {
	if to == stateLost && l.hasUser(l) {
		l.lose()
	}
	l.become(to, clock.Now())
	return l.cause()
}

// overdue reports whether a held lock must end, and returns the state in which it ends. Three ends are
// possible: the end of its lease, the end of its hold time, and Close of its Locker. The first of them
// counts. The caller holds mu.
func (l *Lock) overdue(now clock.Instant) (to state, over bool) {
	closed := l.locker.isClosed()
	if closed {
		now = l.locker.closedAt
	}
	switch {
	case l.deadline() <= now && l.deadline() == l.limited():
		return stateLimited, true
	case l.deadline() <= now:
		return stateExpired, true
	case closed:
		return stateClosed, true
	}
	return stateHeld, false
}

// endIfOver ends the lock, or only its Context, if the time has come. The caller holds mu.
func (l *Lock) endIfOver() { l.endIfOverAt(clock.Now()) }

// endIfOverAt is endIfOver for a caller that has just read the clock.
func (l *Lock) endIfOverAt(now clock.Instant) {
	if to, over := l.overdue(now); over {
		l.become(to, now)
	} else if l.stopsAt() <= now {
		l.endContext(leaseEnding)
	}
}

// arrival is how a Lock comes to be held.
type arrival struct {
	kind       EventKind // EventAcquired or EventAttached
	start      clock.Instant
	handedOver bool
	goesOn     bool          // with a lease that other users have or had
	watch      bool          // with goesOn: a waiter relies on this holder to notice the end of the lease
	minHold    time.Duration // how long it keeps others out
}

// hold begins a lease that lasts until deadline. It gives the lock to the line, the schedule and the
// registry, and holds mu meanwhile. If the Locker has stopped, or the lease counts as over, the lock is not
// held, and hold returns the cause. Before the call, no other goroutine has the Lock.
func (l *Lock) hold(deadline clock.Instant, fence uint64, how arrival) error {
	l.mu.Lock()
	defer l.unlock()
	now := clock.Now()
	if how.goesOn && l.claim.IsShare() {
		fence = l.lease.fence // of all its sharers, present or former
	}
	l.fence, l.lease.fence = fence, fence
	l.setEnd(clock.Never)
	if l.set.maxHold > 0 {
		l.limit(now.After(l.set.maxHold))
	}
	switch {
	case !how.goesOn:
		l.terms.Start(deadline)
	case l.joint != nil:
		l.setEnd(min(deadline, clock.LeaseEnd(now, l.set.ttl)))
	}
	if l.lease.state == leaseLost { // during its hand-over: the caller gets the lock, and learns of the loss
		defer l.finish(stateLost)
	}
	if to, over := l.overdue(now); over {
		return causes[to] // the lease never becomes live, so no watch sees it before it is freed
	}
	if l.locker.isStopping() {
		return closed
	}
	if !how.goesOn {
		l.lease.state = leaseLive
	}
	l.addUser(l)
	watch := how.watch
	if !how.goesOn {
		// A command without an answer may arrive late and take the key for the token. So no other caller may
		// use the lease.
		sealed, open := l.tokenShown || !l.terms.Certain() || !l.claim.Settled(), false
		if open, watch = l.lease.handle().Granted(sealed, now); open {
			l.share()
		}
	}
	needsWatch := watch || l.extends() || l.events != nil || l.set.maxHold > 0
	if needsWatch && !l.watchOrEnd() {
		l.removeUser(l)
		return closed
	}
	contended := l.stateNow() == stateWaiting
	if contended {
		l.locker.counters.addWait(time.Duration(now-how.start), l.by.wait)
	}
	l.keepFor(how.minHold, now)
	l.become(stateHeld, now)
	l.since = now
	l.emit(&Event{Kind: how.kind, Contended: contended, HandedOver: how.handedOver})
	if l.events != nil {
		l.emitOnce()
	}
	l.locker.registry.Add((*holder)(l))
	return nil
}

// lose ends the lease and all its users, because the server has freed its keys or given them to another
// token. The caller holds mu.
func (s *lease) lose() {
	now := clock.Now()
	s.retire(leaseLost)
	for u := range s.users() {
		u.become(stateLost, now)
	}
}

// endOverdue ends the users whose time is over. The caller holds mu.
func (s *lease) endOverdue(now clock.Instant) {
	for u := range s.users() {
		u.endIfOverAt(now)
	}
}

// endIfLost ends a lease if it has lost its key, and reports whether it has. owner is the server's answer, ""
// if the key is gone. If the lease has got another token since version, again is true, and the answer says
// nothing.
func (s *lease) endIfLost(owner string, version terms.Version) (is, again bool) {
	defer s.deliver()
	s.mu.Lock()
	defer s.unlock()
	if is, again = s.terms.Lost(owner, version); is {
		s.lose()
	}
	return is, again
}

// watchIfLive watches the lease for callers that wait for its end. It does nothing for nil.
func (s *lease) watchIfLive() {
	if s == nil {
		return
	}
	defer s.deliver()
	s.mu.Lock()
	defer s.unlock()
	if s.state == leaseLive {
		s.watchOrEnd()
	}
}

// watchOrEnd schedules the renewal of the lease and the notice of its end. If the Locker is closed, it ends
// the users and returns false. The caller holds mu.
func (s *lease) watchOrEnd() bool {
	if s.schedule() {
		return true
	}
	s.endOverdue(clock.Now())
	return false
}

// expire ends the users whose time is over.
func (s *lease) expire() {
	defer s.deliver()
	s.mu.Lock()
	defer s.unlock()
	s.endOverdue(clock.Now())
}

// holdEnded counts the end of a held lock. A lock that ended without a call was held until its end, not until
// a goroutine noticed. The caller holds mu.
func (l *Lock) holdEnded(to state, now clock.Instant) {
	until := min(now, l.deadline())
	if to == stateClosed {
		until = l.locker.closedAt
	}
	l.locker.counters.holds.Add(time.Duration(until - l.since))
}

// delist takes a lock from the list of waiters. The caller is the acquisition.
func (l *Lock) delist() {
	if l.waits {
		l.waits = false
		l.locker.waiters.Remove((*waiter)(l))
	}
}
