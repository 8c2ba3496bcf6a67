package rlock

import (
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/lease"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
	"github.com/rlock-go/toolkit/rlock/internal/renew"
)

// scheduled is a Lock as the schedule of renewals sees it.
type scheduled Lock

// Entry returns the lock's place on the schedule.
func (s *scheduled) Entry() *renew.Entry { return &s.renewal }

// Begin begins an automatic extension, by the lease that the lock has. It reports false if the
// lock has ended.
func (s *scheduled) Begin() (sent lease.Extension, ask remote.Extension, ok bool) {
	lock := (*Lock)(s)
	lock.mu.Lock()
	defer lock.mu.Unlock()
	lock.expire()
	if lock.cause() != nil {
		return sent, ask, false
	}
	x := extending{lock: lock, sent: lock.lease.BeginRenewal(clock.Now())}
	return x.sent, x.remote(), true
}

// Settle takes the answer of an automatic extension, and plans the next one. One that got an
// error or no answer is tried again soon, until the lease ends.
func (s *scheduled) Settle(sent lease.Extension, answer remote.Extended) {
	lock := (*Lock)(s)
	lock.mu.Lock()
	defer lock.mu.Unlock()
	x := extending{lock: lock, sent: sent}
	if x.settle(answer) != nil {
		s.advance(clock.Now().After(renew.RetryPause(sent.TTL)))
		return
	}
	s.plan(sent)
}

// Expire ends the lock. If it was extended meanwhile, it stays on the schedule.
func (s *scheduled) Expire() {
	lock := (*Lock)(s)
	lock.mu.Lock()
	defer lock.mu.Unlock()
	lock.expire()
	if lock.cause() == nil {
		lock.watch()
	}
}

// next returns when to extend a lock whose lease began at from. The caller holds mu.
func (s *scheduled) next(from clock.Instant) clock.Instant {
	if !s.set.extends(s.want.do) {
		return clock.Never
	}
	return s.lease.NextRenewal(from)
}

// plan plans the next renewal after a confirmed extension. The caller holds mu.
func (s *scheduled) plan(confirmed lease.Extension) {
	if s.lifetime != nil {
		s.locker.renewals.Set(s, s.next(confirmed.Sent), s.lease.Deadline())
	}
}

// advance tells the schedule that the deadline has changed. The schedule then extends the lock
// at that instant, or earlier if that is planned. The caller holds mu.
func (s *scheduled) advance(at clock.Instant) {
	if !s.set.extends(s.want.do) {
		at = clock.Never
	}
	if s.lifetime != nil {
		s.locker.renewals.Advance(s, at, s.lease.Deadline())
	}
}

// deliverScheduled tells the observers of locks on the schedule.
func deliverScheduled(some []*scheduled) { deliverAll(locksOn(some)) }

// closeAll ends the locks that are on the schedule, and returns them.
func closeAll(renewals *renew.Schedule[*scheduled]) []*Lock {
	locks := locksOn(renewals.Close())
	for _, lock := range locks {
		lock.mu.Lock()
		lock.finish(stateClosed)
		lock.mu.Unlock()
	}
	return locks
}

func locksOn(schedule []*scheduled) []*Lock {
	locks := make([]*Lock, len(schedule))
	for i, s := range schedule {
		locks[i] = (*Lock)(s)
	}
	return locks
}
