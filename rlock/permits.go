package rlock

import (
	"github.com/rlock-go/toolkit/rlock/internal/attempt"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/permits"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// permitKind returns which other callers of this process may have the permits of a lock after it. It
// reports false if none may: a holder of all permits has a fence of its own, a lease without an end does
// not tell when the server confirmed it last, and a whole lock and readers have ways of their own.
func permitKind(l *Lock) (k permits.Kind, may bool) {
	s, _ := l.claim.Share()
	if s.Permits >= s.Limit || l.set.uniqueToken || l.set.ttl == NoExpiry || l.locker.permits.Turn() == 0 {
		return k, false
	}
	return permits.Kind{
		Key: l.claim.Key(), Limit: s.Limit, Permits: s.Permits, Owner: l.set.owner, TTL: l.set.ttl, Extends: l.set.extends(l.want.do),
	}, true
}

// joinPermits has a caller who waits for permits wait for those of another caller of this process, or ask
// the server. It reports true if the caller has got them.
func joinPermits(a *acquisition) (has bool, why noLock) {
	l := a.lock
	kind, may := permitKind(l)
	if !may || !l.want.wait || a.ctx.Err() != nil {
		return false, noLock{}
	}
	a.permit = l.locker.permits.Enter(kind, l.locker.remote.RoundTrip())
	a.tries.Ticket = a.permit
	if a.permit.Ready() == permits.Asks {
		a.permit.AskedBy(l.ticket.Silence())
		return false, noLock{}
	}
	role, err := awaitCaller[permits.Role](a, permits.Waits, a.permit, a.permit.Wake(), nil)
	switch {
	case role == permits.Has:
		return true, receivePermit(a)
	case err != nil:
		return false, waitEnded(err)
	}
	// It asks. If that is because the policy gives up, so far only this process has said that it must wait.
	a.tries.Blocker = attempt.Blocker{Key: l.claim.Key()}
	a.permit.AskedBy(l.ticket.Silence())
	return false, noLock{}
}

// receivePermit begins to hold what another caller of this process has given up.
func receivePermit(a *acquisition) noLock {
	l, g := a.lock, a.permit.Grant()
	l.lease = g.Lease.(*lease)
	setTurn(l, g.Turn)
	how := arrival{kind: EventAcquired, start: a.start, handedOver: true, goesOn: true}
	err := l.hold(g.Deadline, g.Fence, how)
	if err == nil {
		return noLock{}
	}
	l.giveBack()
	return a.notHeld(err, g.Deadline)
}

// quitPermits ends the part of an acquisition in the line of this process. It may have been given permits
// that it has not taken.
func quitPermits(a *acquisition) {
	if a.permit == nil || a.permit.Ready() == permits.Asks { // fail ends that when it has left the score of the place
		return
	}
	if a.permit.Quit() == permits.Has && a.lock.stateNow() < stateHeld {
		receivePermit(a)
	}
}

// beginTurn notes that the server has granted permits, before the lock is held.
func beginTurn(l *Lock) {
	if _, may := permitKind(l); may {
		setTurn(l, clock.Now().After(l.locker.permits.Turn()))
	}
}

// setTurn notes until when the permits of a lock may go to another caller of this process.
func setTurn(l *Lock, until clock.Instant) {
	l.mu.Lock()
	defer l.unlock()
	l.needExtras()
	l.turn = until
}

// givePermits gives the permits of a lock that this Release has ended to another caller of this process, and
// reports whether one has got them. Then there is nothing to free, and it settles the Release. The caller
// holds the lock's mu.
func (r *releasing) givePermits(now clock.Instant) bool {
	l := r.lock
	// A command without an answer may take the key for the token later. Whoever gives that up must know.
	if l.extras == nil || now >= l.turn || r.cause != released || !r.ends || l.shown || l.claim.Possible() > 0 {
		return false
	}
	next := l.request()
	if next.TTL = l.set.ttl; !next.Fits(&l.terms, now) { // an Extend may have changed the lease
		return false
	}
	kind, may := permitKind(l)
	grant := permits.Grant{Lease: l.lease, Fence: l.fence, Deadline: l.terms.Deadline(), Turn: l.turn}
	if !may || !l.locker.permits.Give(kind, grant, now) {
		return false
	}
	l.left = true
	r.shared, r.freed = true, remote.Free
	r.settle()
	return true
}
