package rlock

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// FailureReason names the failure of a call in one word. Each *AcquireError, and each Event of a failure, has
// exactly one. Stats, logs and metrics count and show it.
type FailureReason uint8

// The first reason that applies counts.
const (
	ReasonNoAnswer    FailureReason = iota + 1 // ErrNoAnswer: the server is down or cannot serve yet
	ReasonClosed                               // the Locker or the client was closed
	ReasonAlreadyHeld                          // ErrAlreadyHeld: the program waits for itself
	ReasonCanceled                             // the caller has cancelled the context
	ReasonGaveUp                               // the context or the policy ended the wait for a held lock
	ReasonHeld                                 // others held the lock, and the call does not wait
	ReasonExpired                              // the lease was over before it was confirmed
	ReasonInterrupted                          // user code, such as an Observer, has panicked
	ReasonRefused                              // the server or the client refused it: NOPERM, OOM …

	failureReasons // one more than the last
)

var reasonNames = [failureReasons]string{
	ReasonNoAnswer:    "no_answer",
	ReasonClosed:      "closed",
	ReasonAlreadyHeld: "already_held",
	ReasonCanceled:    "canceled",
	ReasonGaveUp:      "gave_up",
	ReasonHeld:        "held",
	ReasonExpired:     "expired",
	ReasonInterrupted: "interrupted",
	ReasonRefused:     "refused",
}

// String returns the name of the reason, such as "no_answer".
func (r FailureReason) String() string {
	if r == 0 || r >= failureReasons {
		return "FailureReason(" + strconv.Itoa(int(r)) + ")"
	}
	return reasonNames[r]
}

// Reason returns why the acquisition has failed.
func (e *AcquireError) Reason() FailureReason { return reasonOf(e.Err) }

// Reason returns why the call of the event has failed. It returns 0 if the event is none of
// EventAcquireFailed, EventExtendFailed and EventReleaseFailed.
func (e Event) Reason() FailureReason {
	switch e.Kind {
	case EventAcquireFailed, EventExtendFailed, EventReleaseFailed:
		return reasonOf(e.Err)
	}
	return 0
}

// reasonOf is the only function that chooses reasons.
func reasonOf(err error) FailureReason {
	is := func(target error) bool { return errors.Is(err, target) }
	late := is(context.DeadlineExceeded)
	switch {
	case is(ErrNoAnswer):
		return ReasonNoAnswer
	case is(ErrClosed), is(rueidis.ErrClosing):
		return ReasonClosed
	case is(ErrAlreadyHeld):
		return ReasonAlreadyHeld
	case is(context.Canceled) && !late:
		return ReasonCanceled
	case late, is(ErrGaveUp):
		return ReasonGaveUp
	case is(ErrHeld):
		return ReasonHeld
	case is(ErrExpired):
		return ReasonExpired
	case is(wire.ErrInterrupted):
		return ReasonInterrupted
	}
	return ReasonRefused
}

// Failures counts failures. The index is the FailureReason.
type Failures [failureReasons]uint64

// Total returns the number of all failures.
func (f Failures) Total() (n uint64) {
	for _, of := range f {
		n += of
	}
	return n
}

// MarshalJSON returns the counts above 0, by the names of their reasons.
func (f Failures) MarshalJSON() ([]byte, error) {
	named := map[string]uint64{}
	for r, n := range f {
		if n > 0 {
			named[FailureReason(r).String()] = n
		}
	}
	return json.Marshal(named)
}
