package rlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// WaitFree waits until no token holds the lock of key, and does not take the lock. A lock is never free
// during a hand-over, so WaitFree also waits for all waiters. Only WithRetry has an effect. The error is an
// *AcquireError, as from Acquire.
func (l *Locker) WaitFree(ctx context.Context, key string, opts ...Option) error {
	opts = append(slices.Clip(opts), WithMinHold(0)) // WaitFree has no lease that could be too short
	set, full, err := l.beginKey(ctx, key, opts)
	if err != nil {
		return err
	}
	if l.isStopping() {
		return &AcquireError{Key: full, Err: ErrClosed, call: callWaitFree}
	}
	start := clock.Now()
	if set.retry.total > 0 {
		limited, cancel := set.retry.bound(ctx)
		defer cancel()
		ctx = limited
	}
	if ctx.Err() != nil {
		why := noLock{ErrGaveUp, clock.ContextError(ctx, nil)}
		return &AcquireError{Key: full, Err: failure(callWaitFree, false, why), call: callWaitFree}
	}
	if _, held := l.heldIn(ctx, []string{full}); held {
		return &AcquireError{Key: full, Err: ErrAlreadyHeld, call: callWaitFree}
	}
	var pause time.Duration
	w := l.newWait()
	defer w.Leave()
	var s State // by the last answer
	claim, outage := wire.One(full), l.wire.Outage(new(clock.Silence))
	call, end := clock.EndsWith(ctx, l.background)
	defer end()
	for number := 1; ; number++ {
		outage.Ask()
		holders, err := l.wire.Inspect(call, &claim)
		passes := outage.Record(err)
		switch {
		case err != nil:
			s.until = clock.Now() // unknown from now on
		case !holders[0].Held:
			return nil
		default:
			s = stateOf(holders[0])
			// The key is held. No time left would mean that the time is unknown.
			s.until = max(s.until, clock.Now().After(time.Millisecond))
		}
		fail := func(err, cause error) error {
			waited := time.Duration(clock.Now() - start)
			if err == ErrGaveUp {
				cause = outage.Explain(cause, waited)
			}
			failed := &AcquireError{
				Key: full, Attempts: number, Waited: waited,
				Err: failure(callWaitFree, s.Held, noLock{err, cause}), call: callWaitFree, own: l.holds(full),
			}
			if !errors.Is(failed.Err, ErrNoAnswer) {
				failed.Remaining = s.Remaining()
			}
			return failed
		}
		if ctx.Err() != nil {
			return fail(ErrGaveUp, clock.ContextError(ctx, err))
		}
		if err != nil && l.isClosed() { // Close may have ended the look
			return fail(ErrClosed, nil)
		}
		if err != nil && !passes {
			return fail(err, nil)
		}
		var more bool
		pause, more = set.retry.next(
			Attempt{Number: number, Elapsed: time.Duration(clock.Now() - start), Previous: pause,
				Remaining: s.Remaining()})
		if !more {
			return fail(ErrGaveUp, nil)
		}
		if err := w.Await(ctx, full, outage.Pace(pause), s.Remaining(), set.retry.end(start)); err != nil {
			why := waitEnded(err)
			return fail(why.err, why.cause)
		}
	}
}
