package rlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/gate"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Release ends the lock. The Context ends first. Then the next waiter gets the lock, or the server frees the
// keys. WithMinHold keeps the keys until its time is over. Release does its work even if ctx has ended,
// within 2 seconds, so a caller may defer it. After a hand-over to another caller of this Locker, Release
// asks the server nothing, and the other caller notices if the lock was lost.
//
// Even after an error, the caller has given up the lock. Keys with the token of another holder stay as they
// are.
//
//   - ErrReleased means that a Release came before, and ErrDetached that a Detach came before.
//   - ErrLost or ErrExpired means that the lock ended before the Release. The error also matches the error of
//     the server, if there was one.
//   - After any other error, or without an answer, the Locker frees the keys in the background, for half a
//     minute. It goes on longer while the server does not answer. The caller may call Release again. If all
//     that fails, or the token is from WithToken, the keys stay until their lease ends.
func (l *Lock) Release(ctx context.Context) error {
	if err := checkCall(ctx, l); err != nil {
		return err
	}
	defer l.deliver()
	if err := l.releases.Enter(ctx); err != nil {
		return notEntered(l.claim.Key(), err)
	}
	r := releasing{lock: l}
	defer func() {
		if !r.settled { // user code has panicked or ended the goroutine
			r.interrupted()
		}
	}()
	if r.begin(clock.Now()) {
		r.ask(ctx)
		r.settle()
	}
	return r.err
}

// endedContext is the context of a Release after a panic. The context has ended already, so Release gives the
// server 2 seconds to answer, and no longer.
var endedContext = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// releasing is one Release of a lock.
type releasing struct {
	lock    *Lock
	cause   *reason // why the lock ended
	ends    bool    // this Release has ended it
	passed  bool    // it has handed the lease over, or found no waiter for it
	freed   wire.Freed
	err     error         // of the calls, then of Release
	at      int           // position in ReleaseEach
	call    *wire.Freeing // in ReleaseEach
	settled bool          // the Release is complete

	minimum *minimum // nil: this Release frees the keys, and no earlier Release has shortened the lease
	over    bool     // the time of the minimum is over
}

// begin ends the lock, and hands its lease to the next caller of this process. It reports whether the Release
// must ask the server. It need not ask if another Lock has the lease. It must not ask if the lock was
// detached, because the keys then belong to another handle. The caller has entered the lock's gate.
func (r *releasing) begin(now clock.Instant) (asks bool) {
	r.end(now).Send()
	switch {
	case r.cause == detached:
		r.lock.releases.Leave(false)
		r.settled, r.err = true, &LockError{"release", r.lock.claim.Key(), r.cause}
	case r.lock.leaseGone:
		r.settle()
	}
	return !r.settled
}

// end is the part of begin that needs the lock's mutex. The Context ends before another Lock has the lease.
func (r *releasing) end(now clock.Instant) (next *clock.Signal) {
	l := r.lock
	l.mu.Lock()
	l.endIfOverAt(now)
	r.ends = l.cause() == nil
	l.become(stateReleased, now)
	if r.cause = l.cause(); r.cause != detached {
		r.keepOthersOut(now)
		if l.lease.ended != nil {
			l.unlock()
			l.mu.Lock()
		}
		next = r.pass(now)
	}
	l.unlock()
	return next
}

// ask makes the call of a single Release.
func (r *releasing) ask(ctx context.Context) {
	server := r.lock.locker.wire
	f, until := r.freeing()
	if r.shortens() {
		s := &wire.Shortening{Freeing: f, Until: until}
		server.ShortenEach(ctx, []*wire.Shortening{s})
		r.freed, r.err = s.Freed, s.Err
		return
	}
	r.freed, r.err = server.Release(ctx, f.Claim, f.Token, f.Former)
}

// pass hands the lease of a lock that this Release has ended to the next caller of this process. The caller
// holds mu.
func (r *releasing) pass(now clock.Instant) (next *clock.Signal) {
	if !r.ends || r.passed {
		return nil
	}
	r.passed = true
	l := r.lock
	back, next := l.done(now, l.request(), r.minimum != nil)
	if l.leaseGone = !back; back {
		l.retire(leaseBack)
	}
	return next
}

