package rlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/argument"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/text"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Errors for errors.Is. The types below carry the facts, for errors.As. Both functions also find the errors
// of the server (NOPERM, READONLY, OOM, WRONGTYPE, LOADING …) and of the context.
var (
	// ErrHeld: another token holds the lock, others wait for it, or too few permits are free.
	ErrHeld = errors.New("rlock: lock is held by another")
	// ErrGaveUp: the context or the retry policy ended the call before it got the lock.
	ErrGaveUp = errors.New("rlock: gave up waiting")
	// ErrNoAnswer: when the call ended, the server had not answered, or could not serve yet (LOADING …, see
	// "Errors" above). Look at the server, not at the holder. Errors of all calls may match it. The error of
	// an acquisition never matches both ErrNoAnswer and ErrHeld. The error of a command that the server
	// refuses does not match. If the caller cancels a call within a second, the error matches only if a try
	// has failed before.
	ErrNoAnswer = wire.ErrNoAnswer
	// ErrAlreadyHeld: the context belongs to a holder of the same key, so the wait would never end. It
	// matches ErrHeld too.
	ErrAlreadyHeld error = &reason{"rlock: this context already holds the key", ErrHeld}

	// ErrNotHeld: the lock has ended. ErrReleased, ErrLost, ErrExpired, ErrMaxHold, ErrDetached and ErrClosed
	// say why. The error of an ended lock matches ErrNotHeld and one of these.
	ErrNotHeld = errors.New("rlock: lock is not held")
	// ErrReleased: the holder released it.
	ErrReleased error = released
	// ErrLost: the server said that the key is gone or has another token.
	ErrLost error = lost
	// ErrExpired: the lease ended by the local clock before the server confirmed the grant or an extension.
	ErrExpired error = expired
	// ErrMaxHold: the time of WithMaxHold was over. Or the function of Do or of a variant did not return
	// within a minute after its context ended. It matches ErrExpired too.
	ErrMaxHold error = limited
	// ErrDetached: Detach has ended the handle. The server still has the lock.
	ErrDetached error = detached

	// ErrClosed: the Locker was closed, or Shutdown has begun and the Locker acquires nothing. The error of a
	// lock that ended with its Locker matches ErrNotHeld too.
	ErrClosed = errors.New("rlock: locker is closed")

	// ErrShutdown is the cause of the Context of a lock while its Locker shuts down. The lock is still held.
	ErrShutdown error = shuttingDown
	// ErrLeaseEnding is the cause of a Context that WithStopBefore has ended. The lock is still held.
	ErrLeaseEnding error = leaseEnding

	// ErrInvalid: an argument or option cannot be right. rlock sent nothing. The next two errors match it
	// too.
	ErrInvalid = errors.New("rlock: invalid argument")
	// ErrDuplicateKey: a set names a key twice.
	ErrDuplicateKey error = &reason{"rlock: duplicate key", ErrInvalid}
	// ErrCrossSlot: a Redis Cluster keeps the keys of a set in different slots.
	ErrCrossSlot error = &reason{"rlock: keys in different slots", ErrInvalid}
)

// Why a lock ends.
var (
	released = &reason{"rlock: lock was released", ErrNotHeld}
	lost     = &reason{"rlock: lock was lost: its key is gone or has another token", ErrNotHeld}
	expired  = &reason{"rlock: lease expired before it was extended", ErrNotHeld}
	limited  = &reason{
		"rlock: lock was held for as long as WithMaxHold allows, or a minute after its context ended", expired,
	}
	detached = &reason{"rlock: lock was detached", ErrNotHeld}
	closed   = &reason{"rlock: locker is closed", errors.Join(ErrNotHeld, ErrClosed)}
)

// Why a Context ends before its lock does.
var (
	shuttingDown = &reason{"rlock: locker is shutting down", nil}
	leaseEnding  = &reason{"rlock: lease is about to end", nil}
)

// reason is an error variable that may be a special case of another.
type reason struct {
	text string
	kind error
}

func (r *reason) Error() string { return r.text }
func (r *reason) Unwrap() error { return r.kind }

// AcquireError reports a lock that was not acquired.
type AcquireError struct {
	Key string // the Redis key in the way, or the first key of a set
	// Remaining is the time left of the holder's lease: by the last answer of the server, less the time since
	// then. It is NoExpiry if the lease never ends. It is 0 if the lease is over, or if the time is unknown,
	// as with ErrNoAnswer.
	Remaining time.Duration
	Attempts  int           // how often the acquisition tried, see Lock.Attempts
	Waited    time.Duration // from the call to this error

	// Err is ErrHeld, ErrAlreadyHeld, ErrExpired, ErrClosed, the error of the server or of the client, or
	// matches ErrGaveUp. With ErrGaveUp, errors.Is also finds what ended the wait, such as the error of the
	// context or the last error of the server. It also finds ErrNoAnswer, or ErrHeld if the server reported a
	// holder.
	Err error

	call      call // that failed
	contended bool // another token held the key, or another caller was before this one in the line
	own       bool // the holder is a lock of the same Locker
}

