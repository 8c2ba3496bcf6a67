package rlock

import (
	"context"
	"errors"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/attempt"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/line"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Acquire takes the lock of key. It waits until ctx ends or the retry policy gives up. With DefaultRetry and
// a context that never ends, it waits for ever. It also waits for a server that does not answer or cannot
// serve yet (see "Errors" above). WithTTL sets the lease. Without WithAutoExtend, the Locker does not extend
// the lease.
//
// After success the caller must Release the lock, even if ctx has ended. After an error the caller holds
// nothing. If the server may have granted the lock without an answer, the Locker frees it in the background
// (but see WithToken).
//
// The error is an *AcquireError, which names the key in the way. It matches one or more of these:
//
//   - ErrGaveUp and what ended the wait
//   - ErrNoAnswer if the server has not answered: test this before ErrGaveUp, because an error may match both
//   - ErrAlreadyHeld if ctx is the context of a holder of the key
//   - ErrExpired if the grant came after the end of its lease
//   - ErrClosed, or the error of the server
//
// A wrong argument is an *ArgumentError.
func (l *Locker) Acquire(ctx context.Context, key string, opts ...Option) (*Lock, error) {
	return l.acquire(ctx, key, opts, method{wait: true})
}

// TryAcquire is Acquire without waiting. The error matches ErrHeld if another token holds the lock, or if
// others wait for the lock. Give ctx a deadline: in a silent network the call lasts as long as the time-outs
// of the client, some 20 seconds.
func (l *Locker) TryAcquire(ctx context.Context, key string, opts ...Option) (*Lock, error) {
	return l.acquire(ctx, key, opts, method{})
}

// AcquireAll takes the locks of all keys or none, and waits like Acquire. The set is one Lock with one token,
// one fence and one lease. Overlapping sets cannot deadlock, in any order of their keys.
//
// A set that waits has a place in the queue of one key after the other, so locks of single keys cannot keep
// the set waiting for ever. A set that has waited for each of its keys keeps the keys that it gets; see
// docs/GUARANTEES.md. On a Redis Cluster all keys must be in one slot: give them one {hash tag}, or see
// WithCrossSlot.
func (l *Locker) AcquireAll(ctx context.Context, keys []string, opts ...Option) (*Lock, error) {
	return l.acquireAll(ctx, keys, opts, method{wait: true})
}

// TryAcquireAll is AcquireAll without waiting. Like TryAcquire it overtakes no waiter.
func (l *Locker) TryAcquireAll(ctx context.Context, keys []string, opts ...Option) (*Lock, error) {
	return l.acquireAll(ctx, keys, opts, method{})
}

func (l *Locker) acquire(ctx context.Context, key string, opts []Option, by method) (*Lock, error) {
	set, full, err := l.beginKey(ctx, key, opts)
	if err != nil {
		return nil, err
	}
	return l.acquireClaim(ctx, wire.One(full), set, by)
}

func (l *Locker) acquireAll(ctx context.Context, keys []string, opts []Option, by method) (*Lock, error) {
	set, err := l.begin(ctx, opts)
	if err != nil {
		return nil, err
	}
	full, err := l.redisKeys(set, keys)
	if err != nil {
		return nil, err
	}
	claim := l.wire.All(full, set.crossSlot)
	if claim.SpansSlots() && set.token != "" {
		if err := l.onRedis("WithToken"); err != nil { // a Backend takes a set key by key
			return nil, err
		}
		return nil, invalid("WithToken",
			"a set of several slots cannot have it; leave it out, or give the keys the same {hash tag}")
	}
	return l.acquireClaim(ctx, claim, set, by)
}

// acquireClaim acquires the keys of a claim.
func (l *Locker) acquireClaim(
	ctx context.Context, claim wire.Claim, set *settings, by method,
) (*Lock, error) {
	if l.underway.Enter() {
		defer l.underway.Leave()
	}
	a, returned := acquisition{}, false
	a.begin(l, ctx, claim, set, by, clock.Now())
	if by.wait && set.retry.total > 0 {
		limited, cancel := set.retry.bound(ctx)
		defer cancel()
		a.ctx = limited // and not the lock's
	}
	defer a.leave() // even if an observer panics again
	defer func() {
		a.notice.Leave()
		if !returned {
			a.interrupted()
		}
	}()
	var err error
	if why := a.run(); !why.none() {
		err = a.fail(why)
	}
	a.delivered = true
	a.lock.events.tell(false)
	returned = true
	if err != nil {
		return nil, err
	}
	return a.lock, nil
}

// begin makes a, which is new, the acquisition of a claim's keys.
func (a *acquisition) begin(
	l *Locker, ctx context.Context, claim wire.Claim, set *settings, by method, start clock.Instant,
) {
	lock := l.newLock(ctx, claim, set, by, start)
	a.lock, a.ctx, a.start, a.until = lock, ctx, start, start
	a.tries.Settings = attempt.Settings{
		Server: l.wire, Grants: l.grants, Line: lock.own.handle(), Claim: &lock.claim,
		Terms: &lock.terms, Want: lock.request(), Wait: by.wait, Start: start, Count: &lock.attempts,
	}
	attempt.Begin(&a.tries)
}

// run acquires the lock, or says why it does not.
func (a *acquisition) run() noLock {
	why := a.precheck()
	if why.none() && !a.lock.by.wait {
		why = a.askAboutHolder()
	}
	if !why.none() {
		return why
	}
	a.enter(a.lock.by.wait, a.start)
	for {
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
			if a.lock.locker.isStopping() {
				return noLock{err: ErrClosed}
			}
			a.enlist()
			grant, why := a.afterExpired(a.tries.Try(a.ctx))
			outcome := a.take(grant, why)
			if !a.lock.by.wait || !why.Passes() {
				return outcome
			}
			if ended := a.wait(why); !ended.none() {
				return ended
			}
		}
	}
}