// interrupted completes a Release that user code has ended with a panic or runtime.Goexit.
func (r *releasing) interrupted() {
	l := r.lock
	l.mu.Lock()
	if r.minimum == nil { // begin may not have come to it
		r.keepOthersOut(clock.Now())
	}
	next := r.pass(clock.Now())
	l.unlock()
	next.Send()
	if !l.leaseGone {
		f, until := r.freeing()
		l.locker.wire.ReleaseLater(&l.claim, f.Token, f.Former, until)
		r.err = wire.ErrInterrupted
	}
	r.settle()
}

// settle takes the outcome of the calls, and lets the next caller of Release in.
func (r *releasing) settle() {
	l, cause := r.lock, r.cause
	r.settled = true
	lasted := cause == released || cause == closed
	if l.leaseGone { // other Locks have the lease
		if r.err == nil && (cause == nil || lasted) {
			r.freed = wire.Free
		}
	} else {
		l.lease.handle().Ended()
		l.mu.Lock()
		l.tokenOver(r.minimum != nil && r.err != nil)
		l.unlock()
	}
	done := r.err == nil
	r.err = wire.NoAnswer(r.err)
	switch {
	case errors.Is(r.err, rueidis.ErrClosing):
		r.err = fmt.Errorf("%w: %w", ErrClosed, r.err)
	case r.err != nil && cause != nil && !lasted: // the caller must learn that the lock did not last
		r.err = fmt.Errorf("%w; %w", cause, r.err)
	case r.err != nil || r.freed == wire.Free || r.freed == wire.Perhaps && lasted:
	case lasted:
		r.err = lost
	default:
		r.err = cause
	}
	if r.err != nil {
		r.err = &LockError{"release", l.claim.Key(), r.err}
	}
	l.releases.Leave(done)
	if r.ends {
		l.emitReleased(r.err)
	}
}

// emitReleased emits the event of a Release that ended a lock.
func (l *Lock) emitReleased(err error) {
	switch {
	case err == nil:
		l.emit(&Event{Kind: EventReleased})
	case errors.Is(err, ErrLost):
		l.emit(&Event{Kind: EventLost, Err: ErrLost})
	default:
		l.emit(&Event{Kind: EventReleaseFailed, Err: err})
	}
}

// notEntered is the error of a Release that could not enter the lock's gate.
func notEntered(key string, err error) error {
	if err == gate.ErrAnswered {
		return &LockError{"release", key, ErrReleased}
	}
	return &LockError{"release", key, fmt.Errorf("another Release of it has no answer yet: %w", err)}
}

// keepOthersOut decides whether this Release frees the keys or only shortens the lease. It only shortens the
// lease while the time of WithMinHold lasts. If an earlier Release has shortened the lease, keepOthersOut
// also notes the token of that Release, because the keys may have it. The caller holds the lock's mu.
func (r *releasing) keepOthersOut(now clock.Instant) {
	l := r.lock
	until := l.keptUntil()
	if until == clock.Past || until <= now && l.minimum.token == "" {
		return
	}
	if l.minimum.token == "" {
		l.minimum.token = l.mint()
	}
	r.minimum, r.over = l.minimum, until <= now
}

// shortens reports whether the Release shortens the lease and does not free the keys.
func (r *releasing) shortens() bool { return r.minimum != nil && !r.over }

// freeing returns the request of the Release to the server, and when the keys may be free.
func (r *releasing) freeing() (f wire.Freeing, until clock.Instant) {
	l := r.lock
	l.mu.Lock() // an extension may get its answer now
	defer l.unlock()
	if r.minimum != nil {
		return wire.Freeing{Claim: &l.claim, Token: r.minimum.token, Former: l.terms.Tokens()}, r.minimum.until
	}
	return wire.Freeing{Claim: &l.claim, Token: l.terms.Token(), Former: l.terms.Former()}, clock.Past
}
