package rlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/events"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
	"github.com/rlock-go/toolkit/rlock/internal/renew"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
	"github.com/rlock-go/toolkit/rlock/internal/text"
)

// Extend gives the lock a new lease of ttl, counted from now. ttl is a whole number of milliseconds or
// NoExpiry, and may be shorter than what is left. Later automatic extensions use it too. Nil means that
// the server has confirmed the lease, and no command that was sent before can change it.
//
// An error that matches ErrNotHeld means that the lock has ended; Extend never takes it again. After
// any other error it is held until Deadline, which a failed Extend may bring nearer but never moves
// farther. Extend it again to have a lease that is known.
//
// A ttl that is shorter than one before comes with a new token: see Token. With a token of the caller's
// (WithToken) it is refused, because somebody else may hold by that token.
//
// If the server does not answer, Extend asks again for 2 seconds, while ctx and the lease last.
func (l *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	if err := checkCall(ctx, l); err != nil {
		return err
	}
	if err := checkTTL(ttl); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return notSent(ctx, l)
	}
	defer l.deliver()
	x := extending{ctx: ctx, lock: l, ttl: ttl}
	renew.Now(ctx, l.locker.remote, []*extending{&x})
	return x.err
}

// notSent is the error of an extension whose context has ended before it was sent.
func notSent(ctx context.Context, l *Lock) error {
	return &LockError{"extend", l.claim.Key(), clock.ContextError(ctx, nil)}
}

// ExtendEach is Extend for many locks of this Locker in one round trip. It returns an error for each
// lock, in their order: nil, or what Extend would have returned. A lock that fails does not affect the
// others. Locks are refused as by ReleaseEach.
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
			errs[i] = notSent(ctx, lock)
		default:
			asked = append(asked, &extending{ctx: ctx, lock: lock, ttl: ttl, at: i})
		}
	}
	if len(asked) > 0 {
		renew.Now(ctx, l.remote, asked)
	}
	for _, x := range asked {
		errs[x.at] = x.err
	}
	return errs
}

// extending is one lock's part in Extend or ExtendEach.
type extending struct {
	ctx  context.Context // of the call
	lock *Lock
	ttl  time.Duration
	at   int             // position in ExtendEach
	sent terms.Extension // by the last try
	err  error           // of the last try, and then of the call
	open bool            // after the last try nobody knows what has become of it
}

// errSuperseded is for an extension that must be sent again.
var errSuperseded = errors.New("rlock: another Extend has shortened the lease meanwhile; extend it again")

// Start begins a try, if the lock is still held.
func (x *extending) Start() (ask remote.Extension, ok bool) {
	if x.err, x.open = x.begin(), false; x.err != nil {
		return ask, false
	}
	return extension(x.lock.lease, x.sent), true
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
	if l.claim.Chosen() && x.ttl < longest {
		return invalid("TTL", fmt.Sprintf(
			"%v is shorter than the lease of %v that the lock has had, and with WithToken a lease only grows; release the lock, or use no token of your own", x.ttl, text.TTL(longest)))
	}
	before, now := l.deadline(), clock.Now()
	if until := keptUntil(l); x.ttl < longest && clock.LeaseEnd(now, x.ttl) < until {
		return invalid("TTL", fmt.Sprintf("%v would end the lease before the time of WithAtLeast, of which %v is left; use a longer one, or release the lock", x.ttl, until.From(now)))
	}
	if l.alone() {
		x.sent = l.terms.Begin(now, x.ttl, l.mint)
	} else {
		x.sent = l.terms.BeginJoint(now, x.ttl)
		l.until.Store(int64(min(l.deadline(), clock.LeaseEnd(now, x.ttl))))
		l.beWatched() // the lease may outlive those who have it
	}
	if l.deadline() < before {
		l.advance(l.nextRenewal(x.sent.Sent))
	}
	return nil
}

// extension returns what the server is asked for.
func extension(l *lease, sent terms.Extension) remote.Extension {
	return remote.Extension{Parts: l.claim.BySlot(), Token: sent.Token, Former: sent.Former, TTL: sent.TTL}
}

