package rlock

import (
	"context"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/lease"
)

// queueUp waits in the queue of this process until this acquisition is the front, which asks
// the server, or until a holder has handed the lock over. If handed is true, err says why the
// acquisition does not hold the lock all the same.
func (a *acquisition) queueUp() (handed bool, err error) {
	l := a.lock
	before, first := l.locker.queue.Join(&l.ticket, l.claim.Key(), l.request())
	if first {
		return false, nil
	}
	if before != nil {
		(*Lock)(before).noticeEnd()
	}
	for {
		a.blocker = blocker{l.claim.Key(), l.ticket.Remaining(), clock.Now(), true}
		a.contended(true)
		l.events.tell(true)
		ready, err := a.awaitTurn()
		switch {
		case err != nil:
			return a.quit(err)
		case !ready:
			continue
		}
		g, handed := l.ticket.Granted()
		if handed {
			return true, a.receive(g)
		}
		a.adopt(g)
		a.blocker = blocker{key: l.claim.Key()}
		return false, clock.Sleep(a.ctx, g.yield, l.locker.closed)
	}
}

// lookPause is how often a waiter asks the server about the holder before it, where the server
// does not tell that the key is gone. It asks whatever its policy is, because those who wait
// behind it rely on it.
const lookPause = time.Second

// awaitTurn waits until the ticket is ready, or until the pause of the policy is over. Where the
// server does not tell that the holder's key is gone, it asks about the holder every lookPause.
func (a *acquisition) awaitTurn() (ready bool, err error) {
	l := a.lock
	if !a.next() {
		return a.lastLook()
	}
	end := min(clock.Now().After(a.pause), l.set.retry.end(a.start))
	for {
		left := max(end.Until(), 0)
		looks := !l.locker.hears()
		if looks {
			left = min(left, lookPause)
		}
		over, err := l.ticket.Await(a.ctx, left, l.locker.closed)
		if err != nil || !over {
			return err == nil, err
		}
		if looks {
			l.locker.verify(a.ctx, (*Lock)(l.ticket.Behind()))
		}
		if clock.Now() >= end {
			return false, nil
		}
	}
}

// lastLook asks the server who has the key, because the policy gives up and so far only this
// process has said that the key is held. If the holder has lost the key, the next in the queue
// is called, which may be this acquisition. Otherwise the acquisition ends with ErrGaveUp.
func (a *acquisition) lastLook() (ready bool, err error) {
	l := a.lock
	holder := l.locker.holder(l.claim.Key())
	var version lease.Version
	if holder != nil {
		version = holder.version()
	}
	ctx, cancel := context.WithTimeout(a.ctx, lookTimeout)
	defer cancel()
	l.attempts++
	holders, err := l.locker.remote.Inspect(ctx, &l.claim)
	if a.ctx.Err() != nil {
		return false, clock.ContextError(a.ctx, nil)
	}
	if err != nil {
		a.outage.Record(err)
		return false, ErrGaveUp
	}
	now := holders[0]
	if now.Held { // otherwise those before it stand in the way all the same
		a.blocker.left, a.blocker.at = max(now.End.Until(), 0), clock.Now()
	}
	if holder != nil {
		holder.endIfLost(now.Token, version)
	}
	if l.ticket.IsReady() {
		return true, nil
	}
	return false, ErrGaveUp
}

// quit leaves the queue and returns err. If a holder has handed the lock over meanwhile, the
// acquisition holds the lock instead, as if err had come a moment later.
func (a *acquisition) quit(err error) (handed bool, _ error) {
	g, handed := a.lock.ticket.Leave()
	if handed {
		return true, a.receive(g)
	}
	a.adopt(g)
	return false, err
}

// receive begins to hold the lock that was handed over.
func (a *acquisition) receive(g grant) error {
	a.adopt(g)
	return a.lock.hold(g.deadline, g.fence, arrival{EventAcquired, a.start, true})
}

// adopt takes over the token of a hand-over, whose outcome may be unknown, or the place in the queue
// of the server that the holder has got for this acquisition.
func (a *acquisition) adopt(g grant) {
	if g.token != "" {
		a.lock.lease.SetToken(g.token)
		a.lock.claim.AddPossible(g.token, g.unanswered)
	}
	if g.place != nil {
		a.place = g.place
		a.place.SetClaim(&a.lock.claim)
	}
}

// endIfLost ends a lock if its key is gone or another's, and reports whether that is so. The
// server has answered that the key has that owner, "" if it is gone.
func (l *Lock) endIfLost(owner string, version lease.Version) bool {
	defer l.deliver()
	l.mu.Lock()
	defer l.mu.Unlock()
	is, _ := l.lease.Lost(owner, version)
	if is {
		l.finish(stateLost)
	}
	return is
}

// verify asks the server about the holder that somebody waits behind, and ends the holder if
// its key is gone. Nobody else would notice where the server does not tell and the lease is
// not extended. If holder is nil, or is extended automatically, verify does nothing.
func (l *Locker) verify(ctx context.Context, holder *Lock) {
	if holder == nil || holder.set.extends(holder.want.do) {
		return
	}
	version := holder.version()
	holders, err := l.remote.Inspect(ctx, &holder.claim)
	if err == nil {
		holder.endIfLost(holders[0].Token, version)
	}
}

// noticeEnd has the Locker watch a holder, so that those who wait behind it are called when
// its lease ends or its key is gone.
func (l *Lock) noticeEnd() {
	defer l.deliver()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stateNow() == stateHeld && !l.watched {
		l.watch()
	}
}
