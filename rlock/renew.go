package rlock

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/events"
	"github.com/rlock-go/toolkit/rlock/internal/renew"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Begin starts an automatic extension, and returns the request to the server. It returns false if no user
// wants an extension any more.
func (s *scheduled) Begin() (sent terms.Extension, ask wire.Extension, ok bool) {
	lease := (*lease)(s)
	lease.mu.Lock()
	defer lease.unlock()
	now := clock.Now()
	lease.endOverdue(now)
	ttl, most := time.Duration(0), NoExpiry
	for u := range lease.extenders() {
		u.limitStopped(now)
		most = u.longestRenewal(now)
		ttl = max(ttl, min(u.ttl(), most))
	}
	switch {
	case ttl == 0: // the users that wanted it have left
		if lease.used() {
			lease.plan(now)
		}
		return sent, ask, false
	case lease.joint == nil:
		sent = lease.terms.BeginRenewal(now, most)
	default:
		sent = lease.terms.BeginJoint(now, ttl)
	}
	return sent, lease.extension(sent), true
}

// Settle takes the answer to an automatic extension. After an error or no answer, the schedule tries again
// soon, until the lease ends.
func (s *scheduled) Settle(sent terms.Extension, answer wire.Extended) {
	lease := (*lease)(s)
	lease.mu.Lock()
	defer lease.unlock()
	if err, _ := lease.settle(nil, sent, answer); err != nil {
		lease.advance(clock.Now().After(renew.RetryPause(sent.TTL)))
	}
}

// Expire ends the locks whose time is over, or all locks if the Locker is closed. If some locks are left, the
// lease returns to the schedule.
func (s *scheduled) Expire() {
	lease := (*lease)(s)
	lease.mu.Lock()
	defer lease.unlock()
	lease.endOverdue(clock.Now())
	if lease.used() {
		lease.watchOrEnd()
	}
}

// deliverScheduled tells the observers of the leases on the schedule.
func deliverScheduled(some []*scheduled) {
	events.Each(some, func(s *scheduled) { (*lease)(s).deliver() })
}

// extension returns the request to the server.
func (l *lease) extension(sent terms.Extension) wire.Extension {
	return wire.Extension{Parts: l.claim.BySlot(), Token: sent.Token, Former: sent.Former, TTL: sent.TTL}
}

// settle takes the answer to an extension for the lock by, or for the schedule if by is nil. It returns nil
// if the lease is extended, and then plans the next renewal. With open, the outcome is unknown, so another
// try makes sense. The caller holds mu.
func (s *lease) settle(by *Lock, sent terms.Extension, answer wire.Extended) (err error, open bool) {
	s.endOverdue(clock.Now()) // an answer that comes after the deadline revives nothing
	deadline := s.terms.Deadline()
	switch renew.Take(&s.terms, sent, answer, !s.used()) {
	case renew.Lost:
		s.lose()
		return &LockError{"extend", answer.Lost, cmp.Or(s.endOf(by), lost)}, false
	case renew.Failed:
		return s.failed(by, answer.Err, s.terms.Deadline() != deadline)
	case renew.Superseded:
		if s.endOf(by) == nil {
			return errSuperseded, true
		}
	}
	s.endOverdue(clock.Now()) // a lease that was over when its answer came stays over
	if cause := s.endOf(by); cause != nil {
		if errors.Is(cause, expired) && by != nil && !s.used() && !by.leaseGone {
			by.freeExpired(sent.TTL) // the keys now have a whole lease that no lock uses
		}
		return &LockError{"extend", s.claim.Key(), cause}, false
	}
	for _, token := range sent.Former {
		if !slices.Contains(s.terms.Former(), token) {
			s.locker.grants.Over(token)
		}
	}
	s.lengthen(by, sent)
	s.plan(sent.Sent)
	return nil, false
}

// endOf returns why the lock by has ended, or nil. If by is nil, it returns why no Lock has the lease any
// more. The caller holds mu.
func (s *lease) endOf(by *Lock) *reason {
	switch {
	case by != nil:
		return by.cause()
	case !s.used():
		return expired
	}
	return nil
}

// lengthen moves the ends of the locks of a confirmed extension, and tells their observers. These are the
// lock by, or the extenders of a shared lease, each by its own TTL. The caller holds mu.
func (s *lease) lengthen(by *Lock, sent terms.Extension) {
	if s.joint == nil {
		s.user.setEnd(clock.Never) // other readers may have shared it
		s.user.emit(&Event{Kind: EventExtended})
		return
	}
	end := clock.LeaseEnd(sent.Sent, sent.TTL)
	if by != nil {
		by.needExtras()
		by.extendTTL = sent.TTL
		by.setEnd(max(by.deadline(), end))
		by.emit(&Event{Kind: EventExtended})
		return
	}
	for u := range s.extenders() {
		u.setEnd(max(u.deadline(), min(end, clock.LeaseEnd(sent.Sent, u.ttl()))))
		u.emit(&Event{Kind: EventExtended})
	}
}

// tell adds an event for the lock by, or for each extender if by is nil. The caller holds mu.
func (s *lease) tell(by *Lock, e *Event) {
	if by != nil {
		by.emit(e)
		return
	}
	for u := range s.extenders() {
		each := *e
		u.emit(&each)
	}
}

// failed is settle for an extension with an error or no answer, which may have moved the deadline. The caller
// holds mu.
func (s *lease) failed(by *Lock, err error, moved bool) (_ error, open bool) {
	if s.terms.Unsure() && s.used() && s.watch == nil && !s.claim.Chosen() {
		s.watchOrEnd() // the Locker must free the keys when the lock expires; see ended
	}
	if moved {
		s.advance(clock.Never)
	}
	open = wire.OutcomeOf(err) == wire.Indeterminate
	told := &LockError{"extend", s.claim.Key(), wire.NoAnswer(err)}
	if by == nil || by.cause() == nil {
		s.tell(by, &Event{Kind: EventExtendFailed, Err: told})
	}
	if open {
		return err, true
	}
	return told, false
}