// call is the kind of a failed call. The text of its error depends on it.
type call int

const (
	callWait     call = iota // it waits for the lock
	callTry                  // it makes one attempt
	callWaitFree             // WaitFree
)

func (e *AcquireError) Error() string {
	op, effort, holder := "acquire", "", ""
	if e.call == callWaitFree {
		op = "wait for"
	}
	if errors.Is(e.Err, ErrGaveUp) && e.call != callTry {
		effort = text.Effort(e.Attempts, e.Waited, e.contended)
	}
	if errors.Is(e.Err, ErrHeld) {
		holder = text.HeldBy(e.own && !errors.Is(e.Err, ErrAlreadyHeld), e.Remaining)
	}
	return text.Failure(op, e.Key, e.Err, effort, holder, wire.Advice(e.Err))
}

// Unwrap returns Err.
func (e *AcquireError) Unwrap() error { return e.Err }

// gaveUp is the Err of a call that ends with ErrGaveUp.
type gaveUp struct {
	call  call
	cause error // what ended the waiting; nil: the policy
	wraps wire.Wraps
}

func (e *gaveUp) Error() string {
	message := ErrGaveUp.Error()
	if e.call == callTry {
		message = "rlock: ended before the answer"
	}
	if e.cause != nil {
		message += ": " + text.Cause(e.cause)
	}
	return message
}

// Unwrap makes ErrGaveUp and the cause reachable. The cause may match ErrNoAnswer. If the server reported a
// holder, Unwrap makes ErrHeld reachable too.
func (e *gaveUp) Unwrap() []error { return e.wraps.Errors() }

// failure returns the Err of an AcquireError. held says that there was a holder, or that others were in the
// queue.
func failure(c call, held bool, why noLock) error {
	switch {
	case why.err == ErrGaveUp:
		var holder error
		if held && !errors.Is(why.cause, ErrNoAnswer) {
			holder = ErrHeld
		}
		return &gaveUp{c, why.cause, wire.NewWraps(ErrGaveUp, holder, why.cause)}
	case why.cause != nil:
		return fmt.Errorf("%w: %w", why.err, why.cause)
	}
	return why.err
}

// LockError reports an operation on a lock that failed.
type LockError struct {
	// Op names the operation: "extend" (by Extend, ExtendEach or automatically), "release", "verify"
	// (Lock.Verify), "check" (Locker.Check and Leaders), "attach", "detach", "probe" or "queue" (of an
	// EventPolling). Package rlockadmin has "inspect", "list" and "force release".
	Op  string
	Key string // Redis key; for a set, the first key concerned
	// Err is ErrReleased, ErrLost, ErrExpired, ErrMaxHold, ErrDetached, ErrClosed, or the error of the server
	// or the client.
	Err error
}

// unanswered is the LockError of a call that ended with err.
func unanswered(ctx context.Context, op, key string, err error) *LockError {
	return &LockError{op, key, wire.Ended(ctx, err)}
}

func (e *LockError) Error() string { return text.Failure(e.Op, e.Key, e.Err, wire.Advice(e.Err)) }

// Unwrap returns Err.
func (e *LockError) Unwrap() error { return e.Err }

// ArgumentError reports a wrong argument or option, which rlock refused before it sent anything. It matches
// ErrInvalid. It may also match ErrDuplicateKey or ErrCrossSlot.
type ArgumentError struct {
	Argument string // name of the parameter or of the option
	Reason   string // what is wrong, and what would be right

	kind error // nil: ErrInvalid
}

// invalid returns an ArgumentError.
func invalid(argument, reason string) *ArgumentError {
	return &ArgumentError{Argument: argument, Reason: reason}
}

func (e *ArgumentError) Error() string { return "rlock: " + e.Argument + ": " + e.Reason }

// Unwrap returns ErrInvalid, or its special case.
func (e *ArgumentError) Unwrap() error {
	if e.kind != nil {
		return e.kind
	}
	return ErrInvalid
}

// noLock says why an acquisition has ended without the lock. With the zero value the acquisition has the
// lock, or goes on.
type noLock struct{ err, cause error } // of an AcquireError

func (s noLock) none() bool { return s.err == nil }

// waitEnded returns the noLock of a call whose wait ended with err.
func waitEnded(err error) noLock {
	switch err {
	case clock.ErrStopped:
		return noLock{err: ErrClosed}
	case ErrHeld, ErrGaveUp:
		return noLock{err: err}
	}
	return noLock{ErrGaveUp, err}
}

// kinds has the error of each kind of wrong argument.
var kinds = [...]error{
	argument.Invalid: nil, argument.Duplicate: ErrDuplicateKey, argument.CrossSlot: ErrCrossSlot,
}

// refused returns the error of a call with a wrong argument, or nil if there is none.
func refused(wrong *argument.Wrong) error {
	if wrong == nil {
		return nil
	}
	return &ArgumentError{wrong.Argument, wrong.Reason, kinds[wrong.Kind]}
}
