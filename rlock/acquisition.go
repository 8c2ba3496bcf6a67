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
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// acquisition is one call that is to get the keys of a Lock.
type acquisition struct {
	lock      *Lock
	ctx       context.Context
	start     clock.Instant
	tries     attempt.Attempts
	notice    *notify.Wait
	asked     int           // how often the retry policy was asked
	gaveUp    bool          // it has given up, and is not asked again
	pause     time.Duration // what the policy answered last
	until     clock.Instant // when that pause is over; before the first one, start
	delivered bool          // its events were delivered, and the lock delivers later ones
	role      line.Role     // among the callers of this process
	caller    *line.Caller  // while it Waits
	left      time.Duration // while it Waits: what is left of the lease in its way; 0: not known
	given     line.Grant    // while it is Given one that it does not hold yet
	forced    uint64        // how often the Locker had used force before
}

// noLock says why an acquisition has ended without the lock. The zero value says that it has not: it has
// the lock, or goes on.
type noLock struct{ err, cause error } // of an AcquireError

func (s noLock) none() bool { return s.err == nil }

// noLockOf returns the noLock of an acquisition that ends after an attempt.
func noLockOf(claim *remote.Claim, why attempt.Setback) noLock {
	switch why.Kind {
	case attempt.None:
		return noLock{}
	case attempt.Busy:
		return noLock{err: ErrHeld}
	case attempt.Transient, attempt.Ended:
		return noLock{ErrGaveUp, why.Err}
	}
	return noLock{err: limitError(claim, remote.NoAnswer(why.Err))}
}

// waitEnded returns the noLock of a call whose wait ended with err.
func waitEnded(err error) noLock {
	switch err {
	case clock.ErrStopped:
		return noLock{err: ErrClosed}
	case ErrHeld, ErrGaveUp:
		return noLock{err: err}
	}
	return noLock{ErrGaveUp, err}
}

// begin makes a, which is new, the acquisition of a claim's keys.
func (a *acquisition) begin(l *Locker, ctx context.Context, claim remote.Claim, set *settings, want wanted, start clock.Instant) {
	lock := l.newLock(ctx, claim, set, want, start)
	a.lock, a.ctx, a.start, a.until, a.forced = lock, ctx, start, start, l.forces.Done(lock.claim.Keys())
	a.tries.Settings = attempt.Settings{
		Server: l.remote, Grants: l.grants, Asker: line.Asker{Lease: (*inLine)(&lock.own)}, Claim: &lock.claim,
		Terms: &lock.terms, Want: lock.request(), Wait: want.wait, Start: start, Count: &lock.attempts,
		Silence: lock.own.line.Silence(),
	}
	attempt.Begin(&a.tries)
}

// acquireClaim acquires the keys of a claim.
func (l *Locker) acquireClaim(ctx context.Context, claim remote.Claim, set *settings, want wanted) (*Lock, error) {
	a, returned := acquisition{}, false
	a.begin(l, ctx, claim, set, want, clock.Now())
	defer a.leave() // also when an observer panics again
	defer func() {
		a.notice.Leave()
		if !returned {
			a.interrupted()
		}
	}()
	var err error
	if why := a.run(); !why.none() {
		err = a.fail(why)
	} else if a.forced != l.forces.Begun(claim.Keys()) {
		confirm(ctx, a.lock)
	}
	a.delivered = true
	a.lock.events.tell(false)
	returned = true
	if err != nil {
		return nil, err
	}
	return a.lock, nil
}

// confirm asks the server about a lock that has come while ForceRelease freed its key. That
// may have been this one, on its way from another caller of this process, where they do not see it. If ctx
// ends before there is an answer, or there is none for lookTimeout, it is asked in the background until there
// is one.
func confirm(ctx context.Context, l *Lock) {
	if asks(ctx, l) {
		return
	}
	go func() {
		for !asks(l.locker.background, l) && clock.Sleep(l.locker.background, confirmPause, nil) == nil {
		}
	}()
}

