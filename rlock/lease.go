package rlock

import (
	"iter"
	"slices"
	"sync"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/events"
	"github.com/rlock-go/toolkit/rlock/internal/line"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
	"github.com/rlock-go/toolkit/rlock/internal/renew"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
)

// lease is what the server has given to this process. It alone is renewed, watched, lost and given back: the
// Locks that use it are handles. Whoever gives a lease on gives its pointer on, and while it is on its way
// nobody uses it. It has one mutex, for itself and for the Locks that use it.
//
// A mutex of the registry, of a queue of this process, or of the schedule may be locked under mu, and never
// mu under one of them.
type lease struct {
	mu     sync.Mutex
	locker *Locker
	claim  remote.Claim // its keys, and the commands for them that got no answer
	terms  terms.Terms  // guarded by mu from when a Lock holds it
	fence  uint64       // of who has it, or had it last; guarded by mu
	user   *Lock        // who has it alone; guarded by mu
	joint  *joint       // readers who have it together; nil: no others may have it; guarded by mu
	*watch              // nil until somebody must learn when it is over; made under mu, once
	line   line.Lease   // that the line has in which callers of this process wait for it
	state  leaseState   // guarded by mu
	shown  bool         // somebody has asked for the token, and may use it; guarded by mu
}

// joint are the readers who share a lease. The line also counts those who are about to.
type joint struct{ users []*Lock } // guarded by the lease's mu

// watch is what a lease needs that is renewed or watched.
type watch struct {
	renewal renew.Entry
	monitor notify.Entry
	due     clock.Instant // of the next renewal; guarded by mu
	ended   *lockContext  // the first of the contexts that are to end; guarded by mu
	told    *observed     // the first of those that are to be told; guarded by mu
}

// leaseState is the state of a lease. Lock.hold begins it, and retire ends it.
//
//	asked ─▶ live ─▶ back, lost, expired, detached or closed
//
// A lease that is on its way from one Lock to the next is live.
type leaseState uint8

const (
	leaseAsked leaseState = iota // the server has not granted it yet
	leaseLive                    // it is renewed if somebody wants that, and its loss is noticed
	leaseBack                    // it is given back, or about to be
	leaseLost
	leaseExpired
	leaseDetached
	leaseClosed
)

// endedBy has, for each state in which the last user has ended, that of the lease.
var endedBy = [...]leaseState{
	stateReleased: leaseBack,
	stateLost:     leaseLost,
	stateExpired:  leaseExpired,
	stateDetached: leaseDetached,
	stateClosed:   leaseClosed,
}

// unlock ends a critical section of mu. The contexts of the Locks that have ended in it end after it, because
// that calls methods of their callers' contexts, which may panic, or ask these very Locks.
func (s *lease) unlock() {
	var ended *lockContext
	if s.watch != nil {
		ended, s.ended = s.ended, nil
	}
	s.mu.Unlock()
	ended.endAll()
}

// deliver tells the observers of all Locks about which something has happened. The caller holds no mutex.
func (s *lease) deliver() { events.Each(s.toTell(), (*observed).deliver) }

// toldOf notes that an observer is to be told. A lock that has one is watched. The caller holds mu.
func (s *lease) toldOf(o *observed) {
	if !o.listed {
		o.listed, o.next, s.told = true, s.told, o
	}
}

// toTell takes those that are to be told.
func (s *lease) toTell() (told []*observed) {
	s.mu.Lock()
	defer s.unlock()
	if s.watch == nil {
		return nil
	}
	for o := s.told; o != nil; {
		told = append(told, o)
		o.listed, o.next, o = false, nil, o.next
	}
	s.told = nil
	return told
}

// used reports whether a Lock has the lease. The caller holds mu.
func (s *lease) used() bool { return s.user != nil || s.joint != nil && len(s.joint.users) > 0 }

// users are the Locks that have the lease. They may end meanwhile. The caller holds mu.
func (s *lease) users() iter.Seq[*Lock] {
	return func(yield func(*Lock) bool) {
		if s.joint == nil {
			if s.user != nil {
				yield(s.user)
			}
			return
		}
		for _, u := range slices.Backward(s.joint.users) { // leave moves the last one
			if !yield(u) {
				return
			}
		}
	}
}

// wanted are those who want the lease extended. The caller holds mu.
func (s *lease) wanted() iter.Seq[*Lock] {
	return func(yield func(*Lock) bool) {
		for u := range s.users() {
			if u.extends() && !yield(u) {
				return
			}
		}
	}
}

// join makes l a user. The caller holds mu.
func (s *lease) join(l *Lock) {
	l.uses = true
	if s.joint == nil {
		s.user = l
		return
	}
	l.position = int32(len(s.joint.users))
	s.joint.users = append(s.joint.users, l)
}