// Settle takes the answer to a try.
func (x *extending) Settle(answer remote.Extended) error {
	x.lock.mu.Lock()
	defer x.lock.unlock()
	x.err, x.open = settle(x.lock.lease, x.lock, x.sent, answer)
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

// settle takes the answer to an extension, which the lock by has asked for, or the schedule if by is nil. It
// returns nil if the lease is extended, and plans the next renewal then. open reports that the outcome is
// unknown, so that another try is worth it. The caller holds mu.
func settle(s *lease, by *Lock, sent terms.Extension, answer remote.Extended) (err error, open bool) {
	s.endOver(clock.Now()) // an answer that comes after the deadline revives nothing
	deadline := s.terms.Deadline()
	switch renew.Take(&s.terms, sent, answer, !s.used()) {
	case renew.Lost:
		s.lose()
		return &LockError{"extend", answer.Lost, cmp.Or(s.endOf(by), lost)}, false
	case renew.Failed:
		return failed(s, by, answer.Err, s.terms.Deadline() != deadline)
	case renew.Superseded:
		if s.endOf(by) == nil {
			return errSuperseded, true
		}
	}
	s.endOver(clock.Now()) // a lease that was over when its answer came stays over
	if cause := s.endOf(by); cause != nil {
		if cause == expired && by != nil && !s.used() && !by.left {
			freeExpired(by, sent.TTL) // the keys now have a whole lease that nobody uses
		}
		return &LockError{"extend", s.claim.Key(), cause}, false
	}
	for _, token := range sent.Former {
		if !slices.Contains(s.terms.Former(), token) {
			s.locker.grants.Over(token)
		}
	}
	s.lengthen(by, sent)
	s.plan(sent.Sent)
	s.tell(by, &Event{Kind: EventExtended})
	return nil, false
}

// endOf returns why the lock by has ended, or nobody has the lease any more if by is nil; nil if that is not
// so. The caller holds mu.
func (s *lease) endOf(by *Lock) *reason {
	switch {
	case by != nil:
		return by.cause()
	case !s.used():
		return expired
	}
	return nil
}

// lengthen moves the ends of those for whom a confirmed extension was. Where others share the lease, that is
// the lock by, or each that wants to be extended, for as long as it wants. The caller holds mu.
func (s *lease) lengthen(by *Lock, sent terms.Extension) {
	if s.joint == nil {
		s.user.until.Store(int64(clock.Never)) // others may have shared it
		return
	}
	end := clock.LeaseEnd(sent.Sent, sent.TTL)
	if by != nil {
		by.needExtras()
		by.wants = sent.TTL
		by.until.Store(int64(max(by.deadline(), end)))
		return
	}
	for u := range s.wanted() {
		u.until.Store(int64(max(u.deadline(), min(end, clock.LeaseEnd(sent.Sent, u.ttl())))))
	}
}

// tell adds an event for the lock by, or for each that wants to be extended if by is nil. The caller holds
// mu.
func (s *lease) tell(by *Lock, e *Event) {
	if by != nil {
		by.emit(e)
		return
	}
	for u := range s.wanted() {
		each := *e
		u.emit(&each)
	}
}

// failed is settle for an extension that was refused or got no answer, which may have moved the
// deadline. The caller holds mu.
func failed(s *lease, by *Lock, err error, moved bool) (_ error, open bool) {
	if s.terms.Unsure() && s.used() && s.watch == nil && !s.claim.Chosen() {
		s.beWatched() // the keys must be freed when the lock expires; see ended
	}
	if moved {
		s.advance(clock.Never)
	}
	open = remote.OutcomeOf(err) == remote.Indeterminate
	told := &LockError{"extend", s.claim.Key(), remote.NoAnswer(err)}
	if by == nil || by.cause() == nil {
		s.tell(by, &Event{Kind: EventExtendFailed, Err: told})
	}
	if open {
		return err, true
	}
	return told, false
}
