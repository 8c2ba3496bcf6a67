// Package wire runs the scripts on the server, repeats commands that got no answer, and records what such
// commands may have left there.
//
// A reply can be lost on its way back. Then its caller does not know whether the server ran the command, or
// will still run it. Package wire tells this case from a refusal, and repeats what is safe to repeat. It
// gives the rest to a reaper, and keeps tokens out of errors. It alone knows that the keys of a set may be
// in several slots.
//
// It does not know what a lock is to its holder: it knows no state, no deadline, and no waiting callers.
package wire

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/redislua"
)

// Outcome is what is known of a command.
type Outcome uint8

const (
	// Done: the server ran the command.
	Done Outcome = iota
	// Refused: the server did not run the command, or the client never sent it.
	Refused
	// Indeterminate: there was no reply. The server may have run the command, or may still run it.
	Indeterminate
)

// ErrInterrupted is the error of an operation that user code has ended with a panic or runtime.Goexit. Only
// observers see it. Its outcome is Indeterminate.
var ErrInterrupted = errors.New(
	"rlock: a panic or runtime.Goexit in a RetryFunc, an Observer, a hook of the client or the context " +
		"ended the call")

// OutcomeOf tells what the error of a call says about the command. It knows the errors of the server, of
// the client and of package gen. For any other error it returns Indeterminate.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Done
	case contextEnded(err):
		return Indeterminate
	}
	var (
		server *rueidis.RedisError
		param  *redislua.ParamError
		slots  *redislua.CrossSlotError
		some   *partialError
		plain  *refusal
		backed *BackendError
	)
	if errors.As(err, &some) {
		return Indeterminate
	}
	if errors.As(err, &backed) && !backed.Refused {
		return Indeterminate
	}
	if backed != nil || errors.As(err, &server) || errors.As(err, &param) || errors.As(err, &slots) ||
		errors.As(err, &plain) {
		return Refused
	}
	return Indeterminate
}

// contextEnded reports whether an error says that the context of a call has ended, and nothing else. A
// context can end for thousands of callers at the same time. To look through each error for every other
// kind would take many times as long as the rest of their work.
func contextEnded(err error) bool {
	if u, ok := err.(*unsentError); ok {
		err = u.err
	}
	return err == context.Canceled || err == context.DeadlineExceeded
}

// Transient reports whether the same command may succeed later. It may if the server did not answer, loads
// its data, fails over or moves a slot.
func Transient(err error) bool {
	if contextEnded(err) {
		return true
	}
	var some *partialError
	if errors.As(err, &some) {
		err = some.err
	}
	var server *rueidis.RedisError
	if errors.As(err, &server) {
		return server.IsTryAgain() || server.IsLoading() || server.IsClusterDown() ||
			strings.HasPrefix(server.Error(), "MASTERDOWN")
	}
	var garbled *redislua.ReplyError
	return OutcomeOf(err) == Indeterminate && !errors.As(err, &garbled)
}

// Combine makes one error of the replies to one command in several slots. The outcome is Indeterminate if a
// reply is Indeterminate, or if only some slots have refused.
func Combine[T any](replies []redislua.Reply[T]) error {
	var first error
	done := false
	for _, reply := range replies {
		switch OutcomeOf(reply.Err) {
		case Indeterminate:
			return reply.Err
		case Refused:
			if first == nil {
				first = reply.Err
			}
		case Done:
			done = true
		}
	}
	if first != nil && done {
		return &partialError{"for some of the keys: ", first}
	}
	return first
}

// Unfenced is the error of a call that has taken a key but got no fence because of err.
func Unfenced(err error) error {
	return &partialError{"the key was taken, but got no fence: ", err}
}

// partialError says that one part of a call was refused, and another part is done.
type partialError struct {
	where string
	err   error
}

func (e *partialError) Error() string { return e.where + e.err.Error() }
func (e *partialError) Unwrap() error { return e.err }

// BackendError is an error of a backend. errors.As finds no error of Redis in it. If the backend uses
// Redis, that Redis is not the server of the locks.
type BackendError struct {
	Err     error
	Refused bool // the backend has not done what it was asked, and will not
}

func (e *BackendError) Error() string        { return e.Err.Error() }
func (e *BackendError) Is(target error) bool { return errors.Is(e.Err, target) }
func (e *BackendError) As(target any) bool {
	if _, is := target.(**rueidis.RedisError); is {
		return false
	}
	return errors.As(e.Err, target)
}
