package rlock

import (
	"context"
	"errors"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/lease"
)

// stand waits in the line of this process for the key until it is l's turn to ask
// the server, or l was handed the lock.
func (a *acquisition) stand() (fate, error) {
	l, queues := a.lock, a.lock.locker.queues
	var first *Lock
	a.place, first = queues.enter(l)
	if a.place == nil {
		backoff, _ := queues.standing(l)
		return free, clock.Sleep(a.ctx, backoff, l.locker.closed)
	}
	first.noticeEnd()
	for {
		l.attempts++
		a.seen.left, a.seen.held, a.seen.at = queues.left(l.key[0]), true, clock.Now()
		l.noteContended(a.seen, true)
		l.deliverFirst(true)
		pause := NoExpiry
		if !a.set.retry.unlimited() {
			if !a.next(a.seen.left) {
				return a.quit(ErrGaveUp)
			}
			pause = a.pause
		}
		// Where nobody tells that a holder's key is gone, a waiter that needs no other
		// pause looks now and then.
		looks := a.set.retry.unlimited() && !l.locker.hears()
		if looks {
			pause = time.Second
		}
		over, err := clock.Receive(a.ctx, a.place.called, pause, l.locker.closed)
		switch {
		case err != nil:
			return a.quit(err)
		case over && looks:
			l.locker.verify(a.ctx, a.place)
		case over:
		case a.place.given:
			err := a.place.err
			a.place = nil
			return given, err
		default:
			a.place, a.seen = nil, taken{key: l.key[0]}
			backoff, _ := queues.standing(l)
			return free, clock.Sleep(a.ctx, backoff, l.locker.closed)
		}
	}
}

// quit leaves the line with err, unless the lock has been handed over meanwhile: then
// it is as if what ends the waiting had come a moment later.
func (a *acquisition) quit(err error) (fate, error) {
	place := a.place
	a.place = nil
	fate := a.lock.locker.queues.giveUp(place)
	if fate == given {
		err = place.err
	}
	return fate, err
}

// askAboutHolder asks the server whether the lock of this Locker that is believed to
// hold the key does so: ErrHeld if it does, or if somebody else does. If it does not, it
// ends, as its key was deleted or replaced.
func (l *Lock) askAboutHolder(ctx context.Context, seen *taken) (failure, cause error) {
	first := l.locker.queues.holder(l.key[0])
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

// heldAs is askAboutHolder when the server has answered what the state was after the
// holder's lease had that version.
func (l *Lock) heldAs(first *Lock, version lease.Version, state State, seen *taken) error {
	own := !first.loses(state.Token, version)
	if !state.Held {
		return nil
	}
	l.attempts++
	seen.left, seen.held, seen.at = state.Left, true, clock.Now()
	l.noteContended(*seen, own)
	return ErrHeld
}

// loses ends a lock if its key, which has that owner, is gone or another's. It reports
// whether it is.
func (l *Lock) loses(owner string, version lease.Version) bool {
	defer l.deliver()
	l.mu.Lock()
	defer l.mu.Unlock()
	is, _ := l.lease.Lost(owner, version)
	if is {
		l.finish(lost)
	}
	return is
}

// verify ends the holder that a place is next to, if its key is gone: nobody else would
// notice where the server does not tell and the lease is not extended.
func (l *Locker) verify(ctx context.Context, p *place) {
	holder := l.queues.before(p)
	if holder == nil || holder.extends {
		return
	}
	version := holder.version()
	states, err := l.inspectAll(ctx, holder.key[:])
	if err == nil {
		holder.loses(states[0].Token, version)
	}
}

// noticeEnd makes sure that those in line behind a holder are called when its
// lease ends, or its key is gone.
func (l *Lock) noticeEnd() {
	defer l.deliver()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held.Load() && l.end.Load() == nil && !l.kept {
		l.watch()
	}
}
