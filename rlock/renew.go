package rlock

import (
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/events"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
	"github.com/rlock-go/toolkit/rlock/internal/renew"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
)

// scheduled is a lease as the schedule of renewals sees it.
type scheduled lease

// Entry returns its place on the schedule.
func (s *scheduled) Entry() *renew.Entry { return &s.renewal }

// Begin starts an automatic extension, and returns what to ask the server for. It reports false if
// nobody is left who wants it.
func (s *scheduled) Begin() (sent terms.Extension, ask remote.Extension, ok bool) {
	lease := (*lease)(s)
	lease.mu.Lock()
	defer lease.unlock()
	now := clock.Now()
	lease.endOver(now)
	ttl := time.Duration(0)
	for u := range lease.wanted() {
		ttl = max(ttl, u.ttl())
	}
	switch {
	case !lease.used():
		return sent, ask, false
	case lease.joint == nil:
		sent = lease.terms.BeginRenewal(now)
	case ttl == 0: // those who wanted it have left
		lease.due = clock.Never
		lease.replan()
		return sent, ask, false
	default:
		sent = lease.terms.BeginJoint(now, ttl)
	}
	return sent, extension(lease, sent), true
}

// Settle takes the answer of an automatic extension. One that got an error or no answer is tried
// again soon, until the lease ends.
func (s *scheduled) Settle(sent terms.Extension, answer remote.Extended) {
	lease := (*lease)(s)
	lease.mu.Lock()
	defer lease.unlock()
	if err, _ := settle(lease, nil, sent, answer); err != nil {
		lease.advance(clock.Now().After(renew.RetryPause(sent.TTL)))
	}
}

// Expire ends the locks whose time is over, or all if the Locker is closed. If some are left, the lease comes
// back on the schedule.
func (s *scheduled) Expire() {
	lease := (*lease)(s)
	lease.mu.Lock()
	defer lease.unlock()
	lease.endOver(clock.Now())
	if lease.used() {
		lease.beWatched()
	}
}

// nextRenewal returns when to extend the lease, counted from the instant from: a joint one as soon as one of
// those who want it extended needs it. The caller holds mu.
func (s *lease) nextRenewal(from clock.Instant) clock.Instant {
	next := clock.Never
	for u := range s.wanted() {
		if s.joint == nil {
			return s.terms.NextRenewal(from)
		}
		if end := u.deadline(); end != clock.Never {
			next = min(next, from.After(max(min(u.ttl(), time.Duration(end-from)), 0)/terms.Renewals))
		}
	}
	return next
}

// plan plans the next renewal after an extension that was sent at from and is confirmed. The
// caller holds mu.
func (s *lease) plan(from clock.Instant) {
	if s.watch != nil {
		s.due = s.nextRenewal(from)
		s.replan()
	}
}

// replan tells the schedule. The lease is watched, and the caller holds mu.
func (s *lease) replan() { s.locker.renewals.Set((*scheduled)(s), s.due, s.firstEnd()) }

// advance passes the present deadline to the schedule, and plans the next extension for at. An
// extension that is planned for earlier stays. The caller holds mu.
func (s *lease) advance(at clock.Instant) {
	if s.watch == nil {
		return
	}
	for range s.wanted() {
		s.locker.renewals.Advance((*scheduled)(s), at, s.firstEnd())
		return
	}
	s.locker.renewals.Advance((*scheduled)(s), clock.Never, s.firstEnd())
}

// deliverScheduled tells the observers of those who have leases on the schedule.
func deliverScheduled(some []*scheduled) {
	events.Each(some, func(s *scheduled) { (*lease)(s).deliver() })
}
