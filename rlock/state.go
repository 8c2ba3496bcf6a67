package rlock

import (
	"errors"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/line"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
)

// causes has, for each state in which a lock has ended, the error that says why.
var causes = [...]*reason{
	stateReleased: released,
	stateLost:     lost,
	stateExpired:  expired,
	stateLimited:  limited,
	stateDetached: detached,
	stateClosed:   closed,
}

// endings has, for each state in which a lock has ended without a Release, the event.
var endings = [...]EventKind{
	stateLost:     EventLost,
	stateExpired:  EventExpired,
	stateLimited:  EventExpired,
	stateDetached: EventDetached,
	stateClosed:   EventClosed,
}

// leaseStates has, for each state in which the last user of a lease has ended without a Release, that of the
// lease.
var leaseStates = [...]leaseState{
	stateLost:     leaseLost,
	stateExpired:  leaseExpired,
	stateLimited:  leaseExpired,
	stateDetached: leaseDetached,
	stateClosed:   leaseClosed,
}

// transitions has, for each state, the set of states that may follow it.
var transitions = [...]uint32{
	stateAcquiring:  1<<stateUnanswered | 1<<stateWaiting | 1<<stateHeld | 1<<stateFailed,
	stateUnanswered: 1<<stateWaiting | 1<<stateHeld | 1<<stateFailed,
	stateWaiting:    1<<stateHeld | 1<<stateFailed,
	stateHeld: 1<<stateReleased | 1<<stateLost | 1<<stateExpired | 1<<stateLimited | 1<<stateDetached |
		1<<stateClosed,
	stateClosed: 0,
}

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
		l.delist()
	}
	if from == stateHeld {
		l.holdEnded(to, now)
		l.endContext(causes[to])
		l.ended(to, now)
	}
	return true
}

// ended does what follows when a lock that was held has ended. The caller holds mu.
func (l *Lock) ended(to state, now clock.Instant) {
	cause := causes[to]
	longer := l.terms.Unsure() || l.terms.Deadline() > l.deadline()
	l.removeUser(l)
	l.locker.registry.Remove((*holder)(l))
	if cause == released {
		return // the Release gives the lease on, or back
	}
	back, next := l.done(now, line.Want{}, true)
	if l.leaseGone = !back; back {
		if errors.Is(cause, expired) {
			l.noteLeftover()
			if longer {
				l.freeExpired(NoExpiry) // the keys may have a longer lease, which nobody uses
			}
		}
		l.tokenOver(l.tokenLives(to))
		l.retire(leaseStates[to])
	}
	next.Send()
	l.emit(&Event{Kind: endings[to], Err: cause})
}

// finish ends the lock, unless it has ended before, and returns why it ended. A loss is that of all who have
// the lease. The caller holds mu.
func (l *Lock) finish(to state) *reason {
	if to == stateLost && l.hasUser(l) {
		l.lose()
	}
	l.become(to, clock.Now())
	return l.cause()
}

// overdue reports whether a held lock must end, and returns the state in which it ends: whichever
// came first of the end of its lease, that of the time for which it may be held, and the Close of its Locker.
// The caller holds mu.
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

// endIfOver ends the lock, or only its Context, if it is time for that. The caller holds mu.
func (l *Lock) endIfOver() { l.endIfOverAt(clock.Now()) }

// endIfOverAt is endIfOver for a caller who has just read the clock.
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
	goesOn     bool          // with a lease that others have, or another had
	watch      bool          // with goesOn: others depend on its end being noticed
	minHold    time.Duration // for how long it keeps others out
}

// hold begins a lease that lasts until deadline. If the Locker has stopped meanwhile, or the
// lease must already count as over, the lock is not held, and hold returns the cause. Before hold
// is called, no other goroutine has the Lock. hold gives it to the line, the schedule and the registry,
// and holds mu meanwhile.
func (l *Lock) hold(deadline clock.Instant, fence uint64, how arrival) error {
	l.mu.Lock()
	defer l.unlock()
	now := clock.Now()
	if how.goesOn && l.claim.IsShare() {
		fence = l.lease.fence // of all who share it, or had it
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
	if l.lease.state == leaseLost { // on its way: the caller holds it, and learns that at once
		defer l.finish(stateLost)
	}
	if to, over := l.overdue(now); over {
		return causes[to] // and the lease is never live: nobody watches it while the acquisition gives it up
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
		// A command without an answer may take the key for the token later. Whoever gives that up must know.
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

// lose ends the lease, and all who have it, because the server has given its keys to another, or freed them.
// The caller holds mu.
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

// endIfLost ends a lease if its key is gone or another's, and reports whether that is so. The server has
// answered that the key has that owner, "" if it is gone. If the lease has got another token since version,
// again is true and the answer says nothing.
func (s *lease) endIfLost(owner string, version terms.Version) (is, again bool) {
	defer s.deliver()
	s.mu.Lock()
	defer s.unlock()
	if is, again = s.terms.Lost(owner, version); is {
		s.lose()
	}
	return is, again
}

// watchIfLive has the lease watched for those who wait for its end. A nil one is none.
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

// watchOrEnd has the lease renewed, and its end noticed. If the Locker is closed, it ends the users and
// reports false. The caller holds mu.
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

// holdEnded counts that a lock which was held has ended. One that ended without a call, and was
// noticed later, was held until then and not until now. The caller holds mu.
func (l *Lock) holdEnded(to state, now clock.Instant) {
	until := min(now, l.deadline())
	if to == stateClosed {
		until = l.locker.closedAt
	}
	l.locker.counters.holds.Add(time.Duration(until - l.since))
}

// delist takes a lock from the list of those that wait. The caller is the acquisition.
func (l *Lock) delist() {
	if l.waits {
		l.waits = false
		l.locker.waiters.Remove((*waiter)(l))
	}
}