// precheck ends an acquisition that cannot succeed, as far as this process knows.
func (a *acquisition) precheck() noLock {
	l := a.lock.locker
	if key, held := l.heldIn(a.ctx, a.lock.claim.Keys()); held {
		a.tries.Blocker.Key = key
		return noLock{err: ErrAlreadyHeld}
	}
	if l.isStopping() {
		return noLock{err: ErrClosed}
	}
	return noLock{}
}

// localHolder returns the lease by which this Locker seems to hold the key, or nil. The caller asks the
// server about the key before the try. If the lease has lost the key, the lease ends before the try can take
// the key again.
func (a *acquisition) localHolder() *lease {
	if !a.tries.IsWholeKey() {
		return nil
	}
	if h := a.lock.locker.holder(a.lock.claim.Key()); h != nil && h.valid() {
		return h
	}
	return nil
}

// askAboutHolder asks the server about a lock of this Locker that seems to hold the key. If the key is held,
// the acquisition ends.
func (a *acquisition) askAboutHolder() noLock {
	h := a.localHolder()
	if h == nil || a.ctx.Err() != nil { // if ctx has ended, there is no try
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
func (a *acquisition) learn(seen wire.Holder, lost bool) noLock {
	if !seen.Held {
		return noLock{}
	}
	a.lock.attempts++
	a.tries.Blocker.Sees(seen.End)
	a.contended(!lost)
	return noLock{err: ErrHeld}
}

// wait waits until another try makes sense.
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

// fail ends the acquisition without the lock, and returns its error. It gives up the place in each queue and
// everything that its commands may have taken, and adds the event.
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
		l.locker.counters.addWait(waited, l.by.wait)
	}
	l.become(stateFailed, a.start)
	kind := callTry
	if l.by.wait {
		kind = callWait
	}
	failed := &AcquireError{
		Key: blocker.Key, Attempts: l.Attempts(), Waited: waited,
		Err: failure(kind, blocker.Held, why), call: kind, contended: contended,
		own: l.locker.holds(blocker.Key),
	}
	if !errors.Is(failed.Err, ErrNoAnswer) {
		failed.Remaining = blocker.Remaining()
	}
	l.emit(&Event{
		Kind: EventAcquireFailed, Key: failed.Key, Remaining: failed.Remaining, Contended: contended, Err: failed,
	})
	return failed
}

// leave ends the part of an acquisition in the line, unless the acquisition has the lock. The caller calls
// leave before it tells observers, because an observer may take long.
func (a *acquisition) leave() {
	if a.caller != nil {
		_ = a.quit(noLock{})
	}
	a.passBy()
	if l := a.lock; l.stateNow() < stateHeld || l.stateNow() == stateFailed {
		l.own.handle().Failed()
		l.own.handle().Ended()
	}
}

// interrupted cleans up after an acquisition that does not return, because user code has panicked or ended
// the goroutine. It does not use the context of the caller: a method of that context may have panicked.
func (a *acquisition) interrupted() {
	l := a.lock
	switch {
	case l.stateNow() < stateHeld:
		a.tries.Interrupted() // a command may be under way
		_ = a.fail(noLock{err: wire.ErrInterrupted})
	case l.stateNow() != stateFailed:
		l.keepNobodyOut()
		_ = l.Release(endedContext)
	}
	if !a.delivered {
		l.events.tell(false)
	}
}

// afterExpired takes the outcome of a try of a caller who does not wait. If the key in the way has only the
// token of an expired lock of this Locker, afterExpired frees the key and tries again. The key goes to its
// first waiter.
func (a *acquisition) afterExpired(
	grant attempt.Grant, why attempt.Setback,
) (attempt.Grant, attempt.Setback) {
	for !a.lock.by.wait && why.Kind == attempt.Busy && a.freeLeftover(a.tries.Blocker.Key) {
		grant, why = a.tries.Try(a.ctx)
	}
	return grant, why
}

func (a *acquisition) freeLeftover(key string) (freed bool) {
	l := a.lock.locker
	if h := l.holder(key); h != nil {
		h.expire() // no goroutine may have noticed the end yet
	}
	for _, token := range l.leftover.Take(key) {
		if _, err := l.wire.ReleaseWhile(a.ctx, key, token); err != nil {
			return false
		}
		freed = true
	}
	return freed
}
