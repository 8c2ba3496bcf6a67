package rlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/attempt"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/line"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// acquisition is one call that acquires the keys of a Lock.
type acquisition struct {
	lock      *Lock
	ctx       context.Context
	start     clock.Instant
	tries     attempt.Attempts
	notice    *notify.Wait
	asked     int           // how often the retry policy answered
	gaveUp    bool          // the retry policy has given up
	pause     time.Duration // the last answer of the policy
	until     clock.Instant // the end of that pause; before the first pause, start
	delivered bool          // the observer has its events; the lock delivers later events
	role      line.Role     // in the line
	caller    *line.Caller  // while it Waits
	left      time.Duration // while it Waits: time left of the lease in its way; 0: not known
	given     line.Grant    // while it is Given a lease that it does not hold yet
}

// noLockOf returns the noLock of an acquisition that ends after an attempt.
func noLockOf(claim *wire.Claim, why attempt.Setback) noLock {
	switch why.Kind {
	case attempt.None:
		return noLock{}
	case attempt.Busy:
		return noLock{err: ErrHeld}
	case attempt.Transient, attempt.Ended:
		return noLock{ErrGaveUp, why.Err}
	}
	return noLock{err: wire.NoAnswer(why.Err)}
}

// contended notes that another token holds the key. With local, another acquisition or lock of this Locker is
// in the way. Only the first call has an effect.
func (a *acquisition) contended(local bool) {
	if a.lock.become(stateWaiting, a.start) {
		a.enlist()
		a.lock.emit(&Event{Kind: EventContended, Key: a.tries.Blocker.Key, Remaining: a.tries.Blocker.Left,
			Local: local})
	}
}

// behind notes that a lock or another acquisition of this Locker is in the way. It tells the observer, and
// returns the present time. left is the time left of the lease in the way, if known.
func (a *acquisition) behind(left time.Duration, now clock.Instant) clock.Instant {
	a.tries.Blocker = attempt.Blocker{Key: a.lock.claim.Key(), Left: left, At: now, Held: true}
	a.contended(true)
	if a.lock.events == nil {
		return now
	}
	a.lock.events.tell(true)
	return clock.Now()
}

// take takes the outcome of an attempt: it begins to hold the lock that the server has granted.
func (a *acquisition) take(grant attempt.Grant, why attempt.Setback) noLock {
	if a.tries.Blocker.Held {
		a.contended(false)
	}
	if why.Kind != attempt.None {
		return noLockOf(&a.lock.claim, why)
	}
	return a.hold(grant, false)
}

// hold begins to hold a lock that the server has granted to this acquisition.
func (a *acquisition) hold(grant attempt.Grant, handedOver bool) noLock {
	l := a.lock
	how := arrival{kind: EventAcquired, start: a.start, handedOver: handedOver, minHold: l.set.minHold}
	if err := l.hold(grant.Deadline, grant.Fence, how); err != nil {
		a.tries.MayHaveTaken()
		return a.notHeld(err, grant.Deadline)
	}
	return noLock{}
}

// notHeld returns the noLock of a call that does not hold its lock although the server has granted it until
// deadline. err is the error of Lock.hold.
func (a *acquisition) notHeld(err error, deadline clock.Instant) noLock {
	if errors.Is(err, expired) {
		err = fmt.Errorf("%w: the lease of %v was over %v before the grant arrived; use a longer TTL",
			ErrExpired, a.lock.terms.TTL(), -deadline.Until())
	}
	return noLock{err: err}
}

// nextPause asks the retry policy for the pause before the next attempt. It returns false if the policy gives
// up, or has given up before. now is a recent reading of the clock.
func (a *acquisition) nextPause(now clock.Instant) (more bool) {
	if a.gaveUp {
		return false
	}
	a.asked++
	a.pause, more = a.lock.set.retry.next(Attempt{
		Number: a.asked, Elapsed: time.Duration(now - a.start), Previous: a.pause, Remaining: a.tries.Blocker.Left,
	})
	a.gaveUp = !more
	return more
}

// enlist lists an acquisition that waits, or may have to wait for an answer.
func (a *acquisition) enlist() {
	if l := a.lock; l.by.wait && !l.waits {
		l.waits = true
		l.locker.waiters.Add((*waiter)(l))
	}
}

// request returns the properties of the lock that the acquisition asks for.
func (l *Lock) request() line.Want {
	return line.Want{
		TTL: l.terms.TTL(), Owner: l.set.owner, Extends: l.extends(), Own: l.set.uniqueToken,
		Fenced: !l.set.unfenced, Full: l.set.minHold > 0, Slow: l.events != nil || l.set.retry.slow,
	}
}
