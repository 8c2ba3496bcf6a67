package rlock

import (
	"iter"
	"slices"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/line"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
)

// unlock ends a critical section of mu, and then ends the contexts of the Locks that have ended in it. unlock
// first releases mu, because the end of a context calls methods of the callers' contexts. These methods may
// panic or use these Locks.
func (s *lease) unlock() {
	ended := s.ended
	s.ended = nil
	s.mu.Unlock()
	ended.endAll()
}

// used reports whether a Lock has the lease. The caller holds mu.
func (s *lease) used() bool { return s.user != nil || s.joint != nil && len(s.joint.users) > 0 }

// users returns the Locks that use the lease. They may end during the loop. The caller holds mu.
func (s *lease) users() iter.Seq[*Lock] {
	return func(yield func(*Lock) bool) {
		if s.joint == nil {
			if s.user != nil {
				yield(s.user)
			}
			return
		}
		for _, u := range slices.Backward(s.joint.users) { // because removeUser moves the last user into the gap
			if !yield(u) {
				return
			}
		}
	}
}

// extenders returns the users that want an automatic extension and may still get one. The caller holds mu.
func (s *lease) extenders() iter.Seq[*Lock] {
	return func(yield func(*Lock) bool) {
		for u := range s.users() {
			if u.extends() && u.deadline() < u.limited() && !yield(u) {
				return
			}
		}
	}
}

// hasUser reports whether l uses the lease. The caller holds mu.
func (s *lease) hasUser(l *Lock) bool {
	if s.joint == nil {
		return s.user == l
	}
	return int(l.position) < len(s.joint.users) && s.joint.users[l.position] == l
}

// addUser makes l a user. The caller holds mu.
func (s *lease) addUser(l *Lock) {
	if s.joint == nil {
		s.user = l
		return
	}
	l.position = int32(len(s.joint.users))
	s.joint.users = append(s.joint.users, l)
}

// removeUser undoes addUser. The caller holds mu.
func (s *lease) removeUser(l *Lock) {
	if !s.hasUser(l) {
		return
	}
	if s.joint == nil {
		s.user = nil
		return
	}
	users := s.joint.users
	end := len(users) - 1
	users[l.position], users[end].position = users[end], l.position
	users[end] = nil
	s.joint.users = users[:end]
}

// share lets other readers join the lease from now on. The caller has the lease, and holds mu.
func (s *lease) share() {
	l := s.user
	s.user, s.joint = nil, &joint{}
	l.setEnd(s.terms.Deadline())
	s.addUser(l)
}

// alone makes a shared lease the lease of its only user, if no other reader can join any more. It reports
// whether the caller is the only user. The caller holds mu.
func (s *lease) alone() bool {
	switch {
	case s.joint == nil:
		return true
	case !s.handle().SealIfAlone():
		return false
	}
	l := s.joint.users[0]
	s.joint = nil
	s.addUser(l)
	s.terms.SetTTL(l.ttl())
	if s.terms.Deadline() == clock.Instant(l.until.Load()) {
		l.setEnd(clock.Never)
	}
	return true
}

// valid reports whether the lease is live as far as this process knows.
func (s *lease) valid() bool {
	s.mu.Lock()
	defer s.unlock()
	return s.state == leaseLive && s.terms.Deadline() > clock.Now()
}

// renewed reports whether the lease is extended automatically. A lease without an end is not.
func (s *lease) renewed() bool {
	s.mu.Lock()
	defer s.unlock()
	for range s.extenders() {
		return s.terms.Deadline() != clock.Never
	}
	return false
}

// done ends one use of the lease. The parameter as has the request of the user that is done. After the last
// use, the line gives the lease to the first waiter of this process, unless plain is true. If no waiter gets
// the lease, back is true, and the caller must give the lease back. The caller holds mu. It sends next after
// it has released mu.
func (s *lease) done(now clock.Instant, as line.Want, plain bool) (back bool, next *clock.Signal) {
	e := line.Event{Now: now, Plain: true}
	// A command without an answer may still take the key for this token. The code that gives up the token
	// must know of such a command. So no waiter gets the lease while there may be one.
	if !plain && s.state == leaseLive && s.claim.Settled() && len(s.terms.Former()) == 0 {
		server := s.locker.wire
		e.Plain, e.Blind = false, !server.Queues().Used()
		e.Want, e.Sealed = as, s.tokenShown || !s.terms.Certain()
		e.Want.TTL = s.terms.TTL()
		e.RoundTrip = server.RoundTrip()
	}
	return s.handle().Done(e)
}

