package rlock

import (
	"context"
	"time"
)

// stand waits in the line of this process for the key until it is l's turn to ask
// the server, or l was handed the lock. Without waiting, it only looks whether a
// holder is known here.
func (l *Lock) stand(ctx context.Context, set *settings, want wanted, start instant, seen *taken) (fate, error) {
	queues := l.locker.queues
	if !want.wait {
		if first := queues.holder(l.key[0]); first != nil && first.Valid() {
			l.attempts++
			seen.left, seen.held = instant(first.deadline.Load()).until(), true
			l.noteContended(*seen, true)
			return free, ErrHeld
		}
		return free, nil
	}
	place, first := queues.enter(l)
	if place == nil {
		courtesy, _ := queues.standing(l)
		return free, sleep(ctx, courtesy, l.locker.closed)
	}
	first.noticeEnd()
	pause := NoExpiry
	for {
		l.attempts++
		seen.left, seen.held = queues.left(l.key[0]), true
		l.noteContended(*seen, true)
		if !set.retry.unlimited() {
			var more bool
			pause, more = set.retry.next(Attempt{Number: l.Attempts(), Elapsed: time.Duration(now() - start), Previous: pause, Left: seen.left})
			if !more {
				return l.quit(place, ErrGaveUp)
			}
		}
		// Where nobody tells that a holder's key is gone, a waiter that needs no other
		// pause looks now and then.
		looks := set.retry.unlimited() && !l.locker.hears()
		if looks {
			pause = time.Second
		}
		over, err := receive(ctx, place.called, pause, l.locker.closed)
		switch {
		case err != nil:
			return l.quit(place, err)
		case over && looks:
			l.locker.verify(ctx, place)
		case over:
		case place.given:
			return given, place.err
		default:
			*seen = taken{key: l.key[0]}
			courtesy, _ := queues.standing(l)
			return free, sleep(ctx, courtesy, l.locker.closed)
		}
	}
}

// quit leaves the line with err, unless the lock has been handed over meanwhile: then
// it is as if what ends the waiting had come a moment later.
func (l *Lock) quit(place *place, err error) (fate, error) {
	fate := l.locker.queues.giveUp(place)
	if fate == given {
		err = place.err
	}
	return fate, err
}

// verify ends the holder that a place is next to, if its key is gone: nobody else would
// notice where the server does not tell and the lease is not extended.
func (l *Locker) verify(ctx context.Context, p *place) {
	holder := l.queues.before(p)
	if holder == nil || holder.extends {
		return
	}
	states, err := l.inspectAll(ctx, holder.key[:])
	if err == nil && !states[0].HeldBy(holder.token) {
		holder.mu.Lock()
		defer holder.mu.Unlock()
		holder.finish(lost)
	}
}

// noticeEnd makes sure that those in line behind a holder are called when its
// lease ends, or its key is gone.
func (l *Lock) noticeEnd() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held.Load() && l.end.Load() == nil && !l.kept {
		l.watch()
	}
}
