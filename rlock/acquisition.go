package rlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// acquisition is one call that turns a Lock with keys into a held one.
type acquisition struct {
	lock    *Lock
	ctx     context.Context
	set     *settings
	want    wanted
	start   clock.Instant
	told    bool          // its events are told: it does not tell the lock's later ones
	seen    taken         // what the last look saw
	asked   int           // how often the policy was asked
	pause   time.Duration // the last one that the policy asked for
	collect *collector    // of a set that waits
	notice  *notify.Wait
	down    outage
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

// acquire turns a Lock that has keys into a held one.
func (l *Lock) acquire(ctx context.Context, set *settings, want wanted) (*Lock, error) {
	a := acquisition{lock: l, ctx: ctx, set: set, want: want, start: clock.Now(), seen: taken{key: l.key[0]}, down: outage{locker: l.locker}}
	l.prepare(ctx, set, want)
	l.observe(set, a.start)
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
	l.deliverFirst(false)
	returned = true
	if err != nil {
		return nil, err
	}
	return l, nil
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
		if why.kind == noSetback || why.kind == setbackFinal || !a.want.wait {
			return why
		}
		if why := a.wait(why); why.kind != noSetback {
			return why
		}
	}
}

// check looks for a reason to end the acquisition before its first try.
func (a *acquisition) check() setback {
	l := a.lock
	if key, held := l.locker.heldIn(a.ctx, l.keys()); held {
		a.seen.key = key
		return ends(ErrAlreadyHeld, nil)
	}
	if l.locker.isClosed() {
		return ends(ErrClosed, nil)
	}
	if a.single() && !a.want.wait {
		if err, cause := l.askAboutHolder(a.ctx, &a.seen); err != nil {
			return ends(err, cause)
		}
	}
	return setback{}
}

// single reports whether the acquisition is about one key, with a token that the caller did
// not choose.
func (a *acquisition) single() bool { return len(a.lock.keys()) == 1 && !a.lock.ownToken }

// line waits in the queue of this process for the key. It reports whether a holder has handed
// the lock over.
func (a *acquisition) line() (handed bool, why setback) {
	if !a.single() || !a.want.wait {
		return false, setback{}
	}
	handed, err := a.stand()
	switch {
	case err == nil:
		return handed, setback{}
	case handed:
		a.lock.late++ // it is ours on the server, and must be freed
		return false, ends(err, nil)
	}
	return false, endsWaiting(err)
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
	t, err := l.attempt(a.ctx, l.counters(), a.collect)
	if a.want.wait && a.down.passes(err) {
		if a.ctx.Err() != nil {
			return ends(ErrGaveUp, clock.ContextError(a.ctx, nil))
		}
		l.attempts++
		a.seen.left = 0 // nobody knows any more
		return setback{kind: setbackTransient, err: ErrGaveUp}
	}
	switch err, cause := l.settleAttempt(a.ctx, t, err, a.start, &a.seen); err {
	case nil:
		return setback{}
	case ErrHeld:
		return setback{kind: setbackBusy, err: ErrHeld}
	default:
		return ends(err, cause)
	}
}

// wait waits until another try is worth it.
func (a *acquisition) wait(why setback) setback {
	l := a.lock
	if why.kind == setbackBusy {
		l.deliverFirst(true)
	}
	if !a.next(a.seen.left) {
		return ends(ErrGaveUp, nil)
	}
	if a.notice == nil {
		a.notice = l.locker.newWait(l)
	}
	end := a.set.retry.end(a.start)
	if why.kind == setbackTransient {
		if err := a.notice.Sleep(a.ctx, a.down.pace(a.pause), 0, end); err != nil {
			return endsWaiting(err)
		}
		return setback{}
	}
	if a.collects() {
		return setback{}
	}
	if err := a.notice.Await(a.ctx, a.seen.key, a.pause, a.seen.left, min(end, a.collect.end())); err != nil {
		return endsWaiting(err)
	}
	return setback{}
}

// collects reports whether a set has just begun to take its keys one by one. The acquisition
// then tries at once, because some of the keys may be free.
func (a *acquisition) collects() bool {
	l := a.lock
	if len(l.keys()) == 1 || l.ownToken || l.groups() != nil {
		return false
	}
	if a.collect == nil {
		a.collect = &collector{lock: l, turning: a.start.After(collectAfter)}
	}
	return a.collect.next(a.ctx)
}

