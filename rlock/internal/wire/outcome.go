// Package wire runs the scripts on the server, repeats commands that got no answer, and records
// what such commands may have left there.
//
// A reply can be lost on its way back. Whoever waited for it then doesn't know whether the
// server ran the command, or will still run it. This package tells that apart from a refusal,
// repeats what is safe to repeat, gives the rest to a reaper, and keeps tokens out of errors. It
// alone knows that a cluster has the keys of a set in several slots.
//
// It never knows what a lock is to its holder: not its state, its deadline or which callers wait for it.
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
	// Done: the server ran it.
	Done Outcome = iota
	// Refused: the server did not run it, or it was never sent.
	Refused
	// Indeterminate: there was no reply, so that it may have run, or may still run.
	Indeterminate
)

// ErrInterrupted is the error of an operation that user code has ended with a panic or
// runtime.Goexit. Only observers see it. Its outcome is Indeterminate.
var ErrInterrupted = errors.New(
	"rlock: a panic or runtime.Goexit in a RetryFunc, an Observer, a hook of the client or the context " +
		"ended the call")

// OutcomeOf tells what the error of a call says about the command. It knows the errors of the
// server, of the client and of package gen. For any other error it returns Indeterminate.
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

// contextEnded reports whether an error says that the context of a call has ended, and nothing else.
// A context can end for thousands of callers at the same time. Looking in each error for all that it is
// not would keep them from returning for many times as long as the rest of what they do.
func contextEnded(err error) bool {
	if u, ok := err.(*unsentError); ok {
		err = u.err
	}
	return err == context.Canceled || err == context.DeadlineExceeded
}

// Transient reports whether the same command may succeed later: the server did not answer,
// or says that it cannot serve yet because it loads its data, fails over or moves a slot.
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

// Combine makes one error of the replies to one command in several slots. Its outcome is
// Indeterminate if that of a reply is, or if only some of the slots have refused.
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

// Unfenced is the error of a call that has taken a key, and has got no fence because of err.
func Unfenced(err error) error {
	return &partialError{"the key was taken, but got no fence: ", err}
}

// partialError says that something was refused, and that something else is done.
type partialError struct {
	where string
	err   error
}

func (e *partialError) Error() string { return e.where + e.err.Error() }
func (e *partialError) Unwrap() error { return e.err }

// BackendError is an error of a backend. If that uses Redis, what Redis says is not about the locks' own
// server: errors.As does not find it.
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
