package rlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/events"
	"github.com/rlock-go/toolkit/rlock/internal/renew"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
	"github.com/rlock-go/toolkit/rlock/internal/text"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Extend gives the lock a new lease of ttl, counted from now, in whole milliseconds, or NoExpiry. Nil means
// that the server has confirmed the lease, and no earlier command can change it. Later automatic extensions
// use ttl too. ttl may be shorter than the time left: the lock then gets a new Token. A lock WithToken
// refuses a shorter ttl.
//
// An error that matches ErrNotHeld means that the lock has ended. Extend never takes it again. After any
// other error the lock is held until Deadline. A failed Extend may move Deadline nearer, but never farther.
// If the server does not answer, Extend asks again for 2 seconds, while ctx and the lease last.
func (l *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	if err := checkCall(ctx, l); err != nil {
		return err
	}
	if err := checkTTL(ttl); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return l.notSent(ctx)
	}
	defer l.deliver()
	x := extending{ctx: ctx, lock: l, ttl: ttl}
	renew.Now(ctx, l.locker.wire, []*extending{&x})
	return x.err
}

// notSent is the error of an extension whose context has ended before it was sent.
func (l *Lock) notSent(ctx context.Context) error {
	return &LockError{"extend", l.claim.Key(), clock.ContextError(ctx, nil)}
}

// ExtendEach is Extend for many locks of this Locker in one round trip. It returns one error for each lock,
// in the order of locks. An error of one lock does not affect the others.
func (l *Locker) ExtendEach(ctx context.Context, locks []*Lock, ttl time.Duration) []error {
	errs := l.checkLocks(ctx, locks)
	defer events.Each(locks, (*Lock).deliver)
	wrong := checkTTL(ttl)
	var asked []*extending
	for i, lock := range locks {
		switch {
		case errs[i] != nil:
		case wrong != nil:
			errs[i] = wrong
		case ctx.Err() != nil:
			errs[i] = lock.notSent(ctx)
		default:
			asked = append(asked, &extending{ctx: ctx, lock: lock, ttl: ttl, at: i})
		}
	}
	if len(asked) > 0 {
		renew.Now(ctx, l.wire, asked)
	}
	for _, x := range asked {
		errs[x.at] = x.err
	}
	return errs
}

// extending is the part of one lock in Extend or ExtendEach.
type extending struct {
	ctx  context.Context // of the call
	lock *Lock
	ttl  time.Duration
	at   int             // position in ExtendEach
	sent terms.Extension // by the last try
	err  error           // of the last try, and then of the call
	open bool            // the outcome of the last try is unknown
}

// errSuperseded is for an extension that the caller must send again.
var errSuperseded = errors.New("rlock: another Extend has shortened the lease meanwhile; extend it again")

// Start begins a try, if the lock is still held.
func (x *extending) Start() (ask wire.Extension, ok bool) {
	if x.err, x.open = x.begin(), false; x.err != nil {
		return ask, false
	}
	return x.lock.lease.extension(x.sent), true
}

func (x *extending) begin() error {
	l := x.lock
	l.mu.Lock()
	defer l.unlock()
	l.endIfOver()
	if cause := l.cause(); cause != nil {
		return &LockError{"extend", l.claim.Key(), cause}
	}
	longest := l.terms.Longest()
	if chosen := l.claim.Chosen(); (chosen || l.locker.wire.Backed()) && x.ttl < longest {
		grows := "in a Backend a lease only grows; release the lock"
		if chosen {
			grows = "with WithToken a lease only grows; release the lock, or use no token of your own"
		}
		return invalid("TTL", fmt.Sprintf(
			"%v is shorter than the lease of %v that the lock has had, and %s", x.ttl, text.TTL(longest), grows))
	}
	before, now := l.deadline(), clock.Now()
	if until := l.keptUntil(); x.ttl < longest && clock.LeaseEnd(now, x.ttl) < until {
		return invalid("TTL", fmt.Sprintf("%v would end the lease before the time of WithMinHold, which "+
			"lasts %v more; use a longer TTL, or release the lock", x.ttl, until.From(now)))
	}
	if err := l.set.checkLimits(x.ttl); err != nil {
		return err
	}
	// only the first try is checked
	if end := l.limited(); x.sent.Sent == 0 && clock.LeaseEnd(now, x.ttl) > end {
		return invalid("TTL", fmt.Sprintf(
			"%v is longer than the lock may still be held, which is %v; use a shorter TTL",
			x.ttl, end.From(now)))
	}
	if l.alone() {
		x.sent = l.terms.Begin(now, x.ttl, l.mint)
	} else {
		x.sent = l.terms.BeginJoint(now, x.ttl)
		l.setEnd(min(l.deadline(), clock.LeaseEnd(now, x.ttl)))
		l.watchOrEnd() // the lease may outlive its users
	}
	if l.deadline() < before {
		l.advance(l.nextRenewal(x.sent.Sent))
	}
	return nil
}

// Settle takes the answer to a try.
func (x *extending) Settle(answer wire.Extended) error {
	x.lock.mu.Lock()
	defer x.lock.unlock()
	x.err, x.open = x.lock.lease.settle(x.lock, x.sent, answer)
	if x.open {
		return x.err
	}
	return nil
}

// Finish makes the error of the call.
func (x *extending) Finish() {
	l := x.lock
	l.mu.Lock()
	defer l.unlock()
	if l.cause() == nil { // a Release may be reading the lease of a lock that has ended
		l.terms.Returned()
	}
	if x.open {
		l.endIfOver()
		switch cause := l.cause(); {
		case cause != nil:
			x.err = &LockError{"extend", l.claim.Key(), cause}
		case x.err == errSuperseded:
			x.err = &LockError{"extend", l.claim.Key(), x.err}
		default:
			x.err = unanswered(x.ctx, "extend", l.claim.Key(), x.err)
		}
	}
}
