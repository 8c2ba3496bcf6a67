// Package clock measures leases. It reads the monotonic clock, computes when a lease must count as over,
// and waits until a context ends.
//
// It does not know what a lease is for, and never asks the server for its time.
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

// Instant is a reading of the monotonic clock. Wall clocks jump, and leases must not. The zero Instant is
// earlier than every reading.
type Instant int64

// Never is later than every reading.
const Never Instant = math.MaxInt64

// Past is earlier than every reading.
const Past Instant = math.MinInt64

var epoch = time.Now()

// beforeEpoch is the time from the zero Instant to epoch. The clock of a bubble of testing/synctest begins
// in the year 2000, before epoch.
const beforeEpoch = 100 * 365 * 24 * time.Hour

// Now reads the clock.
func Now() Instant { return Instant(beforeEpoch + time.Since(epoch)) }

// Time returns i as a time of the wall clock.
func (i Instant) Time() time.Time { return time.Now().Add(time.Duration(i - Now())) }

// Until returns the time from now to i, or NoExpiry for Never.
func (i Instant) Until() time.Duration {
	if i == Never {
		return NoExpiry
	}
	return i.From(Now())
}

// From returns the time from now to i, or NoExpiry for Never. It is Until for a caller that has read the
// clock.
func (i Instant) From(now Instant) time.Duration {
	if i == Never {
		return NoExpiry
	}
	return time.Duration(i - now)
}

// After returns the instant d after i. It returns Never if d is NoExpiry, or if the result is too far away.
func (i Instant) After(d time.Duration) Instant {
	if end := i + Instant(d); d < 0 || end >= i && d != NoExpiry {
		return end
	}
	return Never
}

// LeaseEnd returns when a lease of ttl must count as over, if its command was sent at sent. The server
// starts the lease at sent or later. The server rounds to whole milliseconds, and its clock may run up to
// 0.1 % faster than ours.
func LeaseEnd(sent Instant, ttl time.Duration) Instant {
	if ttl == NoExpiry {
		return Never
	}
	return sent.After(ttl - ttl/1000 - time.Millisecond)
}

// LeaseFor returns a lease whose LeaseEnd is at least left after its command, and hardly more.
func LeaseFor(left time.Duration) time.Duration {
	return (left + left/999 + 3*time.Millisecond).Truncate(time.Millisecond)
}

// JustAfter returns how long to wait for the end of a lease, if the server says that left is left. It adds
// a millisecond, because Redis counts whole milliseconds. It also adds up to two random ones, so that
// waiters do not act in step.
func JustAfter(left time.Duration) time.Duration {
	if more := left + time.Millisecond + rand.N(2*time.Millisecond); more > left {
		return more
	}
	return NoExpiry
}

// ErrStopped is what Sleep and Receive return when stop is closed first.
var ErrStopped = errors.New("rlock: stopped")

// Sleep waits for d. It returns why ctx ended if that comes first, and ErrStopped if stop is closed first.
// A nil stop is never closed.
func Sleep(ctx context.Context, d time.Duration, stop <-chan struct{}) error {
	if d <= 0 {
		return nil
	}
	_, err := Receive(ctx, nil, d, stop)
	return err
}

// Receive waits until signal is closed or sends, or until d is over. over reports that d is over. Like
// Sleep, Receive returns an error if ctx or stop ends it first.
func Receive(
	ctx context.Context, signal <-chan struct{}, d time.Duration, stop <-chan struct{},
) (over bool, err error) {
	got, err := Select(ctx, signal, nil, d, stop)
	return err == nil && got == nil, err
}

// Select is Receive for two signals. It returns the signal that was closed or has sent, or nil if d is
// over.
func Select(
	ctx context.Context, a, b <-chan struct{}, d time.Duration, stop <-chan struct{},
) (got <-chan struct{}, err error) {
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

// Within returns a context like ctx that ends after limit at the latest. A limit of 0 means no limit. The
// caller must call end. Only Within and end call methods of ctx, which may panic. The timer that ends the
// context calls none.
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

// EndsWith returns a context like ctx that also ends when other ends. The caller must call end. Only
// EndsWith and end call methods of ctx.
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

// Use calls the methods of ctx. If a method panics, it panics here, and not where the caller cannot go on
// after that.
func Use(ctx context.Context) {
	_, _ = ctx.Deadline()
	_ = ctx.Err()
	_, stop := context.WithCancel(ctx) // calls Done and Value
	stop()
}

// ContextError returns why ctx has ended. errors.Is finds in it the error of ctx, the cause of ctx, and
// err. err is what a call made of the end, and may be nil.
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
