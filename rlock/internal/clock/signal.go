package clock

import (
	"context"
	"sync/atomic"
	"time"
)

// Signal wakes one goroutine that waits again and again, so that it looks what has happened. A wait may
// also end without a reason. NewSignal makes a Signal.
//
// The waits share a timer that goes on when a wait ends. A wait sets the timer only if it would fire too
// late. So most of many short waits cost no timer.
type Signal struct {
	sent  chan struct{}
	timer *time.Timer
	armed atomic.Int64 // when timer fires; Never: it does not
}

// NewSignal returns a Signal that was not sent.
func NewSignal() *Signal {
	s := &Signal{sent: make(chan struct{}, 1)}
	s.armed.Store(int64(Never))
	return s
}

// Send ends the present wait or, if there is none, the next. It never blocks. Two Sends may end only one
// wait. Send of a nil Signal does nothing.
func (s *Signal) Send() {
	if s == nil {
		return
	}
	select {
	case s.sent <- struct{}{}:
	default:
	}
}

// Wait waits until Send, until the instant until, or until also is closed. It may end earlier. It returns
// why ctx ended if that comes first. now is a recent reading of the clock. A nil also is never closed.
func (s *Signal) Wait(ctx context.Context, now, until Instant, also <-chan struct{}) error {
	if Instant(s.armed.Load()) > until {
		s.arm(now, until)
	}
	done := ctx.Done()
	if done == nil && also == nil {
		<-s.sent
		return nil
	}
	select {
	case <-s.sent:
		return nil
	case <-also:
		return nil
	case <-done:
		return ContextError(ctx, nil)
	}
}

// arm makes the timer end the present wait at an instant. The timer may fire at that moment for an earlier
// wait. Then fire notes that the timer is off, and sends the signal. So this wait ends early, and the next
// wait sets the timer.
func (s *Signal) arm(now, until Instant) {
	s.armed.Store(int64(until))
	if d := time.Duration(until - now); s.timer == nil {
		s.timer = time.AfterFunc(d, s.fire)
	} else {
		s.timer.Reset(d)
	}
}

func (s *Signal) fire() {
	s.armed.Store(int64(Never))
	s.Send()
}

// Stop ends the timer. The next wait that needs the timer sets it again.
func (s *Signal) Stop() {
	if s.timer != nil {
		s.timer.Stop()
		s.armed.Store(int64(Never))
	}
}
