package rlock

import (
	"context"
	"errors"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/lease"
)

// stand waits in the queue of this process until this acquisition is the front, which asks
// the server, or until a holder has handed the lock over. If handed is true, err says why the
// acquisition does not hold the lock all the same.
func (a *acquisition) stand() (handed bool, err error) {
	l := a.lock
	before, first := l.locker.queue.Join(&l.ticket, l.key[0], l.request())
	if first {
		return false, a.backOff()
	}
	if before != nil {
		(*Lock)(before).noticeEnd()
	}
	for {
		a.seen.left, a.seen.held, a.seen.at = l.ticket.Remaining(), true, clock.Now()
		l.emitContended(a.seen, true)
		l.deliverFirst(true)
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
		l.adopt(g)
		a.seen = taken{key: l.key[0]}
		return false, a.backOff()
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
	if !a.next(a.seen.left) {
		return a.lastLook()
	}
	end := min(clock.Now().After(a.pause), a.set.retry.end(a.start))
	for {
		left := max(end.Until(), 0)
		looks := !l.locker.hears()
		if looks {
			left = min(left, lookPause)
		}
		over, err := clock.Receive(a.ctx, l.ticket.Ready(), left, l.locker.closed)
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
	holder := l.locker.holder(l.key[0])
	var version lease.Version
	if holder != nil {
		version = holder.version()
	}
	ctx, cancel := context.WithTimeout(a.ctx, lookTimeout)
	defer cancel()
	l.attempts++
	state, err := l.locker.inspect(ctx, l.key[0])
	if a.ctx.Err() != nil {
		return false, clock.ContextError(a.ctx, nil)
	}
	if err != nil {
		a.down.passes(errors.Unwrap(err))
		return false, ErrGaveUp
	}
	if state.Held { // otherwise those before it stand in the way all the same
		a.seen.left, a.seen.at = state.Remaining(), clock.Now()
	}
	if holder != nil {
		holder.loses(state.Token, version)
	}
	select {
	case <-l.ticket.Ready():
		return true, nil
	default:
		return false, ErrGaveUp
	}
}

// backOff lets other processes go ahead to a key that this one has just had.
func (a *acquisition) backOff() error {
	backoff, _ := a.lock.ticket.Backoff(a.lock.locker.roundTrip())
	return clock.Sleep(a.ctx, backoff, a.lock.locker.closed)
}

// roundTrip is about how long a command takes.
func (l *Locker) roundTrip() time.Duration { return time.Duration(l.lastTrip.Load()) }

// quit leaves the queue and returns err. If a holder has handed the lock over meanwhile, the
// acquisition holds the lock instead, as if err had come a moment later.
func (a *acquisition) quit(err error) (handed bool, _ error) {
	g, handed := a.lock.ticket.Leave()
	if handed {
		return true, a.receive(g)
	}
	a.lock.adopt(g)
	return false, err
}

// receive begins to hold the lock that was handed over.
func (a *acquisition) receive(g grant) error {
	a.lock.adopt(g)
	return a.lock.hold(g.deadline, g.fence, arrival{EventAcquired, a.start, true})
}

// adopt takes over the token of a hand-over. The outcome of that hand-over may be unknown.
func (l *Lock) adopt(g grant) {
	if g.token != "" {
		l.lease.SetToken(g.token)
		l.late += g.unanswered
	}
}

// askAboutHolder asks the server about the lock of this Locker that holds the key, as far as
// this process knows. It fails with ErrHeld if that lock, or somebody else, does hold the key.
// If that lock does not, askAboutHolder ends it, because its key was deleted or replaced.
func (l *Lock) askAboutHolder(ctx context.Context, seen *taken) (failure, cause error) {
	first := l.locker.holder(l.key[0])
	if first == nil || !first.Valid() {
		return nil, nil
	}
	version := first.version()
	state, err := l.locker.inspect(ctx, l.key[0])
	switch {
	case err != nil && ctx.Err() != nil:
		return ErrGaveUp, clock.ContextError(ctx, errors.Unwrap(err))
	case err != nil:
		return errors.Unwrap(err), nil
	}
	return l.heldAs(first, version, state, seen), nil
}

// heldAs is the part of askAboutHolder that follows the server's answer, which is state. The
// server was asked after the holder's lease had that version.
func (l *Lock) heldAs(first *Lock, version lease.Version, state State, seen *taken) error {
	own := !first.loses(state.Token, version)
	if !state.Held {
		return nil
	}
	l.attempts++
	seen.left, seen.held, seen.at = state.Remaining(), true, clock.Now()
	l.emitContended(*seen, own)
	return ErrHeld
}

// loses ends a lock if its key is gone or another's, and reports whether that is so. The
// server has answered that the key has that owner, "" if it is gone.
func (l *Lock) loses(owner string, version lease.Version) bool {
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
	if holder == nil || holder.extends {
		return
	}
	version := holder.version()
	states, err := l.inspectAll(ctx, holder.key[:])
	if err == nil {
		holder.loses(states[0].Token, version)
	}
}

// noticeEnd has the Locker watch a holder, so that those who wait behind it are called when
// its lease ends or its key is gone.
func (l *Lock) noticeEnd() {
	defer l.deliver()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stateNow() == stateHeld && !l.kept {
		l.watch()
	}
}
