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

// Shutdown ends the Locker for a process that stops, so others get its locks at once. In this order:
//
//   - Calls that acquire fail with ErrClosed from now on, also calls that wait.
//   - The Context of each lock ends with ErrShutdown, and so does the context of each function of Do, Lead
//     and their variants. The lock is still held, and its extension goes on for up to a minute.
//   - Shutdown waits until these functions return, while ctx lasts.
//   - It releases all other locks. It does not wait for work under them, so the caller must stop that work
//     before.
//   - It closes the Locker like Close, and returns.
//
// Nil means that every function has returned, and that the server has freed all locks. If Shutdown or Close
// came before, the error is ErrClosed. Any other error is a *ShutdownError. A function that has not returned
// when ctx ends keeps its lock until the lease ends. So a function must not call Shutdown. After ctx has
// ended, Shutdown takes at most 8 seconds more if the server does not answer.
func (l *Locker) Shutdown(ctx context.Context) (err error) {
	if err := checkCall(ctx, l); err != nil {
		return err
	}
	if !l.underway.Stop() {
		return ErrClosed
	}
	l.lines.Wake()
	defer func() { err = l.finish(ctx) }() // even if a method of a context that ends now panics
	l.eachLock(func(lock *Lock) { lock.endContext(shuttingDown) })
	return nil
}

// finish is the part of Shutdown that waits, frees and closes.
func (l *Locker) finish(ctx context.Context) error {
	defer l.Close() // even if user code panics
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
	if l.isClosed() { // by another goroutine, which may have ended some locks before Shutdown saw them
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

// ShutdownError has the keys that Shutdown leaves, or may leave, to their leases.
type ShutdownError struct {
	Running []string // keys of functions that had not returned when the context ended
	Unsure  []string // keys of locks whose end the server has not confirmed
	Err     error    // the errors of the context and of the releases
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
	cause, _, _ := strings.Cut(text.Cause(e.Err), "\n") // the first error of many locks
	return "rlock: shutdown: " + strings.Join(left, ", and ") + ": " + cause
}

// Unwrap returns Err.
func (e *ShutdownError) Unwrap() error { return e.Err }

// someKeys returns the first of some keys, and their number.
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
