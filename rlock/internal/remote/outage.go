package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Outage records, for a caller who waits, for how long the server has not answered or could not
// serve. It tells an error that may pass from one that stays, so that a caller who waits for a
// lock also waits for a restart, a failover, or a slot that moves. Server.Outage makes one.
type Outage struct {
	server   *Server
	err      error         // of the last attempt, if it may pass
	since    clock.Instant // when the first attempt of those in a row had ended
	closings int           // in a row
}

// mostClosings is how often the client may say that it is closed before all waiters take it
// as closed for good, because it also says so for a moment when it drops a primary that was
// replaced.
const mostClosings = 4

// closingPause is the longest pause before the client is asked again whether it is closed.
const closingPause = time.Second / 2

// Outage returns an Outage for one caller who waits.
func (s *Server) Outage() Outage { return Outage{server: s} }

// Record takes the error of an attempt, nil if it has none. It reports whether another attempt may
// succeed later, because the server did not answer or cannot serve yet.
func (o *Outage) Record(err error) (passes bool) {
	if closed := o.closed(err); err == nil || closed || !Transient(err) {
		o.err = nil
		return false
	}
	if o.err == nil {
		o.since = clock.Now()
	}
	if o.err == nil || !isContextError(err) {
		o.err = err
	}
	return true
}

// closed reports whether the client is closed for good.
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

// Pace returns the pause before the next attempt: that of the policy, or a shorter one if the
// client may be closed for good, so that the caller soon learns whether it is.
func (o *Outage) Pace(pause time.Duration) time.Duration {
	if o.closings > 0 {
		return min(pause, closingPause)
	}
	return pause
}

func isContextError(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// Explain adds to cause, which ended the waiting, that the server did not answer or could not serve.
func (o *Outage) Explain(cause error) error {
	if o.err == nil || cause != nil && isContextError(o.err) { // it was cut short
		return cause
	}
	why := "the server has not answered"
	var server *rueidis.RedisError
	if errors.As(o.err, &server) {
		why = "the server cannot serve yet"
	}
	if lasted := time.Duration(clock.Now() - o.since).Round(time.Millisecond); lasted > 0 {
		why += fmt.Sprintf(", for %v now", lasted)
	}
	if cause == nil {
		return fmt.Errorf("%s: %w", why, o.err)
	}
	return fmt.Errorf("%w; %s: %w", cause, why, o.err)
}