// confirmPause is the pause after a question that got no answer: a client that cannot connect says so at
// once.
const confirmPause = time.Second / 2

// asks asks the server about a lock, and reports whether there is nothing left to ask.
func asks(ctx context.Context, l *Lock) (done bool) {
	limited, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	_, err := l.Verify(limited)
	return err == nil || !remote.Transient(err) || !l.Valid()
}

// run acquires the lock, or says why it does not.
func (a *acquisition) run() noLock {
	why := a.precheck()
	if why.none() && !a.lock.want.wait {
		why = a.askAboutHolder()
	}
	if !why.none() {
		return why
	}
	for a.enter(true, a.start); ; {
		switch a.role {
		case line.Waits:
			if why = a.waitInLine(); !why.none() {
				return why
			}
		case line.Given:
			if has, why := a.receive(); has || !why.none() {
				return why
			}
		case line.Asks:
			if a.lock.locker.isClosed() {
				return noLock{err: ErrClosed}
			}
			a.enlist()
			grant, why := a.afterExpired(a.tries.Try(a.ctx))
			outcome := a.take(grant, why)
			if !a.lock.want.wait || !why.Passes() {
				return outcome
			}
			if ended := a.wait(why); !ended.none() {
				return ended
			}
		}
	}
}

// precheck ends an acquisition of which this process knows that it cannot succeed.
func (a *acquisition) precheck() noLock {
	l := a.lock.locker
	if key, held := l.heldIn(a.ctx, a.lock.claim.Keys()); held {
		a.tries.Blocker.Key = key
		return noLock{err: ErrAlreadyHeld}
	}
	if l.isClosed() {
		return noLock{err: ErrClosed}
	}
	return noLock{}
}

// localHolder returns the lease by which this Locker seems to hold the key, nil if there is none. The
// caller asks the server about it before the try. If that lease has lost its key, it then ends before the
// key is taken again.
func (a *acquisition) localHolder() *lease {
	if !a.tries.MayQueue() {
		return nil
	}
	if h := a.lock.locker.holder(a.lock.claim.Key()); h != nil && h.valid() {
		return h
	}
	return nil
}

// askAboutHolder asks the server about a lock of this Locker that seems to hold the key, if there is
// one. If the key is held, the acquisition ends.
func (a *acquisition) askAboutHolder() noLock {
	h := a.localHolder()
	if h == nil || a.ctx.Err() != nil { // then there is no try
		return noLock{}
	}
	a.tries.Outage.Ask()
	seen, lost, err := a.lock.locker.lookFor(a.ctx, &a.lock.claim, h)
	a.tries.Outage.Record(err)
	if err != nil {
		return noLockOf(&a.lock.claim, attempt.FailedCall(a.ctx, err))
	}
	return a.learn(seen, lost)
}

// learn takes the server's answer about a lock of this Locker that seemed to hold the key.
func (a *acquisition) learn(seen remote.Holder, lost bool) noLock {
	if !seen.Held {
		return noLock{}
	}
	a.lock.attempts++
	a.tries.Blocker.Sees(seen.End)
	a.contended(!lost)
	return noLock{err: ErrHeld}
}

// contended notes that another holds the key or, if local is true, that another acquisition or lock of
// this Locker is before this one. Only the first call has an effect.
func (a *acquisition) contended(local bool) {
	if a.lock.become(stateWaiting, a.start) {
		a.enlist()
		a.lock.emit(&Event{Kind: EventContended, Key: a.tries.Blocker.Key, Remaining: a.tries.Blocker.Left, Local: local})
	}
}

// behind notes that a lock or another acquisition of this Locker is before this one, and tells the observer.
// left is what is left of the lease in the way, as far as is known. It returns the time.
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

// hold begins to hold what the server has granted to the acquisition itself.
func (a *acquisition) hold(grant attempt.Grant, handedOver bool) noLock {
	l := a.lock
	how := arrival{kind: EventAcquired, start: a.start, handedOver: handedOver, atLeast: l.set.atLeast}
	if err := l.hold(grant.Deadline, grant.Fence, how); err != nil {
		a.tries.MayHaveTaken()
		return a.notHeld(err, grant.Deadline)
	}
	return noLock{}
}

