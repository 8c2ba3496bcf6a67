package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/rlock"
)

const (
	deadLease = 2 * time.Second         // of the lock that its holder does not release
	slack     = 1500 * time.Millisecond // how much later the next holder may come on a busy machine
)

// takeover shows what a lease is for: a holder that dies keeps others waiting no
// longer than that, and a holder that only seemed dead knows, without asking, that
// it holds nothing any more.
func (d *demo) takeover(ctx context.Context) error {
	d.heading(fmt.Sprintf("2. A worker dies with a lock in its hands. Its lease, %v, is as long as the next one waits.", deadLease))
	first, err := d.server.locker()
	if err != nil {
		return err
	}
	defer first.Close()
	second, err := d.server.locker()
	if err != nil {
		return err
	}
	defer second.Close()

	const key = "nightly-report"
	asked := time.Now()
	dead, err := first.Acquire(ctx, key, rlock.WithTTL(deadLease))
	if err != nil {
		return err
	}
	defer dead.Release(ctx) // matters if the scene is cut short
	d.referee.acquired(dead)
	d.say("worker A", "took %s, fence %d, and is not heard of again", key, dead.Fence())

	// Who does not want to wait learns how long it would have been.
	_, err = second.TryAcquire(ctx, key)
	var refused *rlock.AcquireError
	switch {
	case err == nil:
		return errors.New("a lock that is held was given to another")
	case !errors.Is(err, rlock.ErrHeld) || !errors.As(err, &refused):
		return err
	}
	d.say("worker B", "finds it held for another %v, and waits", refused.Left.Round(time.Millisecond))

	waiting := make(chan handOver, 1)
	go func() {
		lock, err := second.Acquire(ctx, key)
		// Noted here, because nobody reads the channel before worker A's Context
		// has ended.
		waiting <- handOver{lock, err, time.Now(), dead.Valid()}
	}()

	// Nobody tells worker A that its time is over: its own clock does.
	select {
	case <-dead.Context().Done():
		d.say("worker A", "its Context ended: %v", context.Cause(dead.Context()))
	case <-ctx.Done(): // worker B gives up too
	}

	next := <-waiting
	if next.err != nil {
		return next.err
	}
	defer next.lock.Release(ctx)
	d.referee.acquired(next.lock)
	d.sayAt(next.at, "worker B", "took over after %v, fence %d, attempts %d",
		next.at.Sub(asked).Round(time.Millisecond), next.lock.Fence(), next.lock.Attempts())
	d.referee.judge("a dead holder's lock passes on when its lease is over, neither before nor much later",
		next.wrong(asked, dead.Deadline(), context.Cause(dead.Context())))

	// Worker A was not dead, only slow. It can no longer do harm.
	late := dead.Release(ctx)
	d.say("worker A", "is back, and its Release is refused: %v", errors.Unwrap(late))
	state, err := next.lock.Check(ctx)
	if err != nil {
		return err
	}
	d.referee.judge("a late release leaves the next holder alone", lateRelease(late, state.HeldBy(next.lock.Token())))
	return next.lock.Release(ctx)
}

// handOver is how the next worker got the lock.
type handOver struct {
	lock  *rlock.Lock
	err   error
	at    time.Time
	still bool // the first worker believed at that time that it held the lock
}

// wrong returns what is wrong with the hand-over of a lock that was asked for at
// asked and held until deadline, and whose Context ended with cause.
func (h handOver) wrong(asked, deadline time.Time, cause error) error {
	switch {
	case !errors.Is(cause, rlock.ErrExpired):
		return fmt.Errorf("the Context ended with %v", cause)
	case h.still:
		return errors.New("the first holder still believed that it held the lock")
	case h.at.Before(deadline):
		return fmt.Errorf("it passed on %v before the deadline", deadline.Sub(h.at))
	case h.at.Sub(asked) > deadLease+slack:
		return fmt.Errorf("it took %v", h.at.Sub(asked))
	}
	return nil
}

// lateRelease returns what is wrong with the answer to a release by a holder whose
// lease is over, or with what it did.
func lateRelease(answer error, untouched bool) error {
	switch {
	case !errors.Is(answer, rlock.ErrExpired):
		return fmt.Errorf("it was answered with %v", answer)
	case !untouched:
		return errors.New("the next holder has lost the lock by it")
	}
	return nil
}