// next asks the policy for the pause before the next attempt. It reports false if the
// policy gives up.
func (a *acquisition) next(left time.Duration) (more bool) {
	a.asked++
	a.pause, more = a.set.retry.next(Attempt{
		Number: a.asked, Elapsed: time.Duration(clock.Now() - a.start), Previous: a.pause, Remaining: left,
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

// fail cleans up and reports why the acquisition failed.
func (a *acquisition) fail(why setback) error {
	if a.collect != nil && a.collect.keys != nil {
		a.lock.late++ // what was collected must be freed
	}
	if why.err == closed {
		why.err = ErrClosed // the caller never had a lock that has ended
	}
	a.lock.cleanUp()
	kind := single
	if a.want.wait {
		kind = waiting
	}
	return a.lock.failed(kind, a.start, a.seen, why.err, a.down.explain(why.cause))
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
		if l.lease.Token() != "" {
			l.late++ // a command may be under way
		}
		_ = a.fail(ends(errInterrupted, nil))
	case l.stateNow() != stateFailed:
		_ = l.Release(context.Background())
	}
	if !a.told {
		l.deliverFirst(false)
	}
}

// settleAttempt begins to hold the lock if the attempt got it. Otherwise it returns the error
// and the cause with which the acquisition fails. After ErrHeld, an acquisition that waits
// goes on.
func (l *Lock) settleAttempt(ctx context.Context, t taken, err error, start clock.Instant, seen *taken) (failure, cause error) {
	switch {
	case err != nil && remote.OutcomeOf(err) == remote.Indeterminate && ctx.Err() != nil:
		return ErrGaveUp, clock.ContextError(ctx, err)
	case err != nil:
		return err, nil
	}
	l.attempts++
	if !t.acquired {
		*seen = t
		seen.at = clock.Now()
		l.emitContended(t, false)
		if t.sent != 0 {
			l.locker.lastTrip.Store(int64(clock.Now() - t.sent))
		}
		l.ticket.Contended(t.left)
		return ErrHeld, nil
	}
	if ended := l.start(t, start); ended != nil {
		l.late++ // it is ours on the server, and must be freed
		return ended, nil
	}
	return nil, nil
}

// cleanUp leaves the queue, and has the reaper free what the commands without an answer of a
// failed acquisition may have taken.
func (l *Lock) cleanUp() {
	if l.late > 0 {
		l.abandon(l.lease.TTL(), int(l.late))
	}
	l.ticket.Leave()
}

// failed reports why an acquisition failed.
func (l *Lock) failed(kind call, start clock.Instant, seen taken, err, cause error) error {
	if l.stateNow() == stateWaiting {
		l.locker.counters.waited.Add(int64(clock.Now() - start))
	}
	l.become(stateFailed)
	failed := &AcquireError{
		Key: seen.key, Remaining: seen.remains(), Attempts: l.Attempts(), Waited: time.Duration(clock.Now() - start),
		Err: err, Cause: cause, call: kind, held: seen.held,
	}
	l.emitFailed(failed)
	return failed
}

// prepare fills in what does not depend on the server.
func (l *Lock) prepare(ctx context.Context, set *settings, want wanted) {
	l.extends = set.extends(want.do)
	l.parent, l.bound = ctx, want.do
	l.shares = !set.uniqueToken
	l.fenced = !set.unfenced
	l.lease.Prepare(set.ttl, set.token)
	l.ownToken = set.token != ""
	if set.owner != "" && !l.ownToken {
		l.more().owner = set.owner
	}
}

// counters returns the fence counters that the acquisition counts with.
func (l *Lock) counters() []string {
	if !l.fenced {
		return nil
	}
	return slot.FenceCounters(l.keys())
}

// start starts the lease that the server has granted to an acquisition that began at start.
func (l *Lock) start(t taken, start clock.Instant) error {
	err := l.hold(clock.LeaseEnd(t.sent, l.lease.TTL()), uint64(t.fence), arrival{EventAcquired, start, false})
	if err == expired {
		return fmt.Errorf("%w: the reply took %v, the lease is %v; use a longer TTL", ErrExpired, time.Duration(clock.Now()-t.sent), l.lease.TTL())
	}
	return err
}