// part undoes join. The caller holds mu.
func (s *lease) part(l *Lock) {
	if !l.uses {
		return
	}
	l.uses = false
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

// share has other readers join the lease from now on. The caller, who has it, holds mu.
func (s *lease) share() {
	l := s.user
	s.user, s.joint = nil, &joint{}
	l.until.Store(int64(s.terms.Deadline()))
	s.join(l)
}

// alone gives the lease to the only one who has it, if no other can join any more. It reports whether the
// caller, who has it, has it alone. The caller holds mu.
func (s *lease) alone() bool {
	switch {
	case s.joint == nil:
		return true
	case !s.line.Own((*inLine)(s)):
		return false
	}
	l := s.joint.users[0]
	s.joint = nil
	s.join(l)
	s.terms.Prepare(l.ttl(), s.terms.Token())
	if s.terms.Deadline() == clock.Instant(l.until.Load()) {
		l.until.Store(int64(clock.Never))
	}
	return true
}

// valid reports whether the lease is live as far as this process knows.
func (s *lease) valid() bool {
	s.mu.Lock()
	defer s.unlock()
	return s.state == leaseLive && s.terms.Deadline() > clock.Now()
}

// renewed reports whether the lease is extended automatically, which one without an end is not.
func (s *lease) renewed() bool {
	s.mu.Lock()
	defer s.unlock()
	for range s.wanted() {
		return s.terms.Deadline() != clock.Never
	}
	return false
}

// done gives a lease that one who had it as he wanted, or was given it, does not use any more to the first
// who waits for it in this process, unless plain is true. back reports that nobody has it, so that the
// caller gives it back. next is to be sent when the caller does not hold mu any more, which it holds now.
func (s *lease) done(now clock.Instant, as line.Want, plain bool) (back bool, next *clock.Signal) {
	e := line.Event{Now: now, Plain: true}
	// A command without an answer may take the key for the token later. Whoever gives that up must know.
	if !plain && s.state == leaseLive && s.claim.Possible() == 0 && len(s.terms.Former()) == 0 {
		server := s.locker.remote
		e.Plain, e.Blind = false, !server.Queues().Used()
		e.Want, e.Sealed = as, s.shown || !s.terms.Certain()
		e.Want.TTL = s.terms.TTL()
		e.RoundTrip = server.RoundTrip()
	}
	return s.line.Done((*inLine)(s), e)
}

// leave gives a lease that somebody was given, and does not use, to the next, or back. The caller does not
// hold mu.
func (s *lease) leave(as line.Want, plain bool) {
	s.mu.Lock()
	back, next := s.done(clock.Now(), as, plain)
	s.unlock()
	next.Send()
	if back {
		s.giveBack()
	}
}

// retire ends the lease: nobody joins it, and nothing renews or watches it any more. The first end counts.
// The caller holds mu.
func (s *lease) retire(to leaseState) {
	if s.state > leaseLive {
		return
	}
	s.state = to
	if to != leaseBack { // otherwise the key is free later
		s.line.Ended((*inLine)(s))
	}
	if s.watch == nil {
		return
	}
	s.locker.renewals.Remove((*scheduled)(s))
	if s.locker.monitor != nil {
		s.locker.monitor.Remove((*monitored)(s))
	}
}

// giveBack gives back a lease that nobody has, in the background. The caller does not hold mu.
func (s *lease) giveBack() {
	s.mu.Lock()
	defer s.unlock()
	s.retire(leaseBack)
	s.locker.remote.Abandon(&s.claim, s.terms.Tokens(), s.terms.TTL(), 1)
	s.tokenOver(false)
	s.line.Ended((*inLine)(s))
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

// endOver ends the users whose time is over. The caller holds mu.
func (s *lease) endOver(now clock.Instant) {
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

// version returns the version of the lease.
func (s *lease) version() terms.Version {
	s.mu.Lock()
	defer s.unlock()
	return s.terms.Version()
}

// watchFor has the lease watched for those who wait for its end. A nil one is none.
func (s *lease) watchFor() {
	if s == nil {
		return
	}
	defer s.deliver()
	s.mu.Lock()
	defer s.unlock()
	if s.state == leaseLive {
		s.beWatched()
	}
}

// expire ends the users whose time is over.
func (s *lease) expire() {
	defer s.deliver()
	s.mu.Lock()
	defer s.unlock()
	s.endOver(clock.Now())
}

// firstEnd is when the first of the users ends. The caller holds mu.
func (s *lease) firstEnd() clock.Instant {
	end := s.terms.Deadline()
	for u := range s.users() {
		end = min(end, u.deadline())
	}
	return end
}

// beWatched puts the lease on the schedule of renewals, which extends it, or only ends its users on time, and
// has the monitor look after it if the server tells of changed keys. If the Locker is closed, it ends the
// users and reports false. The caller holds mu.
func (s *lease) beWatched() bool {
	if s.watch == nil {
		s.watch = &watch{due: clock.Never}
	}
	s.due = min(s.due, s.nextRenewal(clock.Now()))
	if !s.locker.renewals.Add((*scheduled)(s), s.due, s.firstEnd()) {
		s.endOver(clock.Now())
		return false
	}
	s.locker.renewals.Advance((*scheduled)(s), s.due, s.firstEnd())
	if s.locker.monitor != nil {
		s.locker.monitor.Add((*monitored)(s))
	}
	return true
}
