package rlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/lease"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// acquisition is one call that turns a Lock with keys into a held one.
type acquisition struct {
	lock    *Lock
	ctx     context.Context
	start   clock.Instant
	blocker blocker       // what the last look saw
	asked   int           // how often the policy was asked
	pause   time.Duration // the last one that the policy asked for
	collect *collector    // of a set that waits
	notice  *notify.Wait
	down    remote.Outage
	told    bool // its events are told: it does not tell the lock's later ones
}

// blocker is the key that stands in the way of an acquisition, and its holder.
type blocker struct {
	key  string
	left time.Duration // of the holder's lease; 0: not known
	at   clock.Instant // when that was learnt
	held bool          // somebody was seen to hold it
}

// remaining returns what should be left of the holder's lease by now.
func (b *blocker) remaining() time.Duration {
	if b.left == NoExpiry {
		return NoExpiry
	}
	return max(b.left-time.Duration(clock.Now()-b.at), 0)
}

// setback says why an acquisition does not hold the lock yet, or never will.
type setback struct {
	kind       setbackKind
	err, cause error // of an AcquireError
}

type setbackKind int

const (
	noSetback        setbackKind = iota // it holds the lock, or nothing stands in the way so far
	setbackBusy                         // somebody else holds the lock
	setbackTransient                    // the server did not answer, or cannot yet
	setbackFinal
)

// ends is a setback that ends the acquisition.
func ends(err, cause error) setback { return setback{setbackFinal, err, cause} }

// endsWaiting is the end of an acquisition whose waiting ended with err.
func endsWaiting(err error) setback {
	failure, cause := waitEnded(err)
	return ends(failure, cause)
}

// newAcquisition returns the acquisition of a claim's keys.
func (l *Locker) newAcquisition(ctx context.Context, claim remote.Claim, set *settings, want wanted, start clock.Instant) acquisition {
	lock := l.newLock(ctx, claim, set, want, start)
	return acquisition{lock: lock, ctx: ctx, start: start, blocker: blocker{key: lock.claim.Key()}, down: l.remote.Outage()}
}

// run acquires the keys of a claim.
func (l *Locker) run(ctx context.Context, claim remote.Claim, set *settings, want wanted) (*Lock, error) {
	a := l.newAcquisition(ctx, claim, set, want, clock.Now())
	returned := false
	defer func() {
		a.notice.Leave()
		if !returned {
			a.interrupted()
		}
	}()
	var err error
	if why := a.run(); why.kind != noSetback {
		err = a.fail(why)
	}
	a.told = true
	a.lock.events.tell(false)
	returned = true
	if err != nil {
		return nil, err
	}
	return a.lock, nil
}

// run acquires the lock, or says why it does not.
func (a *acquisition) run() setback {
	if why := a.check(); why.kind != noSetback {
		return why
	}
	if handed, why := a.line(); handed || why.kind != noSetback {
		return why
	}
	for {
		why := a.try()
		if why.kind == noSetback || why.kind == setbackFinal || !a.lock.want.wait {
			return why
		}
		if why := a.wait(why); why.kind != noSetback {
			return why
		}
	}
}

// check looks for a reason to end the acquisition before its first try.
func (a *acquisition) check() setback {
	if why := a.mayTry(); why.kind != noSetback {
		return why
	}
	if a.single() && !a.lock.want.wait {
		return a.askAboutHolder()
	}
	return setback{}
}

// mayTry looks for a reason that needs no server.
func (a *acquisition) mayTry() setback {
	l := a.lock.locker
	if key, held := l.heldIn(a.ctx, a.lock.claim.Keys()); held {
		a.blocker.key = key
		return ends(ErrAlreadyHeld, nil)
	}
	if l.isClosed() {
		return ends(ErrClosed, nil)
	}
	return setback{}
}

// single reports whether the acquisition is about one key, with a token that the caller did
// not choose.
func (a *acquisition) single() bool { return !a.lock.claim.IsSet() && !a.lock.claim.Chosen() }

