package rlock

import (
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/events"
	"github.com/rlock-go/toolkit/rlock/internal/lease"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
	"github.com/rlock-go/toolkit/rlock/internal/renew"
)

// scheduled is a Lock as the schedule of renewals sees it.
type scheduled Lock

// Entry returns the lock's place on the schedule.
func (s *scheduled) Entry() *renew.Entry { return &s.renewal }

// Begin starts an automatic extension, and returns what to ask the server for. It reports false if
// the lock has ended.
func (s *scheduled) Begin() (sent lease.Extension, ask remote.Extension, ok bool) {
	lock := (*Lock)(s)
	lock.mu.Lock()
	defer lock.unlock()
	lock.endIfOver()
	if lock.cause() != nil {
		return sent, ask, false
	}
	extendsForAll(lock)
	sent = lock.lease.BeginRenewal(clock.Now())
	return sent, extension(lock, sent), true
}

// Settle takes the answer of an automatic extension. One that got an error or no answer is tried
// again soon, until the lease ends.
func (s *scheduled) Settle(sent lease.Extension, answer remote.Extended) {
	lock := (*Lock)(s)
	lock.mu.Lock()
	defer lock.unlock()
	if err, _ := settle(lock, sent, answer); err != nil {
		s.advance(clock.Now().After(renew.RetryPause(sent.TTL)))
	}
}

// Expire ends the lock, as its lease is over or the Locker is closed. If it was extended
// meanwhile, it comes back on the schedule.
func (s *scheduled) Expire() {
	lock := (*Lock)(s)
	lock.mu.Lock()
	defer lock.unlock()
	lock.endIfOver()
	if lock.cause() == nil {
		lock.watch()
	}
}

// next returns when to extend the lock, counted from the instant from. The caller holds mu.
func (s *scheduled) next(from clock.Instant) clock.Instant {
	if !s.set.extends(s.want.do) {
		return clock.Never
	}
	return s.lease.NextRenewal(from)
}

// plan plans the next renewal after an extension that was sent at from and is confirmed. The
// caller holds mu.
func (s *scheduled) plan(from clock.Instant) {
	if s.extras != nil {
		s.locker.renewals.Set(s, s.next(from), s.lease.Deadline())
	}
}

// advance passes the present deadline to the schedule, and plans the next extension for at. An
// extension that is planned for earlier stays. The caller holds mu.
func (s *scheduled) advance(at clock.Instant) {
	if !s.set.extends(s.want.do) {
		at = clock.Never
	}
	if s.extras != nil {
		s.locker.renewals.Advance(s, at, s.lease.Deadline())
	}
}

// deliverScheduled tells the observers of locks on the schedule.
func deliverScheduled(some []*scheduled) {
	events.Each(some, func(s *scheduled) { (*Lock)(s).deliver() })
}
