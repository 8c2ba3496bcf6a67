package rlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/text"
)

// Shutdown ends the Locker for a process that stops, so that others get its locks at once. In this order:
//
//   - Calls that acquire fail with ErrClosed from now on, also those that wait.
//   - The Context of each lock, and of each function of Do, Lead and their kind, ends with ErrShutdown. The
//     lock is still held, and extended for up to a minute.
//   - Shutdown waits until these functions have returned, while ctx lasts.
//   - It releases all other locks. Nobody waits for those who work under them: have them stop before.
//   - It closes the Locker as Close does, and returns.
//
// Nil means that every function has returned, and that the server has freed what was held. Otherwise the
// error is ErrClosed, after a Shutdown or Close before, or a *ShutdownError. A function that has not
// returned when ctx ends keeps its lock until the lease ends; so do not call Shutdown in one. After ctx has
// ended, Shutdown takes at most 8 seconds more if the server does not answer.
func (l *Locker) Shutdown(ctx context.Context) (err error) {
	if err := checkCall(ctx, l); err != nil {
		return err
	}
	if !l.underway.Stop() {
		return ErrClosed
	}
	l.lines.Wake()
	defer func() { err = l.finish(ctx) }() // also if a method of a context panics that ends now
	l.eachLock(func(lock *Lock) { lock.endContext(shuttingDown) })
	return nil
}

// finish is the part of Shutdown that waits, frees and closes.
func (l *Locker) finish(ctx context.Context) error {
	defer l.Close() // also if user code panics
	var left ShutdownError
	var errs []error
	select {
	case <-l.underway.Empty():
	case <-l.closed:
	case <-ctx.Done():
		select {
		case <-l.underway.Empty():
		default:
			errs = append(errs, clock.ContextError(ctx, nil))
		}
	}
	var rest []*Lock
	for _, lock := range l.Locks() {
		if lock.by.do {
			left.Running = append(left.Running, lock.claim.Keys()...)
		} else {
			rest = append(rest, lock)
		}
	}
	if l.isClosed() { // by another goroutine: that may have ended some locks before they were looked at
		return ErrClosed
	}
	for i, err := range l.ReleaseEach(ctx, rest) {
		if ended := errors.Is(err, ErrNotHeld) && !errors.Is(err, ErrNoAnswer); err != nil && !ended {
			left.Unsure = append(left.Unsure, rest[i].claim.Keys()...)
			errs = append(errs, err)
		}
	}
	if more := l.close(); len(more) > 0 {
		left.Unsure = append(left.Unsure, more...)
		errs = append(errs, ErrNoAnswer)
	}
	if len(errs) == 0 {
		return nil
	}
	slices.Sort(left.Unsure)
	left.Unsure, left.Err = slices.Compact(left.Unsure), errors.Join(errs...)
	return &left
}

// ShutdownError says which keys Shutdown leaves, or may leave, to their leases.
type ShutdownError struct {
	Running []string // of functions that had not returned when the context ended
	Unsure  []string // of locks that the server has not freed, as far as is known
	Err     error    // the context's error, those of the releases, or all of them
}

func (e *ShutdownError) Error() string {
	var left []string
	if len(e.Running) > 0 {
		left = append(left, "functions that have not returned keep "+someKeys(e.Running))
	}
	if len(e.Unsure) > 0 {
		left = append(left, "the server may still have "+someKeys(e.Unsure))
	}
	if left == nil {
		left = append(left, "calls were still under way")
	}
	cause, _, _ := strings.Cut(text.Cause(e.Err), "\n") // of the errors of many locks, the first
	return "rlock: shutdown: " + strings.Join(left, ", and ") + ": " + cause
}

// Unwrap returns Err.
func (e *ShutdownError) Unwrap() error { return e.Err }

// someKeys shows the first of some keys, and how many there are.
func someKeys(keys []string) string {
	const shown = 5
	var names []string
	for _, key := range keys[:min(len(keys), shown)] {
		names = append(names, text.Quote(key))
	}
	if more := len(keys) - shown; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
