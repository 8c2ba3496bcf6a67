package rlock

import (
	"context"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// Downgrade turns a lock into a reader's share of it, as AcquireShared would return it, without letting
// anybody else have the whole lock in between. The share is a Lock of its own, with the same fence and
// a new lease, which is extended automatically if that of l was: Release it. l ends with ErrDetached,
// and so does its Context; if l is the lock of Do, Do returns ErrDetached and does not release the
// share.
//
// ctx may be the Context of l: the call then goes on for two seconds at most. Use the Context of the
// share for what follows.
//
// A set, a lock with WithToken or WithAtLeast, a share and permits are refused. Then, and if ctx has ended before
// the call, l stays as it is. If the lock has ended, the error matches ErrNotHeld and says why. After any other
// error the caller holds nothing, and the Locker frees the key in the background.
func (l *Lock) Downgrade(ctx context.Context) (*Lock, error) {
	if err := checkCall(ctx, l); err != nil {
		return nil, err
	}
	key := l.claim.Key()
	switch {
	case l.claim.IsSet():
		return nil, invalid("lock", "it is of several keys, of which nobody has a share; release it, and acquire what is needed")
	case l.claim.IsShare():
		return nil, invalid("lock", "it is a share already, or has permits; only one who has the whole lock can give it up for a share")
	case l.claim.Chosen():
		return nil, invalid("WithToken", "another handle may hold the lock by the same token, and counts on the whole lock; leave the option out")
	case keepsOut(l):
		return nil, invalid("WithAtLeast", "the lock keeps others out for a time that is not over, readers too; leave the option out")
	case ctx.Err() != nil:
		return nil, &LockError{"downgrade", key, clock.ContextError(ctx, nil)}
	}
	if _, within := l.locker.heldIn(ctx, l.claim.Keys()); within { // ctx ends with l, before the server is asked
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), remote.Patience)
		defer cancel()
	}
	var (
		lock            *Lock
		ended, returned bool // l has ended by this call; the caller has lock
	)
	defer func() { // also when user code has panicked
		held := lock != nil && lock.stateNow() >= stateHeld
		if ended {
			l.tokenOver(false)
		}
		if ended && (!held || l.claim.Possible() > 0) {
			l.locker.remote.Abandon(&l.claim, l.terms.Tokens(), NoExpiry, 1)
		}
		switch {
		case returned || lock == nil:
		case held: // the observer has panicked
			_ = lock.Release(endedContext)
		default:
			l.locker.remote.Abandon(&lock.claim, lock.terms.Tokens(), lock.terms.TTL(), 1)
		}
	}()
	ended = true // by endForShare, also if user code panics, unless it says why l had ended before
	cause := endForShare(l)
	ended = cause == nil
	l.deliver()
	if cause != nil {
		return nil, &LockError{"downgrade", key, cause}
	}
	former, ttl := l.terms.Tokens(), l.terms.TTL()
	claim := remote.One(key)
	claim.Wants(remote.Share{Permits: 1})
	lock = l.locker.newLock(l.parent, claim, l.set, wanted{do: l.want.do}, clock.Now())
	lock.attempts = 1
	lock.terms.Prepare(ttl, lock.mint())
	request := remote.Request{Token: lock.terms.Token(), TTL: ttl}
	d, err := l.locker.remote.Shares().Downgrade(ctx, &lock.claim, request, l.fence, former)
	switch {
	case err != nil:
		return nil, &LockError{"downgrade", key, remote.NoAnswer(err)}
	case !d.Done:
		return nil, &LockError{"downgrade", key, ErrLost}
	}
	if cause := lock.hold(clock.LeaseEnd(d.Sent, ttl), d.Fence, arrival{kind: EventAttached, start: clock.Now()}); cause != nil {
		return nil, &LockError{"downgrade", key, cause}
	}
	lock.events.tell(false)
	returned = true
	return lock, nil
}

// endForShare ends a lock for the share that it becomes, and returns why it does not if it has ended
// before: of several calls of Downgrade and Detach, one has the lock.
func endForShare(l *Lock) *reason {
	l.mu.Lock()
	defer l.unlock()
	l.endIfOver()
	if cause := l.cause(); cause != nil {
		return cause
	}
	l.token = tokenMoved // so that no Detach gives it away
	l.become(stateDetached, clock.Now())
	return nil
}