// askAboutHolder asks the server about the lock of this Locker that holds the key, as far as
// this process knows. If that lock, or somebody else, does hold the key, that is a setback. If
// that lock does not, askAboutHolder ends it, because its key was deleted or replaced.
func (a *acquisition) askAboutHolder() setback {
	l := a.lock.locker
	first := l.holder(a.lock.claim.Key())
	if first == nil || !first.Valid() {
		return setback{}
	}
	version := first.version()
	holders, err := l.remote.Inspect(a.ctx, &a.lock.claim)
	if err != nil {
		return a.refused(err)
	}
	return a.learn(holders[0], first, version)
}

// learn takes the server's answer who holds the key. The server was asked after the lease of
// first, a lock of this Locker, had that version.
func (a *acquisition) learn(h remote.Holder, first *Lock, version lease.Version) setback {
	own := !first.loses(h.Token, version)
	if !h.Held {
		return setback{}
	}
	a.lock.attempts++
	a.blocker.left, a.blocker.held, a.blocker.at = max(h.End.Until(), 0), true, clock.Now()
	a.contended(own)
	return setback{kind: setbackBusy, err: ErrHeld}
}

// contended follows a look that found the key held, or others before it in the queue: local. The
// first one counts.
func (a *acquisition) contended(local bool) {
	if a.lock.become(stateWaiting) {
		a.lock.emit(Event{Kind: EventContended, Key: a.blocker.key, Remaining: a.blocker.left, Local: local})
	}
}

// refused is the setback of a call that got an error.
func (a *acquisition) refused(err error) setback {
	if remote.OutcomeOf(err) == remote.Indeterminate && a.ctx.Err() != nil {
		return ends(ErrGaveUp, clock.ContextError(a.ctx, err))
	}
	return ends(err, nil)
}

// line waits in the queue of this process for the key. It reports whether a holder has handed
// the lock over.
func (a *acquisition) line() (handed bool, why setback) {
	if !a.single() || !a.lock.want.wait {
		return false, setback{}
	}
	handed, err := a.stand()
	switch {
	case err == nil:
		return handed, setback{}
	case handed:
		a.owe() // it is ours on the server
		return false, ends(err, nil)
	}
	return false, endsWaiting(err)
}

// owe notes that the keys must be freed if the acquisition fails, because they may have its
// token.
func (a *acquisition) owe() {
	if token := a.lock.lease.Token(); token != "" {
		a.lock.claim.AddUnanswered(token, 1)
	}
}

// try asks the server once.
func (a *acquisition) try() setback {
	l := a.lock
	switch {
	case l.locker.isClosed():
		return ends(ErrClosed, nil)
	case a.ctx.Err() != nil:
		return ends(ErrGaveUp, clock.ContextError(a.ctx, nil))
	}
	answer, err := l.locker.remote.Acquire(a.ctx, &l.claim, a.request())
	if l.want.wait && a.down.Passes(err) {
		if a.ctx.Err() != nil {
			return ends(ErrGaveUp, clock.ContextError(a.ctx, nil))
		}
		l.attempts++
		a.blocker.left = 0 // nobody knows any more
		return setback{kind: setbackTransient, err: ErrGaveUp}
	}
	return a.settle(answer, err)
}

// request is what to ask the server for. It gives the lock a token if it has none: a hand-over
// brings one.
func (a *acquisition) request() remote.Request {
	l := a.lock
	if l.lease.Token() == "" || l.claim.Split() {
		l.lease.SetToken(l.mint())
	}
	return remote.Request{Token: l.lease.Token(), TTL: l.lease.TTL(), Fenced: !l.set.unfenced, Keep: a.collect.kept()}
}

// settle begins to hold the lock if the server has granted it.
func (a *acquisition) settle(answer remote.Answer, err error) setback {
	l := a.lock
	if err != nil {
		return a.refused(err)
	}
	l.attempts++
	if !answer.Acquired {
		a.blocker = blocker{answer.Held, answer.Left, clock.Now(), true}
		a.contended(false)
		l.ticket.Contended(answer.Left)
		return setback{kind: setbackBusy, err: ErrHeld}
	}
	err = l.hold(clock.LeaseEnd(answer.Sent, l.lease.TTL()), answer.Fence, arrival{EventAcquired, a.start, false})
	if err == nil {
		return setback{}
	}
	a.owe()
	if err == expired {
		err = fmt.Errorf("%w: the reply took %v, the lease is %v; use a longer TTL", ErrExpired, time.Duration(clock.Now()-answer.Sent), l.lease.TTL())
	}
	return ends(err, nil)
}

