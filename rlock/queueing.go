package rlock

import (
	"context"

	"github.com/rlock-go/toolkit/rlock/internal/attempt"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/front"
	"github.com/rlock-go/toolkit/rlock/internal/handover"
	"github.com/rlock-go/toolkit/rlock/internal/queue"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
)

// waitInQueue waits in the queue of this process for the key, if the acquisition may. It reports
// whether a holder has handed the lock over.
func (a *acquisition) waitInQueue() (handed bool, why noLock) {
	if !a.tries.MayQueue() || !a.lock.want.wait {
		return false, noLock{}
	}
	handed, err := a.queueUp()
	switch {
	case err == nil:
		return handed, noLock{}
	case handed:
		a.tries.MayHaveTaken() // it is ours on the server
		return false, noLock{err: err}
	}
	return false, waitEnded(err)
}

// queueUp waits in the queue of this process until this acquisition is the front, which asks
// the server, or until a holder has handed the lock over. If handed is true, err says why the
// acquisition does not hold the lock all the same.
func (a *acquisition) queueUp() (handed bool, err error) {
	l, now := a.lock, a.start
	left, first := l.locker.queue.Join(&l.ticket, l.claim.Key(), l.request(), now)
	if first {
		return false, nil
	}
	for {
		now = a.behind(left, now)
		g, ready, err := a.awaitTurn(now)
		switch {
		case err != nil:
			return a.quit(err)
		case ready == queue.HandedOver:
			return true, a.receive(g)
		case ready == queue.Front:
			a.tries.Adopt(g)
			a.tries.Blocker = attempt.Blocker{Key: l.claim.Key()}
			return false, clock.Sleep(a.ctx, g.Yield, l.locker.closed)
		}
		now = clock.Now()
		left = l.ticket.Remaining(now)
	}
}

// awaitTurn waits until the ticket is ready, or until the pause of the policy is over.
func (a *acquisition) awaitTurn(now clock.Instant) (g handover.Grant, ready queue.Readiness, err error) {
	l := a.lock
	if !a.nextPause(now) {
		return a.lastLook()
	}
	w := front.Waiting[handover.Request, handover.Grant, *holder]{Ticket: &l.ticket, Stop: l.locker.closed, End: l.set.retry.end(a.start)}
	if l.locker.monitor != nil {
		w.Hears = l.locker.listener
	}
	return w.Await(a.ctx, now, min(now.After(a.pause), w.End), a.tries.Blocker.Left)
}

// lastLook asks the server who has the key, because the policy gives up and so far only this
// process has said that the key is held. If the holder has lost the key, the next in the queue
// is called, which may be this acquisition. Otherwise the acquisition ends with ErrGaveUp.
func (a *acquisition) lastLook() (g handover.Grant, ready queue.Readiness, err error) {
	l := a.lock
	ctx, cancel := context.WithTimeout(a.ctx, lookTimeout)
	defer cancel()
	l.attempts++
	a.tries.Outage.Ask()
	seen, _, err := l.locker.lookFor(ctx, &l.claim, l.locker.holder(l.claim.Key()))
	a.tries.Outage.Record(err)
	switch {
	case a.ctx.Err() != nil:
		return g, queue.Behind, clock.ContextError(a.ctx, nil)
	case err != nil:
		return g, queue.Behind, ErrGaveUp
	case seen.Held: // otherwise those before it stand in the way all the same
		a.tries.Blocker.Sees(seen.End)
	}
	if g, ready = l.ticket.Ready(); ready != queue.Behind {
		return g, ready, nil
	}
	return g, queue.Behind, ErrGaveUp
}

// quit ends the wait in the queue and returns err. If a holder has handed the lock over meanwhile, the
// acquisition holds the lock instead, as if err had come a moment later.
func (a *acquisition) quit(err error) (handed bool, _ error) {
	g, handed := a.lock.ticket.Quit()
	if handed {
		return true, a.receive(g)
	}
	a.tries.Adopt(g)
	return false, err
}

// receive begins to hold the lock that was handed over, perhaps from before this acquisition began.
func (a *acquisition) receive(g handover.Grant) error {
	a.forced = min(a.forced, g.Forced)
	l, how := a.lock, arrival{kind: EventAcquired, start: a.start, handedOver: true}
	if g.Lease == nil {
		a.tries.Adopt(g)
		how.atLeast = l.set.atLeast
		return l.hold(g.Deadline, g.Fence, how)
	}
	l.lease, how.goesOn = g.Lease.(*lease), true
	err := l.hold(g.Deadline, g.Fence, how)
	if err != nil {
		l.giveBack()
	}
	return err
}

// endIfLost ends a lock if its key is gone or another's, and reports whether that is so. The
// server has answered that the key has that owner, "" if it is gone. If the lock has got another
// token since version, again is true and the answer says nothing.
func (l *Lock) endIfLost(owner string, version terms.Version) (is, again bool) {
	defer l.deliver()
	l.mu.Lock()
	defer l.unlock()
	if is, again = l.terms.Lost(owner, version); is {
		l.finish(stateLost)
	}
	return is, again
}

// lookFor asks the server who has the key of a claim. holder is the lock of this Locker that seems to
// hold it, or nil: if it has lost the key, it ends, and lookFor reports that.
func (l *Locker) lookFor(ctx context.Context, claim *remote.Claim, holder *Lock) (seen remote.Holder, lost bool, err error) {
	var version terms.Version
	if holder != nil {
		version = holder.version()
	}
	holders, err := l.remote.Inspect(ctx, claim)
	if err != nil {
		return seen, false, err
	}
	if holder != nil {
		lost, _ = holder.endIfLost(holders[0].Token, version)
	}
	return holders[0], lost, nil
}
