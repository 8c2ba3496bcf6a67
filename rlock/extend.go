package rlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/lease"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// Extend gives the lock a new lease of ttl, counted from now; ttl may be shorter
// than what is left, or NoExpiry. Later automatic extensions use it too. It returns nil
// when the server has confirmed the lease, and Deadline tells it then. A command that
// was sent earlier and arrives late cannot shorten this lease. If ttl is shorter than before,
// such a command cannot lengthen it either.
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
		return &LockError{"extend", l.claim.Key(), clock.ContextError(ctx, nil)}
	}
	defer l.deliver()
	return l.extend(ctx, ttl)
}

// extend is Extend after its arguments were checked.
func (l *Lock) extend(ctx context.Context, ttl time.Duration) (err error) {
	x := extending{lock: l, err: &err}
	defer x.finish() // also after a panic
	_ = remote.RetryFor(ctx, remote.Patience, func(ctx context.Context) error {
		x.try(ctx, ttl)
		return x.retryable()
	})
	return err
}

// ExtendEach is Extend for many locks of this Locker in one round trip. There is one error for
// each lock, in the order of locks: what Extend would have returned, nil if the lock has its
// new lease. A lock that fails does not affect the others.
//
// A nil Lock, a lock of another Locker, and a lock that was named before get an
// *ArgumentError.
func (l *Locker) ExtendEach(ctx context.Context, locks []*Lock, ttl time.Duration) []error {
	errs := l.ownLocks(ctx, locks)
	defer deliverAll(locks)
	var asked []*extending
	for i, lock := range locks {
		if errs[i] == nil {
			asked = append(asked, &extending{lock: lock, err: &errs[i]})
		}
	}
	if len(asked) > 0 {
		l.extend(ctx, asked, ttl)
	}
	return errs
}

// extend extends locks, in one round trip, and sets the error of each.
func (l *Locker) extend(ctx context.Context, asked []*extending, ttl time.Duration) {
	wrong := checkTTL(ttl)
	if wrong != nil || ctx.Err() != nil {
		for _, x := range asked {
			if *x.err = wrong; wrong == nil {
				*x.err = &LockError{"extend", x.lock.claim.Key(), clock.ContextError(ctx, nil)}
			}
		}
		return
	}
	defer func() { // also after a panic
		for _, x := range asked {
			x.finish()
		}
	}()
	_ = remote.RetryFor(ctx, remote.Patience, remote.Remaining(asked, func(ctx context.Context, asked []*extending) []error {
		tryExtend(ctx, l.remote, asked, ttl)
		open := make([]error, len(asked))
		for i, x := range asked {
			open[i] = x.retryable()
		}
		return open
	}))
}

// tryExtend asks the server once for all locks that are still held.
func tryExtend(ctx context.Context, server *remote.Server, asked []*extending, ttl time.Duration) {
	var (
		sent    []*extending
		list    []remote.Extension
		answers []remote.Extended
	)
	for _, x := range asked {
		if *x.err = x.start(ttl); *x.err == nil {
			sent, list = append(sent, x), append(list, x.extension())
			answers = append(answers, remote.Extended{Err: errInterrupted}) // unless the call returns
		}
	}
	defer func() {
		for i, x := range sent {
			x.answered(answers[i])
		}
	}()
	answers = server.Extend(ctx, list)
}

// extending is one lock's part in ExtendEach, or an automatic extension of it.
type extending struct {
	lock *Lock
	sent lease.Extension // by the last try
	err  *error          // of the last try; only in ExtendEach
}

// errSuperseded is for an extension that must be sent again.
var errSuperseded = errors.New("rlock: another Extend has shortened the lease meanwhile; extend it again")

// try asks the server once, if the lock is still held.
func (x *extending) try(ctx context.Context, ttl time.Duration) {
	if *x.err = x.start(ttl); *x.err != nil {
		return
	}
	answer := remote.Extended{Err: errInterrupted} // unless the call returns
	defer func() { x.answered(answer) }()
	answer = x.lock.locker.remote.ExtendOne(ctx, x.extension())
}