// wait waits until another try is worth it.
func (a *acquisition) wait(why setback) setback {
	l := a.lock
	if why.kind == setbackBusy {
		l.events.tell(true)
	}
	if !a.next() {
		return ends(ErrGaveUp, nil)
	}
	if a.notice == nil {
		a.notice = l.locker.newWait(l)
	}
	end := l.set.retry.end(a.start)
	if why.kind == setbackTransient {
		if err := a.notice.Sleep(a.ctx, a.down.Pace(a.pause), 0, end); err != nil {
			return endsWaiting(err)
		}
		return setback{}
	}
	if a.collects() {
		return setback{}
	}
	if err := a.notice.Await(a.ctx, a.blocker.key, a.pause, a.blocker.left, min(end, a.collect.end())); err != nil {
		return endsWaiting(err)
	}
	return setback{}
}

// collects reports whether a set has just begun to take its keys one by one. The acquisition
// then tries at once, because some of the keys may be free.
func (a *acquisition) collects() bool {
	claim := &a.lock.claim
	if !claim.IsSet() || claim.Chosen() || claim.Split() {
		return false
	}
	if a.collect == nil {
		a.collect = &collector{lock: a.lock, turning: a.start.After(collectAfter)}
	}
	return a.collect.next(a.ctx)
}

// next asks the policy for the pause before the next attempt. It reports false if the
// policy gives up.
func (a *acquisition) next() (more bool) {
	a.asked++
	a.pause, more = a.lock.set.retry.next(Attempt{
		Number: a.asked, Elapsed: time.Duration(clock.Now() - a.start), Previous: a.pause, Remaining: a.blocker.left,
	})
	return more
}

// waitEnded turns the error that ended the waiting into the error and the cause of a failure.
func waitEnded(err error) (failure, cause error) {
	switch err {
	case clock.ErrStopped:
		return ErrClosed, nil
	case ErrHeld, ErrGaveUp:
		return err, nil
	}
	return ErrGaveUp, err
}

// fail leaves the queue, has the reaper free what the commands without an answer may have
// taken, and reports why the acquisition failed.
func (a *acquisition) fail(why setback) error {
	l := a.lock
	if a.collect.kept() != nil {
		a.owe() // what was collected
	}
	if why.err == closed {
		why.err = ErrClosed // the caller never had a lock that has ended
	}
	if l.claim.Unanswered() > 0 {
		l.locker.remote.Abandon(&l.claim, l.lease.Tokens(), l.lease.TTL(), 0)
	}
	l.ticket.Leave()
	if l.stateNow() == stateWaiting {
		l.locker.counters.waited.Add(int64(clock.Now() - a.start))
	}
	l.become(stateFailed)
	kind := single
	if l.want.wait {
		kind = waiting
	}
	failed := &AcquireError{
		Key: a.blocker.key, Remaining: a.blocker.remaining(), Attempts: l.Attempts(), Waited: time.Duration(clock.Now() - a.start),
		Err: failure(kind, a.blocker.held, why.err, a.down.Explain(why.cause)), call: kind,
	}
	l.emit(Event{Kind: EventAcquireFailed, Key: failed.Key, Remaining: failed.Remaining, Err: failed})
	return failed
}

// errInterrupted is the error of an operation that user code has ended with a panic or
// runtime.Goexit. Only observers see it, and Stats counts such an operation as failed.
var errInterrupted = errors.New("rlock: a panic or runtime.Goexit in a RetryFunc, an Observer, a hook of the client or the context ended the call")

// interrupted cleans up after an acquisition that does not return, because user code has
// panicked or ended the goroutine. It does not use the caller's context, because a method of
// that context may be what panicked.
func (a *acquisition) interrupted() {
	l := a.lock
	if l.stateNow() < stateHeld {
		_, _ = a.quit(nil)
	}
	switch {
	case l.stateNow() < stateHeld:
		a.owe() // a command may be under way
		_ = a.fail(ends(errInterrupted, nil))
	case l.stateNow() != stateFailed:
		_ = l.Release(context.Background())
	}
	if !a.told {
		l.events.tell(false)
	}
}
