package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// ErrNoAnswer says that the server had not answered, or could not serve yet, when the call ended.
var ErrNoAnswer = errors.New("rlock: no answer from the server")

// Outage records for how long the server has not answered a waiting caller, or could not serve. It tells an
// error that may pass from an error that stays. So a caller who waits for a lock also waits for a restart,
// a failover, or a slot that moves. Server.Outage makes an Outage.
type Outage struct {
	server   *Server
	silence  *clock.Silence // since the first of the calls in a row without an answer
	err      error          // of the last attempt, if it may pass
	closings int            // how often in a row the client has said that it is closed
	begun    bool           // the silence began with a call of this caller, not of an earlier one
}

// mostClosings is how often in a row the client may say that it is closed. After that, all waiters take it
// as closed for good. The client also says so for a moment when it drops a primary that was replaced.
const mostClosings = 4

// closingPause is the longest pause before a waiter asks the client again whether it is closed.
const closingPause = time.Second / 2

// Outage returns an Outage for one waiting caller. Other callers see by silence since when the caller has
// no answer.
func (s *Server) Outage(silence *clock.Silence) Outage { return Outage{server: s, silence: silence} }

// Ask notes that the caller is about to ask the server. The caller then calls Record.
func (o *Outage) Ask() {
	if o.silence.Begin(clock.Now()) {
		o.begun = true
	}
}

// Leave notes that the caller leaves without an answer. The next caller counts this silence only if an
// answer was due. Otherwise many callers who leave one after the other, each just before its answer, would
// look like an outage.
func (o *Outage) Leave() {
	soon := min(2*o.server.RoundTrip(), LongestAnswer)
	if o.begun && (o.err == nil || isContextError(o.err)) && o.silence.Lasts(clock.Now()) < soon {
		o.silence.Leave()
	}
}

// Record takes the error of an attempt, which may be nil. It reports whether another attempt may succeed
// later, because the server did not answer or cannot serve yet.
func (o *Outage) Record(err error) (passes bool) {
	if closed := o.closed(err); err == nil || closed || !Transient(err) && !o.demoted(err) {
		o.err, o.begun = nil, false
		o.silence.End()
		return false
	}
	if o.err == nil || !isContextError(err) {
		o.err = err
	}
	return true
}

// demoted reports whether the server is no longer the primary, and the client will find the new one. A
// client of one server never does.
func (o *Outage) demoted(err error) bool {
	var server *rueidis.RedisError
	return errors.As(err, &server) && strings.HasPrefix(server.Error(), "READONLY") &&
		o.server.calls.client.Mode() != rueidis.ClientModeStandalone
}

func (o *Outage) closed(err error) bool {
	closed := &o.server.closed
	if !errors.Is(err, rueidis.ErrClosing) {
		o.closings = 0
		if closed.Load() {
			closed.Store(false)
		}
		return false
	}
	if o.closings++; o.closings == mostClosings {
		closed.Store(true)
	}
	return closed.Load()
}

// Pace returns the pause before the next attempt. It is the pause of the policy. If the client may be
// closed for good, it is shorter, so that the caller soon learns of it.
func (o *Outage) Pace(pause time.Duration) time.Duration {
	if o.closings > 0 {
		return min(pause, closingPause)
	}
	return pause
}

func isContextError(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// LongestAnswer is how long the server may take to answer. After that, a caller takes the server as silent.
// That is two heartbeats of a waiter. A slow network or server answers within about 100 ms.
const LongestAnswer = time.Second

// Explain returns cause, which has ended the waiting. If the server does not answer or cannot serve, the
// error also says that, and matches ErrNoAnswer. waited is how long the call has lasted.
//
// A call without an answer counts once it is LongestAnswer old. If the server has answered nothing at all,
// and the time of the caller is over, half of waited is enough. A caller who has waited for something else,
// and asks at the last moment, knows nothing of the server.
func (o *Outage) Explain(cause error, waited time.Duration) error {
	lasts := o.silence.Lasts(clock.Now())
	told := o.err
	if isContextError(told) {
		told = nil // the context cut it short
	}
	least := LongestAnswer
	if !o.silence.Answered() && (cause == nil || errors.Is(cause, context.DeadlineExceeded)) {
		least = min(least, waited/2)
	}
	if lasts == 0 || told == nil && lasts < least {
		return cause
	}
	return newUnanswered(cause, told, lasts)
}

// unanswered is an error that matches ErrNoAnswer.
type unanswered struct {
	cause error         // what has ended the waiting; nil: nothing has
	told  error         // the error of the last attempt; nil: it has no answer
	lasts time.Duration // how long the silence lasts; 0: not known

	wraps Wraps
}

func newUnanswered(cause, told error, lasts time.Duration) *unanswered {
	return &unanswered{cause, told, lasts, NewWraps(ErrNoAnswer, cause, told)}
}

// Wraps has the errors that one error wraps. Many callers may end at once, and each often asks what its
// error is. So Errors allocates nothing.
type Wraps struct {
	list [3]error
	n    int
}

// NewWraps returns Wraps of the errors that are not nil.
func NewWraps(errs ...error) (w Wraps) {
	for _, err := range errs {
		if err != nil {
			w.list[w.n] = err
			w.n++
		}
	}
	return w
}

// Errors returns the list for an Unwrap method.
func (w *Wraps) Errors() []error { return w.list[:w.n] }

func (e *unanswered) Error() string {
	s := "the server has not answered"
	var server *rueidis.RedisError
	if errors.As(e.told, &server) {
		s = "the server cannot serve yet"
	}
	if e.lasts > 0 {
		s += fmt.Sprintf(" for %v", max(e.lasts.Round(time.Millisecond), time.Millisecond))
	}
	if e.told != nil && !errors.Is(e.cause, e.told) {
		s += ": " + e.told.Error()
	}
	if e.cause != nil {
		s = e.cause.Error() + "; " + s
	}
	return s
}

// Unwrap returns ErrNoAnswer, the cause, and the error of the last attempt.
func (e *unanswered) Unwrap() []error { return e.wraps.Errors() }

// Ended is NoAnswer for a call with ctx. If ctx has ended, the error says that. The client may otherwise
// report the fate of another call on the same connection.
func Ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && OutcomeOf(err) == Indeterminate {
		err = clock.ContextError(ctx, err)
	}
	return NoAnswer(err)
}

// NoAnswer makes err match ErrNoAnswer if the server has not answered the call, or cannot serve yet. It
// leaves err as it is if the caller has cancelled the call, if the call was never sent, or if the client is
// closed. In these cases no answer was due.
func NoAnswer(err error) error {
	switch {
	case err == nil, errors.Is(err, ErrNoAnswer), !Transient(err), errors.Is(err, errUnsent),
		errors.Is(err, context.Canceled), errors.Is(err, rueidis.ErrClosing), errors.Is(err, ErrInterrupted):
		return err
	}
	return newUnanswered(nil, err, 0)
}
