package rlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/lease"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/internal/place"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// acquisition is one call that turns a Lock with keys into a held one.
type acquisition struct {
	lock      *Lock
	ctx       context.Context
	start     clock.Instant
	blocker   blocker       // what the last look saw
	asked     int           // how often the policy was asked
	pause     time.Duration // the last one that the policy asked for
	collect   *collector    // of a set that waits
	notice    *notify.Wait
	place     *place.Place  // in the queue of the server; nil: none
	until     clock.Instant // when the pause is over; before the first one, start
	counted   bool          // the last question to the server was an attempt of the policy
	refusal   place.Refusal // of a place by the server
	outage    remote.Outage
	delivered bool // its events were delivered: the lock delivers later ones
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

// final is a setback that ends the acquisition.
func final(err, cause error) setback { return setback{setbackFinal, err, cause} }

// finalWait is the setback of an acquisition whose wait ended with err.
func finalWait(err error) setback {
	failure, cause := waitEnded(err)
	return final(failure, cause)
}

// newAcquisition returns the acquisition of a claim's keys.
func (l *Locker) newAcquisition(ctx context.Context, claim remote.Claim, set *settings, want wanted, start clock.Instant) acquisition {
	lock := l.newLock(ctx, claim, set, want, start)
	return acquisition{
		lock: lock, ctx: ctx, start: start, until: start, blocker: blocker{key: lock.claim.Key()}, outage: l.remote.Outage(),
	}
}

// acquireClaim acquires the keys of a claim.
func (l *Locker) acquireClaim(ctx context.Context, claim remote.Claim, set *settings, want wanted) (*Lock, error) {
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
	a.delivered = true
	a.lock.events.tell(false)
	returned = true
	if err != nil {
		return nil, err
	}
	return a.lock, nil
}

// run acquires the lock, or says why it does not.
func (a *acquisition) run() setback {
	if why := a.precheck(); why.kind != noSetback {
		return why
	}
	if handed, why := a.waitInQueue(); handed || why.kind != noSetback {
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

// precheck returns a setback that ends the acquisition before its first try, if there is one.
func (a *acquisition) precheck() setback {
	if why := a.precheckLocally(); why.kind != noSetback {
		return why
	}
	if a.mayQueue() && !a.lock.want.wait {
		return a.askAboutHolder()
	}
	return setback{}
}

// precheckLocally is the part of precheck that needs no server.
func (a *acquisition) precheckLocally() setback {
	l := a.lock.locker
	if key, held := l.heldIn(a.ctx, a.lock.claim.Keys()); held {
		a.blocker.key = key
		return final(ErrAlreadyHeld, nil)
	}
	if l.isClosed() {
		return final(ErrClosed, nil)
	}
	return setback{}
}

// mayQueue reports whether the acquisition may wait in the queue of this process, and take over
// what a holder hands to it: it is about one key, and the caller did not choose the token.
func (a *acquisition) mayQueue() bool { return !a.lock.claim.IsSet() && !a.lock.claim.Chosen() }

// askAboutHolder asks the server who holds the key, if a lock of this Locker seems to hold it. It
// does so before the try, so that a lock that has lost its key ends before the key is taken
// again. If the key is held, that is a setback.
func (a *acquisition) askAboutHolder() setback {
	l := a.lock.locker
	local := l.holder(a.lock.claim.Key())
	if local == nil || !local.Valid() {
		return setback{}
	}
	version := local.version()
	holders, err := l.remote.Inspect(a.ctx, &a.lock.claim)
	if err != nil {
		return a.failedCall(err)
	}
	return a.learn(holders[0], local, version)
}

// learn takes the server's answer who holds the key, and ends local, a lock of this Locker, if it
// has lost the key. version is that of local's lease before the server was asked.
func (a *acquisition) learn(h remote.Holder, local *Lock, version lease.Version) setback {
	own := !local.endIfLost(h.Token, version)
	if !h.Held {
		return setback{}
	}
	a.lock.attempts++
	a.blocker.left, a.blocker.held, a.blocker.at = max(h.End.Until(), 0), true, clock.Now()
	a.contended(own)
	return setback{kind: setbackBusy, err: ErrHeld}
}

// contended notes that another holds the key, or is before this acquisition in the queue of this
// process, which is local contention. Only the first call has an effect.
func (a *acquisition) contended(local bool) {
	if a.lock.become(stateWaiting) {
		a.lock.emit(Event{Kind: EventContended, Key: a.blocker.key, Remaining: a.blocker.left, Local: local})
	}
}

// failedCall is the setback of a call that got an error.
func (a *acquisition) failedCall(err error) setback {
	if remote.OutcomeOf(err) == remote.Indeterminate && a.ctx.Err() != nil {
		return final(ErrGaveUp, clock.ContextError(a.ctx, err))
	}
	return final(err, nil)
}

// waitInQueue waits in the queue of this process for the key, if the acquisition may. It reports
// whether a holder has handed the lock over.
func (a *acquisition) waitInQueue() (handed bool, why setback) {
	if !a.mayQueue() || !a.lock.want.wait {
		return false, setback{}
	}
	handed, err := a.queueUp()
	switch {
	case err == nil:
		return handed, setback{}
	case handed:
		a.mayHaveTaken() // it is ours on the server
		return false, final(err, nil)
	}
	return false, finalWait(err)
}

// mayHaveTaken notes that the keys may have the acquisition's token, so that they are freed if it
// fails.
func (a *acquisition) mayHaveTaken() {
	if token := a.lock.lease.Token(); token != "" {
		a.lock.claim.AddPossible(token, 1)
	}
}

// try makes one attempt. remote repeats a command of it that gets no answer.
func (a *acquisition) try() setback {
	l := a.lock
	switch {
	case l.locker.isClosed():
		return final(ErrClosed, nil)
	case a.ctx.Err() != nil:
		return final(ErrGaveUp, clock.ContextError(a.ctx, nil))
	}
	if a.enter() {
		return a.ask()
	}
	return a.tryAlone()
}

// tryAlone makes one attempt without a place in the queue of the server. If others wait there, it
// does not overtake them.
func (a *acquisition) tryAlone() setback {
	l := a.lock
	answer, err := l.locker.remote.Acquire(a.ctx, &l.claim, a.prepareRequest())
	if l.want.wait && a.outage.Record(err) {
		return a.transient(err)
	}
	return a.settle(answer, err)
}

// transient is the setback of an attempt that the server has not answered, or cannot serve yet.
func (a *acquisition) transient(err error) setback {
	if a.ctx.Err() != nil {
		return final(ErrGaveUp, clock.ContextError(a.ctx, nil))
	}
	if !errors.Is(err, context.DeadlineExceeded) { // the client may notice the end of ctx before ctx says so
		a.blocker.left = 0 // nobody knows any more
	}
	return setback{kind: setbackTransient, err: ErrGaveUp}
}

// prepareRequest counts an attempt, and returns what to ask the server for. It makes a token for
// the lock, unless an earlier try or a hand-over has given it one.
func (a *acquisition) prepareRequest() remote.Request {
	l := a.lock
	l.attempts++
	if l.lease.Token() == "" || l.claim.SpansSlots() {
		l.lease.SetToken(l.mint())
	}
	return remote.Request{Token: l.lease.Token(), TTL: l.lease.TTL(), Fenced: !l.set.unfenced, Keep: a.collect.kept()}
}

// settle begins to hold the lock if the server has granted it.
func (a *acquisition) settle(answer remote.Answer, err error) setback {
	if err != nil {
		return a.failedCall(err)
	}
	if !answer.Acquired {
		a.blocked(answer)
		return setback{kind: setbackBusy, err: ErrHeld}
	}
	return a.hold(clock.LeaseEnd(answer.Sent, a.lock.lease.TTL()), answer.Fence)
}

// blocked notes who holds the key.
func (a *acquisition) blocked(answer remote.Answer) {
	a.blocker = blocker{answer.Held, answer.Left, clock.Now(), true}
	a.contended(false)
	a.lock.ticket.Contended(answer.Left)
}

// hold begins to hold the lock that the server has granted.
func (a *acquisition) hold(deadline clock.Instant, fence uint64) setback {
	l := a.lock
	if a.place != nil {
		a.dropPlace()
	}
	err := l.hold(deadline, fence, arrival{EventAcquired, a.start, false})
	if err == nil {
		return setback{}
	}
	a.mayHaveTaken()
	if err == expired {
		over := -deadline.Until()
		err = fmt.Errorf("%w: the lease of %v was over %v before the grant arrived; use a longer TTL", ErrExpired, l.lease.TTL(), over)
	}
	return final(err, nil)
}

// wait waits until another try is worth it.
func (a *acquisition) wait(why setback) setback {
	l := a.lock
	if why.kind == setbackBusy {
		l.events.tell(true)
	}
	if a.place == nil || a.counted {
		if !a.next() {
			return final(ErrGaveUp, nil)
		}
		a.until = min(clock.Now().After(a.pause), l.set.retry.end(a.start))
	}
	if a.notice == nil {
		a.notice = l.locker.newWait()
	}
	end := l.set.retry.end(a.start)
	if why.kind == setbackTransient {
		if err := a.notice.Sleep(a.ctx, a.outage.Pace(a.pause), 0, end); err != nil {
			return finalWait(err)
		}
		return setback{}
	}
	if a.switchCollecting() {
		return setback{}
	}
	var err error
	switch {
	case a.place != nil:
		err = a.awaitGrant()
	case a.mayStand():
		err = a.subscribe()
	default:
		err = a.notice.Await(a.ctx, a.blocker.key, a.pause, a.blocker.left, min(end, a.collect.end(), a.refusal.End(a.pause)))
	}
	if err != nil {
		return finalWait(err)
	}
	return setback{}
}

// switchCollecting has a set that waits begin or end to take its keys one by one, when it is time
// for that. It reports whether it has just begun: the acquisition then tries at once, because
// some of the keys may be free.
func (a *acquisition) switchCollecting() bool {
	claim := &a.lock.claim
	if !claim.IsSet() || claim.Chosen() || claim.SpansSlots() {
		return false
	}
	if a.collect == nil {
		a.collect = &collector{lock: a.lock, turning: a.start.After(collectAfter)}
	}
	begun := a.collect.next(a.ctx)
	if a.collect.kept() == nil {
		a.leavePlace()
	}
	return begun
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

// fail ends the acquisition. It has the reaper free what commands without an answer may have
// taken, leaves the queue, counts the failure, queues its event, and returns its error.
func (a *acquisition) fail(why setback) error {
	l := a.lock
	if a.collect.kept() != nil {
		a.mayHaveTaken() // what was collected
	}
	if why.err == closed {
		why.err = ErrClosed // without ErrNotHeld, because the caller never held the lock
	}
	a.leavePlace()
	if l.claim.Possible() > 0 {
		l.locker.remote.Abandon(&l.claim, l.lease.Tokens(), l.lease.TTL(), 0)
	}
	l.ticket.Leave()
	contended := l.stateNow() == stateWaiting
	if contended {
		l.locker.counters.waited.Add(int64(clock.Now() - a.start))
	}
	l.become(stateFailed)
	kind := callTry
	if l.want.wait {
		kind = callWait
	}
	failed := &AcquireError{
		Key: a.blocker.key, Remaining: a.blocker.remaining(), Attempts: l.Attempts(), Waited: time.Duration(clock.Now() - a.start),
		Err: failure(kind, a.blocker.held, why.err, a.outage.Explain(why.cause)), call: kind, contended: contended,
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
	case l.stateNow() < stateHeld && a.place != nil: // a command may be under way
		a.place.Interrupted()
		_ = a.fail(final(errInterrupted, nil))
	case l.stateNow() < stateHeld:
		a.mayHaveTaken()
		_ = a.fail(final(errInterrupted, nil))
	case l.stateNow() != stateFailed:
		_ = l.Release(context.Background())
	}
	if !a.delivered {
		l.events.tell(false)
	}
}