// notHeld returns the noLock of a call that was granted the lock until deadline and does not hold it, with
// what Lock.hold returned.
func (a *acquisition) notHeld(err error, deadline clock.Instant) noLock {
	if err == expired {
		err = fmt.Errorf("%w: the lease of %v was over %v before the grant arrived; use a longer TTL",
			ErrExpired, a.lock.terms.TTL(), -deadline.Until())
	}
	return noLock{err: err}
}

// wait waits until another try is worth it.
func (a *acquisition) wait(why attempt.Setback) noLock {
	l := a.lock
	if why.Kind == attempt.Busy {
		l.events.tell(true)
	} else {
		l.become(stateUnanswered, a.start)
	}
	end := l.set.retry.end(a.start)
	if a.gaveUp || a.tries.AsksPolicy() {
		if !a.nextPause(clock.Now()) {
			return noLock{err: ErrGaveUp}
		}
		a.until = min(clock.Now().After(a.pause), end)
	}
	if a.notice == nil {
		a.notice = l.locker.newWait()
	}
	if err := a.tries.Pause(a.ctx, a.notice, why, a.pause, a.until, end); err != nil {
		return waitEnded(err)
	}
	return noLock{}
}

// nextPause asks the retry policy for the pause before the next attempt. It reports false if the
// policy gives up, or has given up before. now is a recent reading of the clock.
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

// fail ends the acquisition without the lock, and returns its error. It gives up the place in each queue
// and whatever its commands may have taken, and adds the event.
func (a *acquisition) fail(why noLock) error {
	l := a.lock
	if why.err == closed {
		why.err = ErrClosed // without ErrNotHeld, because the caller never held the lock
	}
	blocker, waited := &a.tries.Blocker, time.Duration(clock.Now()-a.start)
	if why.err == ErrGaveUp {
		why.cause = a.tries.Outage.Explain(why.cause, waited)
	}
	a.tries.Outage.Leave()
	a.tries.GiveUp()
	a.leave()
	contended := l.stateNow() == stateWaiting
	if contended {
		l.locker.counters.addWait(time.Duration(clock.Now()-a.start), l.want.wait)
	}
	l.become(stateFailed, a.start)
	kind := callTry
	if l.want.wait {
		kind = callWait
	}
	failed := &AcquireError{
		Key: blocker.Key, Attempts: l.Attempts(), Waited: waited,
		Err: failure(kind, blocker.Held, why), call: kind, contended: contended,
	}
	if !errors.Is(failed.Err, ErrNoAnswer) {
		failed.Remaining = blocker.Remaining()
	}
	l.emit(&Event{Kind: EventAcquireFailed, Key: failed.Key, Remaining: failed.Remaining, Contended: contended, Err: failed})
	return failed
}

// leave ends the part of an acquisition among the callers of this process, unless it has got the lock. It
// comes before observers are told, because one of them may take long.
func (a *acquisition) leave() {
	if a.caller != nil {
		_ = a.quit(noLock{})
	}
	a.passBy()
	if l := a.lock; l.stateNow() < stateHeld || l.stateNow() == stateFailed {
		l.own.line.Failed((*inLine)(&l.own))
		l.own.line.Ended((*inLine)(&l.own))
	}
}

// interrupted cleans up after an acquisition that does not return, because user code has
// panicked or ended the goroutine. It does not use the caller's context, because a method of
// that context may be what panicked.
func (a *acquisition) interrupted() {
	l := a.lock
	switch {
	case l.stateNow() < stateHeld:
		a.tries.Interrupted() // a command may be under way
		_ = a.fail(noLock{err: remote.ErrInterrupted})
	case l.stateNow() != stateFailed:
		keepNobodyOut(l)
		_ = l.Release(endedContext)
	}
	if !a.delivered {
		l.events.tell(false)
	}
}
