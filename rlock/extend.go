package rlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/lease"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// Extend gives the lock a new lease of ttl, counted from now; ttl may be shorter
// than what is left, or NoExpiry. Later automatic extensions use it too. It returns nil
// when the server has confirmed the lease, and Deadline tells it then. Nothing that was
// sent before and arrives late can cut that lease or, if it is a shorter one, make it long
// again.
//
// For that, a ttl that is shorter than one before comes with a new token: see Token. With a
// token of the caller's, see WithToken, it is refused with an *ArgumentError: somebody else
// may hold by the same token, and counts on the longer lease.
//
// An error that is ErrNotHeld means that the lock has ended; Extend never
// takes it again. With any other error it is held until the Deadline, which a failed
// Extend may bring nearer if ttl is shorter than what was left, but never moves
// farther. Extend it again to have a lease that is known. If the lock expires first, its keys
// are freed in the background, as the server may still have the longer lease.
//
// A server that does not answer is asked again for 2 seconds, while ctx and the lease
// last. Where the network has gone silent, only the client's own time-outs end a call
// without a deadline. ttl is a whole number of milliseconds: truncate what was computed.
func (l *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	if err := l.mayExtend(ctx, ttl); err != nil {
		return err
	}
	defer l.deliver()
	var failure error
	_ = remote.RetryFor(ctx, remote.Patience, func(ctx context.Context) error {
		e, err := l.startExtension(ttl)
		if err != nil {
			failure = err
			return nil
		}
		answered := false
		defer func() {
			if !answered { // user code has panicked
				l.loseExtension(e)
			}
		}()
		position, err := l.runExtend(ctx, e)
		answered = true
		failure = l.settleAsked(e, position, err)
		return retryable(failure)
	})
	return l.finishExtend(failure)
}

// retryable returns the error of an extension if another try may settle it: not one that
// says what became of the lock.
func retryable(err error) error {
	var (
		lock  *LockError
		input *ArgumentError
	)
	if errors.As(err, &lock) || errors.As(err, &input) {
		return nil
	}
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
		return &LockError{"extend", l.key[0], clock.ContextError(ctx, nil)}
	}
	return nil
}

// finishExtend follows an extension that the caller asked for, after the last try.
func (l *Lock) finishExtend(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease.Returned()
	if retryable(err) == nil {
		return err
	}
	l.expire()
	if cause := l.cause(); cause != nil {
		err = cause
	}
	return &LockError{"extend", l.key[0], err}
}

// runExtend runs extend.lua.
func (l *Lock) runExtend(ctx context.Context, e lease.Extension) (int64, error) {
	params := l.extendParams(e)
	if l.groups() != nil {
		return l.extendGroups(ctx, params)
	}
	return l.locker.scripts.Extend(ctx, l.locker.client, params)
}

func (l *Lock) extendParams(e lease.Extension) gen.ExtendParams {
	return gen.ExtendParams{Locks: l.keys(), Token: e.Token, TTL: ttlParam(e.TTL), Former: e.Former}
}

// errSuperseded is for an extension that must be sent again.
var errSuperseded = errors.New("rlock: another Extend has shortened the lease meanwhile; extend it again")

// startExtension begins an extension that the caller asked for, of a lock that is still
// held.
func (l *Lock) startExtension(ttl time.Duration) (lease.Extension, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.stillHeld(); err != nil {
		return lease.Extension{}, err
	}
	longest := l.lease.Longest()
	if l.ownToken && ttl < longest {
		return lease.Extension{}, &ArgumentError{"TTL", fmt.Sprintf(
			"%v is shorter than the lease of %v that the lock has had, and with WithToken a lease only grows; release the lock, or use no token of your own", ttl, told(longest))}
	}
	before := l.lease.Deadline()
	e := l.lease.Begin(clock.Now(), ttl, l.mintToken)
	if l.lease.Deadline() < before {
		l.advanceRenewal(l.nextRenewal(e.Sent))
	}
	return e, nil
}

// startRenewal begins an automatic extension, by the lease that the lock has.
func (l *Lock) startRenewal() (lease.Extension, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.stillHeld(); err != nil {
		return lease.Extension{}, err
	}
	return l.lease.BeginRenewal(clock.Now()), nil
}

// loseExtension notes that an extension under way will never be settled. What it may have
// done on the server stays as unknown as if its reply was lost.
func (l *Lock) loseExtension(e lease.Extension) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lease.Lose(e)
}

// version returns that of the lease.
func (l *Lock) version() lease.Version {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lease.Version()
}

// stillHeld returns why the lock cannot be extended. The caller holds mu.
func (l *Lock) stillHeld() error {
	l.expire()
	if cause := l.cause(); cause != nil {
		return &LockError{"extend", l.key[0], cause}
	}
	return nil
}

// told is ttl for an error text.
func told(ttl time.Duration) string {
	if ttl == NoExpiry {
		return "NoExpiry"
	}
	return ttl.String()
}

// settleAsked is settle for an extension that the caller asked for. Its lease is that of
// the lock from now on, and for later extensions.
func (l *Lock) settleAsked(e lease.Extension, position int64, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.settle(e, position, err); err != nil {
		return err
	}
	l.planRenewal(e)
	return nil
}

// settle takes the answer of an extension: the position of the first key that is
// not ours, or 0. It returns nil if the lock is held with the new lease; an error
// with an unknown outcome comes back as it is. The caller holds mu.
func (l *Lock) settle(e lease.Extension, position int64, err error) error {
	err = remote.Redact(remote.Redact(err, e.Token), e.Former...)
	l.expire() // an answer that comes after the deadline revives nothing
	deadline := l.lease.Deadline()
	superseded := l.lease.Superseded(e)
	isLost := err == nil && position != 0 && !superseded
	switch outcome := remote.OutcomeOf(err); {
	case isLost || l.cause() != nil || outcome == remote.Indeterminate:
		l.lease.Lose(e)
	case outcome == remote.Done:
		l.lease.Confirm(e, clock.Now())
	case outcome == remote.Refused:
		l.lease.Refuse(e, clock.Now())
	}
	if isLost {
		return &LockError{"extend", slot.KeyAt(l.keys(), position), l.finish(stateLost)}
	}
	if err != nil {
		if len(l.lease.Former()) > 0 && l.cause() == nil && !l.kept {
			l.watch() // the keys must be freed when the lock expires; see finish
		}
		if l.lease.Deadline() != deadline {
			l.advanceRenewal(clock.Never)
		}
		l.emitExtension(err)
		if remote.OutcomeOf(err) == remote.Indeterminate {
			return err
		}
		return &LockError{"extend", l.key[0], err}
	}
	if superseded && l.cause() == nil {
		return errSuperseded
	}
	l.expire() // nor does a lease that was over before its answer came
	if cause := l.cause(); cause != nil {
		if cause == expired {
			// The keys now have a whole lease that nobody uses.
			l.abandon(e.TTL, 1)
		}
		return &LockError{"extend", l.key[0], cause}
	}
	l.emitExtension(nil)
	return nil
}
