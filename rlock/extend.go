package rlock

import (
	"context"
	"time"

	"github.com/rlock-go/toolkit/gen"
)

// Extend gives the lock a new lease of ttl, counted from now; ttl may be shorter
// than what is left, or NoExpiry. Later automatic extensions use it too.
//
// An error that is ErrNotHeld or ErrClosed means that the lock has ended; Extend never
// takes it again. With any other error it is held until the Deadline, which a failed
// Extend may bring nearer if ttl is shorter than what was left, but never moves
// farther.
//
// A server that does not answer is asked again for 2 seconds, while ctx and the lease
// last. Where the network has gone silent, only the client's own time-outs end a call
// without a deadline. ttl is a whole number of milliseconds: truncate what was computed.
func (l *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	if err := l.mayExtend(ctx, ttl); err != nil {
		return err
	}
	defer l.deliver()
	err := l.finishExtend(insist(ctx, func(ctx context.Context) error {
		sent, err := l.startExtension(ttl)
		if err != nil {
			return err
		}
		position, err := l.runExtend(ctx, ttl)
		return l.settleAsked(sent, position, err)
	}))
	return err
}

// mayExtend checks the arguments of Extend.
func (l *Lock) mayExtend(ctx context.Context, ttl time.Duration) error {
	if err := l.usable(); err != nil {
		return err
	}
	if err := checkContext(ctx); err != nil {
		return err
	}
	if err := checkTTL(ttl); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return &LockError{"extend", l.key[0], contextError(ctx, nil)}
	}
	return nil
}

// finishExtend follows an extension that the caller asked for, after the last try.
func (l *Lock) finishExtend(err error) error {
	if answerOf(err) != unknown {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	if cause := l.end.Load(); cause != nil {
		err = cause
	}
	return &LockError{"extend", l.key[0], err}
}

// runExtend runs extend.lua.
func (l *Lock) runExtend(ctx context.Context, ttl time.Duration) (int64, error) {
	params := l.extendParams(ttl)
	if l.groups() != nil {
		return l.extendGroups(ctx, params)
	}
	return l.locker.scripts.Extend(ctx, l.locker.client, params)
}

func (l *Lock) extendParams(ttl time.Duration) gen.ExtendParams {
	return gen.ExtendParams{Locks: l.keys(), Token: l.token, TTL: lease(ttl)}
}

// startExtension begins an extension of a lock that is still held.
func (l *Lock) startExtension(ttl time.Duration) (extension, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.beginIfHeld(ttl)
}

// startRenewal begins an automatic extension, by the lease that the lock has.
func (l *Lock) startRenewal() (extension, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.beginIfHeld(l.ttl)
}

// beginIfHeld is for a caller who holds mu.
func (l *Lock) beginIfHeld(ttl time.Duration) (extension, error) {
	l.expire()
	if cause := l.end.Load(); cause != nil {
		return extension{}, &LockError{"extend", l.key[0], cause}
	}
	return l.beginExtension(ttl), nil
}

// settleAsked is settle for an extension that the caller asked for. Its lease is that of
// the lock from now on, and for later extensions.
func (l *Lock) settleAsked(e extension, position int64, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.settle(e, position, err); err != nil {
		return err
	}
	l.ttl = e.ttl
	l.locker.keeper.reschedule(l, e)
	return nil
}

// settle takes the answer of an extension: the position of the first key that is
// not ours, or 0. It returns nil if the lock is held with the new lease; an error
// with an unknown outcome comes back as it is. The caller holds mu.
func (l *Lock) settle(e extension, position int64, err error) error {
	err = redact(err, l.token)
	l.expire() // an answer that comes after the deadline revives nothing
	l.endExtension(e, answerOf(err))
	if err != nil {
		l.noteExtension(err)
		if answerOf(err) == unknown {
			return err
		}
		return &LockError{"extend", l.key[0], err}
	}
	if position != 0 {
		return &LockError{"extend", keyAt(l.keys(), position), l.finish(lost)}
	}
	l.expire() // nor does a lease that was over before its answer came
	if cause := l.end.Load(); cause != nil {
		if cause == expired {
			// The keys now have a whole lease that nobody uses.
			l.abandon(e.ttl, 1)
		}
		return &LockError{"extend", l.key[0], cause}
	}
	l.noteExtension(nil)
	return nil
}

// nextExtension returns when the keeper should extend a lock whose lease began at
// from. The caller holds mu.
func (l *Lock) nextExtension(from instant) instant {
	if !l.extends || l.ttl == NoExpiry {
		return never
	}
	span := min(l.ttl, time.Duration(instant(l.deadline.Load())-from)) // the deadline may be nearer, see lease.go
	return from.after(max(span, 0) / renewals)
}