// leave is for a lease that an acquisition was given and does not use. It hands the lease to the next waiter,
// or gives it back. The caller does not hold mu.
func (s *lease) leave(as line.Want) {
	s.mu.Lock()
	back, next := s.done(clock.Now(), as, false)
	s.unlock()
	next.Send()
	if back {
		s.giveBack()
	}
}

// retire ends the lease: no Lock joins it, and no goroutine renews or watches it. Only the first end counts.
// The caller holds mu.
func (s *lease) retire(to leaseState) {
	if s.state > leaseLive {
		return
	}
	s.state = to
	if to != leaseBack { // with leaseBack, the key is free only after the release
		s.handle().Ended()
	}
	if s.watch == nil {
		return
	}
	s.locker.renewals.Remove((*scheduled)(s))
	if s.locker.monitor != nil {
		s.locker.monitor.Remove((*monitored)(s))
	}
}

// giveBack gives back a lease without users, in the background. The caller does not hold mu.
func (s *lease) giveBack() {
	s.mu.Lock()
	defer s.unlock()
	s.retire(leaseBack)
	s.locker.wire.Abandon(&s.claim, s.terms.Tokens(), s.terms.TTL())
	s.tokenOver(false)
	s.handle().Ended()
}

// version returns the version of the lease.
func (s *lease) version() terms.Version {
	s.mu.Lock()
	defer s.unlock()
	return s.terms.Version()
}

// tokenOver notes that no Lock has the tokens of a lease any more. If away is true, the keys may keep the
// tokens for another holder. tokenOver does nothing for a token of WithToken. Such a token never stood in a
// queue for this lock, and another lock may use it. The caller holds mu.
func (s *lease) tokenOver(away bool) {
	if s.claim.Chosen() {
		return
	}
	over := s.locker.grants.Over
	if away {
		over = s.locker.grants.PassOn
	}
	for _, token := range s.terms.Former() {
		over(token)
	}
	over(s.terms.Token())
}

// schedule puts the lease on the schedule of renewals. The schedule extends the lease if a user wants that,
// and ends the users on time. If
// the server sends invalidations, the monitor watches the lease too. schedule returns false if the Locker is
// closed. The caller holds mu.
func (s *lease) schedule() bool {
	if s.watch == nil {
		s.watch = &watch{}
	}
	if !s.locker.renewals.Add((*scheduled)(s), s.nextRenewal(clock.Now()), s.firstEnd()) {
		return false
	}
	if s.locker.monitor != nil {
		s.locker.monitor.Add((*monitored)(s))
	}
	return true
}

// firstEnd returns the first end of a user or of its Context. The caller holds mu.
func (s *lease) firstEnd() clock.Instant {
	end := s.terms.Deadline()
	for u := range s.users() {
		end = min(end, u.deadline(), u.stopsAt())
	}
	return end
}

// nextRenewal returns when to extend the lease, counted from the instant from. A shared lease is extended
// when the first of its extenders needs it. The caller holds mu.
func (s *lease) nextRenewal(from clock.Instant) clock.Instant {
	next := clock.Never
	for u := range s.extenders() {
		if s.joint == nil {
			return s.terms.NextRenewal(from)
		}
		if end := u.deadline(); end != clock.Never {
			next = min(next, from.After(max(min(u.ttl(), time.Duration(end-from)), 0)/terms.Renewals))
		}
	}
	return next
}

// plan plans the next renewal after a confirmed extension. from is the instant at which the extension was
// sent. The caller holds mu.
func (s *lease) plan(from clock.Instant) {
	if s.watch != nil {
		s.locker.renewals.Set((*scheduled)(s), s.nextRenewal(from), s.firstEnd())
	}
}

// advance gives the present deadline to the schedule, and plans the next extension for the instant at. An
// extension that is planned earlier stays. The caller holds mu.
func (s *lease) advance(at clock.Instant) {
	if s.watch == nil {
		return
	}
	for range s.extenders() {
		s.locker.renewals.Advance((*scheduled)(s), at, s.firstEnd())
		return
	}
	s.locker.renewals.Advance((*scheduled)(s), clock.Never, s.firstEnd())
}
