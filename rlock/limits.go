package rlock

import (
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// stopGrace is how long the Locker extends a lock for a function whose context has ended. It is twice the
// time in which most platforms let a process end.
const stopGrace = time.Minute

// limit ends the lock at an instant, unless the lock ends earlier. The caller holds mu.
func (l *Lock) limit(at clock.Instant) {
	if at < l.limited() {
		l.needExtras()
		l.limitedTo = at
		l.setEnd(clock.Instant(l.until.Load()))
	}
}

// limited returns the latest end of the lock, however often it is extended. The caller holds mu.
func (l *Lock) limited() clock.Instant {
	if l.extras == nil || l.limitedTo == 0 {
		return clock.Never
	}
	return l.limitedTo
}

// setEnd sets the lock's own end. The caller holds mu.
func (l *Lock) setEnd(end clock.Instant) { l.until.Store(int64(min(end, l.limited()))) }

// limitStopped limits a lock whose function goes on after its context has ended. The present lease stays. The
// caller holds mu.
func (l *Lock) limitStopped(now clock.Instant) {
	if l.by.do && l.extras != nil && l.ctx != nil && l.ctx.Err() != nil {
		l.limit(max(now.After(stopGrace), l.deadline()))
	}
}

// longestRenewal returns the lease with which the lock would end at its limit, or NoExpiry without a limit.
// The caller holds mu.
func (l *Lock) longestRenewal(now clock.Instant) time.Duration {
	end := l.limited()
	if end == clock.Never {
		return NoExpiry
	}
	return clock.LeaseFor(time.Duration(end - now))
}

// stopsAt returns when the Context ends before the lock, or Never. The caller holds mu.
func (l *Lock) stopsAt() clock.Instant {
	if l.set.stopBefore == 0 || l.extras == nil || l.ctx == nil || l.ctx.over != nil {
		return clock.Never
	}
	end := l.deadline()
	if end == clock.Never {
		return end
	}
	return end - clock.Instant(l.set.stopBefore)
}

// endContext ends the Context at the end of the critical section. Only its first end counts. The caller holds
// mu.
func (l *Lock) endContext(why *reason) {
	if l.extras == nil || l.ctx == nil || l.ctx.over != nil {
		return
	}
	l.ctx.over, l.ctx.next, l.lease.ended = why, l.lease.ended, l.ctx
}
