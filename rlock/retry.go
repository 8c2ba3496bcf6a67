package rlock

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Retry says how long a waiter pauses between attempts and when it gives up. It is a value without state,
// which any number of calls may share.
//
// No policy delays a grant: a waiter is woken when it gets the lock, when the key changes and when the
// holder's lease ends (see "Waiting" above). It asks the policy after each pause, also while it is behind
// another caller of its Locker, who sends for both. An attempt without an answer counts like any other; what
// a waiter sends within a pause does not.
type Retry struct {
	delay    func(Attempt) (time.Duration, bool)
	endless  bool          // the pauses do not end, so there is nothing to count
	slow     bool          // delay is the user's, and may take long
	attempts int           // 0: no limit
	total    time.Duration // 0: no limit
	wrong    string        // why the policy is refused, found while it was built
}

// Attempt is what a retry policy knows when it decides.
type Attempt struct {
	Number  int           // how often the acquisition has found the lock held so far, or got no answer, from 1
	Elapsed time.Duration // since the call
	// the last pause: what the policy answered, cut to what Remaining leaves of it and to a year; 0 at first
	Previous  time.Duration
	Remaining time.Duration // holder's remaining time; NoExpiry when it never expires; 0 when unknown, as when the last attempt had no answer
}

// DefaultRetry is the policy of a Locker without WithRetry: wait until the context ends, and try whenever
// something says that the lock may be free. It is Fixed(NoExpiry). Where nothing would wake the waiter, as
// when the server does not answer, it polls: after about 5 ms, and then twice as long each time up to 250
// ms.
func DefaultRetry() Retry { return Fixed(NoExpiry) }

// Fixed pauses for d between attempts, for ever.
func Fixed(d time.Duration) Retry {
	r := Retry{delay: func(Attempt) (time.Duration, bool) { return d, true }, endless: d == NoExpiry}
	if d <= 0 {
		r.wrong = "Fixed: the pause must be above 0"
	}
	return r
}

// Exponential pauses for about first, and about twice as long each time up to longest, for ever. Pauses are
// random, from half of that to all of it.
func Exponential(first, longest time.Duration) Retry {
	r := Retry{delay: func(a Attempt) (time.Duration, bool) {
		d := longest
		if shift := a.Number - 1; first <= longest>>shift {
			d = first << shift
		}
		return d/2 + rand.N(d/2+1), true
	}}
	if first <= 0 || longest < first {
		r.wrong = "Exponential: want 0 < first <= longest"
	}
	return r
}

// RetryFunc has f decide: it returns the pause, which may be NoExpiry, or false to give up. Many
// goroutines call it at once, with no mutex held. If f panics, so does the acquisition, which leaves
// nothing behind.
func RetryFunc(f func(Attempt) (time.Duration, bool)) Retry {
	r := Retry{delay: f, slow: true}
	if f == nil {
		r.wrong = "RetryFunc: the function is nil"
	}
	return r
}

// MaxAttempts returns r, giving up when the acquisition has found the lock held n times, or got no answer,
// which it counts after each pause. The pause of DefaultRetry, or Fixed(NoExpiry), does not end: with those,
// only MaxAttempts(1) is accepted.
func (r Retry) MaxAttempts(n int) Retry {
	r.attempts = n
	switch {
	case n < 1:
		r.wrong = "MaxAttempts: want at least 1"
	case n > 1 && r.endless:
		r.wrong = "MaxAttempts: the policy waits without a pause to count; use MaxTime, Fixed or Exponential"
	}
	return r
}

// MaxTime returns r, giving up when d has passed since the call: it limits the wait, and not the work of Do.
// If the server is silent then, it has one second more.
func (r Retry) MaxTime(d time.Duration) Retry {
	r.total = d
	if d <= 0 {
		r.wrong = "MaxTime: want more than 0"
	}
	return r
}

// bound returns the context for the calls of a wait that begins now: one to a silent server does not outlast
// MaxTime by more than an answer may take.
func (r Retry) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := wire.LongestAnswer
	return context.WithTimeout(ctx, r.total+min(limit, math.MaxInt64-r.total))
}

// end returns when a wait that began at start ends by MaxTime.
func (r Retry) end(start clock.Instant) clock.Instant {
	if r.total == 0 {
		return clock.Never
	}
	return start.After(r.total)
}

// next returns the pause before the next attempt, or false to give up.
func (r Retry) next(a Attempt) (time.Duration, bool) {
	if r.attempts > 0 && a.Number >= r.attempts || r.total > 0 && a.Elapsed >= r.total {
		return 0, false
	}
	a.Previous = min(a.Previous, longestPause)
	d, more := r.delay(a)
	switch {
	case !more:
		return 0, false
	case d == NoExpiry:
		return d, true
	case a.Remaining > 0 && a.Remaining < d:
		d = min(d, clock.JustAfter(a.Remaining))
	}
	return min(max(d, 0), longestPause), true
}

// longestPause leaves policies room to multiply the pause before.
const longestPause = 365 * 24 * time.Hour
