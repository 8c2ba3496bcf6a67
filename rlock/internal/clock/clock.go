// Package clock measures leases: readings of the monotonic clock, when a lease must
// count as over, and waiting that a context can end.
//
// It never knows what a lease is for, nor asks the server for its time.
package clock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// NoExpiry is the length of a lease that does not end.
const NoExpiry time.Duration = math.MaxInt64

// Instant is a reading of the monotonic clock. Wall clocks jump; leases must not. The zero Instant is earlier
// than every reading.
type Instant int64

// Never is later than every reading.
const Never Instant = math.MaxInt64

// Past is earlier than every reading.
const Past Instant = math.MinInt64

var epoch = time.Now()

// beforeEpoch is the time from the zero Instant to epoch. The clock of a bubble of testing/synctest begins in
// the year 2000, before epoch.
const beforeEpoch = 100 * 365 * 24 * time.Hour

// Now reads the clock.
func Now() Instant { return Instant(beforeEpoch + time.Since(epoch)) }

// Time returns i as a time of the wall clock.
func (i Instant) Time() time.Time { return time.Now().Add(time.Duration(i - Now())) }

// Until returns how long it is from now to i, NoExpiry for Never.
func (i Instant) Until() time.Duration {
	if i == Never {
		return NoExpiry
	}
	return i.From(Now())
}

// From returns how long it is from now to i, NoExpiry for Never. It is Until for a caller who has
// read the clock.
func (i Instant) From(now Instant) time.Duration {
	if i == Never {
		return NoExpiry
	}
	return time.Duration(i - now)
}

// After returns the instant d after i, Never for NoExpiry and what is too far away.
func (i Instant) After(d time.Duration) Instant {
	if end := i + Instant(d); d < 0 || end >= i && d != NoExpiry {
		return end
	}
	return Never
}

// LeaseEnd returns when a lease of ttl, granted by a command sent at sent, must
// count as over. The server starts counting no earlier than at sent. It rounds to
// whole milliseconds, and its clock may run up to 0.1 % faster than ours.
func LeaseEnd(sent Instant, ttl time.Duration) Instant {
	if ttl == NoExpiry {
		return Never
	}
	return sent.After(ttl - ttl/1000 - time.Millisecond)
}

// LeaseFor returns a lease whose LeaseEnd is no earlier than left after its command, and hardly later.
func LeaseFor(left time.Duration) time.Duration {
	return (left + left/999 + 3*time.Millisecond).Truncate(time.Millisecond)
}

// JustAfter returns how long to wait for the end of a lease of which the server says that left
// is left. It is a millisecond more, because Redis counts in whole ones, and up to two more, so
// that waiters do not march in step.
func JustAfter(left time.Duration) time.Duration {
	if more := left + time.Millisecond + rand.N(2*time.Millisecond); more > left {
		return more
	}
	return NoExpiry
}

// ErrStopped is what Sleep and Receive return when stop is closed first.
var ErrStopped = errors.New("rlock: stopped")

// Sleep waits for d. It returns why ctx ended if that comes first, and ErrStopped if stop
// is closed first. A nil stop is never closed.
func Sleep(ctx context.Context, d time.Duration, stop <-chan struct{}) error {
	if d <= 0 {
		return nil
	}
	_, err := Receive(ctx, nil, d, stop)
	return err
}

// Receive waits until signal is closed or sends, or until d is over, which it reports.
// Like Sleep, it returns why it ended before.
func Receive(ctx context.Context, signal <-chan struct{}, d time.Duration, stop <-chan struct{}) (over bool,
	err error) {
	got, err := Select(ctx, signal, nil, d, stop)
	return err == nil && got == nil, err
}

// Select is Receive for two signals. It returns the one that was closed or has sent, nil if d is
// over.
func Select(ctx context.Context, a, b <-chan struct{}, d time.Duration,
	stop <-chan struct{}) (got <-chan struct{}, err error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-a:
		return a, nil
	case <-b:
		return b, nil
	case <-timer.C:
		return nil, nil
	case <-ctx.Done():
		return nil, ContextError(ctx, nil)
	case <-stop:
		return nil, ErrStopped
	}
}

// Within returns a context with what ctx has, which ends after limit, if that is not 0, at the latest. The caller
// calls end when it is not needed any more. Only Within and end call methods of ctx, which may panic: a timer
// that ends the context does not.
func Within(ctx context.Context, limit time.Duration) (_ context.Context, end context.CancelFunc) {
	if limit == 0 {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	limited, stop := context.WithTimeout(ctx, limit)
	return limited, func() {
		stop()
		cancel()
	}
}

// EndsWith returns a context with what ctx has, which ends when other does, too. The caller calls end when it
// is not needed any more. Only EndsWith and end call methods of ctx.
func EndsWith(ctx, other context.Context) (_ context.Context, end context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	both, stop := context.WithCancel(ctx)
	forget := context.AfterFunc(other, stop)
	return both, func() {
		forget()
		stop()
		cancel()
	}
}

// Use calls the methods of ctx, so that one that panics does so here, and not where nobody can go on after
// that.
func Use(ctx context.Context) {
	_, _ = ctx.Deadline()
	_ = ctx.Err()
	_, stop := context.WithCancel(ctx) // Done and Value
	stop()
}

// ContextError returns why ctx has ended: its error, with its cause and what a call made
// of it, which may be nil, still in reach of errors.Is.
func ContextError(ctx context.Context, err error) error {
	ended := ctx.Err()
	if cause := context.Cause(ctx); !errors.Is(cause, ended) {
		ended = fmt.Errorf("%w: %w", ended, cause)
	}
	if err != nil && !errors.Is(err, ctx.Err()) {
		ended = fmt.Errorf("%w: %w", ended, err)
	}
	return ended
}