// start begins an extension that the caller asked for, of a lock that is still held.
func (x *extending) start(ttl time.Duration) error {
	l := x.lock
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endIfOver()
	if cause := l.cause(); cause != nil {
		return &LockError{"extend", l.claim.Key(), cause}
	}
	longest := l.lease.Longest()
	if l.claim.Chosen() && ttl < longest {
		return invalid("TTL", fmt.Sprintf(
			"%v is shorter than the lease of %v that the lock has had, and with WithToken a lease only grows; release the lock, or use no token of your own", ttl, ttlText(longest)))
	}
	before := l.lease.Deadline()
	x.sent = l.lease.Begin(clock.Now(), ttl, l.mint)
	if l.lease.Deadline() < before {
		renewal := (*scheduled)(l)
		renewal.advance(renewal.next(x.sent.Sent))
	}
	return nil
}

// extension returns what the server is asked for.
func (x *extending) extension() remote.Extension {
	return remote.Extension{Parts: x.lock.claim.BySlot(), Token: x.sent.Token, Former: x.sent.Former, TTL: x.sent.TTL}
}

// answered is settle for an extension that the caller asked for.
func (x *extending) answered(answer remote.Extended) {
	x.lock.mu.Lock()
	defer x.lock.mu.Unlock()
	*x.err = x.settle(answer)
}

// settle takes the answer of an extension. It returns nil if the lock is held with the new
// lease, and plans the next renewal then. An error with an unknown outcome comes back as it is.
// The caller holds mu.
func (x *extending) settle(answer remote.Extended) error {
	l, e, err := x.lock, x.sent, answer.Err
	l.endIfOver() // an answer that comes after the deadline revives nothing
	deadline := l.lease.Deadline()
	superseded := l.lease.Superseded(e)
	isLost := answer.Lost != "" && !superseded
	switch outcome := remote.OutcomeOf(err); {
	case isLost || l.cause() != nil || outcome == remote.Indeterminate:
		l.lease.Forget(e)
	case outcome == remote.Done:
		l.lease.Confirm(e, clock.Now())
	case outcome == remote.Refused:
		l.lease.Refuse(e, clock.Now())
	}
	switch {
	case isLost:
		return &LockError{"extend", answer.Lost, l.finish(stateLost)}
	case err != nil:
		return x.failed(err, l.lease.Deadline() != deadline)
	case superseded && l.cause() == nil:
		return errSuperseded
	}
	l.endIfOver() // a lease that was over when its answer came stays over
	if cause := l.cause(); cause != nil {
		if cause == expired {
			// The keys now have a whole lease that nobody uses.
			l.locker.remote.Abandon(&l.claim, l.lease.Tokens(), e.TTL, 1)
		}
		return &LockError{"extend", l.claim.Key(), cause}
	}
	(*scheduled)(l).plan(e.Sent)
	l.emit(Event{Kind: EventExtended})
	return nil
}

// failed is settle for an extension that was refused or got no answer, which may have moved the
// deadline. The caller holds mu.
func (x *extending) failed(err error, moved bool) error {
	l := x.lock
	if len(l.lease.Former()) > 0 && l.cause() == nil && !l.watched {
		l.watch() // the keys must be freed when the lock expires; see ended
	}
	if moved {
		(*scheduled)(l).advance(clock.Never)
	}
	if l.stateNow() == stateHeld {
		l.emit(Event{Kind: EventExtendFailed, Err: err})
	}
	if remote.OutcomeOf(err) == remote.Indeterminate {
		return err
	}
	return &LockError{"extend", l.claim.Key(), err}
}

// retryable returns the error of the last try if ExtendEach may try again, and nil if the outcome
// is known.
func (x *extending) retryable() error {
	var (
		lock  *LockError
		input *ArgumentError
	)
	if errors.As(*x.err, &lock) || errors.As(*x.err, &input) {
		return nil
	}
	return *x.err
}

// finish makes the error of Extend after the last try.
func (x *extending) finish() {
	l := x.lock
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause() == nil { // a Release may be reading the lease of a lock that has ended
		l.lease.Returned()
	}
	if err := x.retryable(); err != nil {
		l.endIfOver()
		if cause := l.cause(); cause != nil {
			err = cause
		}
		*x.err = &LockError{"extend", l.claim.Key(), err}
	}
}

// ttlText is ttl for an error text.
func ttlText(ttl time.Duration) string {
	if ttl == NoExpiry {
		return "NoExpiry"
	}
	return ttl.String()
}
