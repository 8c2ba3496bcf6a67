package rlock

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Retry says how long a waiter pauses between attempts, and when it gives up. A Retry has no state, so any
// number of calls may share it.
//
// No policy delays a grant: a waiter wakes up when it gets the lock, when the key changes, and when the
// holder's lease ends (see "Waiting" above). The waiter asks the policy after each pause. It does so even
// while it waits in the line, and another caller of its Locker asks the server on behalf of all. An attempt
// without an answer counts like any other. Commands
// that a waiter sends during a pause do not count.
type Retry struct {
	delay    func(Attempt) (time.Duration, bool)
	endless  bool          // the pause does not end, so no attempts can be counted
	slow     bool          // the user wrote delay, and it may take long
	attempts int           // 0: no limit
	total    time.Duration // 0: no limit
	wrong    string        // why the policy is refused, found while it was built
}

// Attempt has the facts with which a retry policy decides.
type Attempt struct {
	Number  int           // how often the acquisition found the lock held or got no answer, from 1
	Elapsed time.Duration // since the start of the call
	// Previous is the last pause: the answer of the policy, cut to Remaining and to a year. It is 0 at first.
	Previous time.Duration
	// Remaining is the time left of the holder's lease: NoExpiry if the lease never ends, and 0 if the time
	// is unknown, as after an attempt without an answer.
	Remaining time.Duration
}

// DefaultRetry is the policy of a Locker without WithRetry. It is Fixed(NoExpiry): the waiter waits until its
// context ends, and tries when an event says that the lock may be free. If no event can wake the waiter, as
// when the server does not answer, the waiter polls. The first pause is about 5 ms, and each next pause is
// twice as long, up to 250 ms.
func DefaultRetry() Retry { return Fixed(NoExpiry) }

// Fixed pauses for d between attempts, for ever.
func Fixed(d time.Duration) Retry {
	r := Retry{delay: func(Attempt) (time.Duration, bool) { return d, true }, endless: d == NoExpiry}
	if d <= 0 {
		r.wrong = "Fixed: the pause must be above 0"
	}
	return r
}

// Exponential starts with a pause of about the parameter first. Each next pause is about twice as long, but
// at most the parameter longest. Exponential never gives up. Each pause is random, from half of that time to
// all of it.
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

// RetryFunc lets f decide. f returns the pause, which may be NoExpiry, or false to give up. Many goroutines
// call f at the same time, without a mutex. If f panics, the acquisition panics too, and leaves nothing
// locked.
func RetryFunc(f func(Attempt) (time.Duration, bool)) Retry {
	r := Retry{delay: f, slow: true}
	if f == nil {
		r.wrong = "RetryFunc: the function is nil"
	}
	return r
}

// MaxAttempts returns r with a limit: the acquisition gives up when it has found the lock held, or got no
// answer, n times. The waiter counts after each pause. The pause of DefaultRetry and Fixed(NoExpiry) does not
// end, so these two accept only MaxAttempts(1).
func (r Retry) MaxAttempts(n int) Retry {
	r.attempts = n
	switch {
	case n < 1:
		r.wrong = "MaxAttempts: want at least 1"
	case n > 1 && r.endless:
		r.wrong = "MaxAttempts: the pause of the policy does not end, so no attempts can be counted; use MaxTime, " +
			"Fixed or Exponential"
	}
	return r
}

// MaxTime returns r with a limit: the wait ends d after the start of the call. The limit does not apply to
// the work of Do. If the server is silent at the limit, the call may last one second more.
func (r Retry) MaxTime(d time.Duration) Retry {
	r.total = d
	if d <= 0 {
		r.wrong = "MaxTime: want more than 0"
	}
	return r
}

// bound returns the context for the calls of a wait that begins now. A call to a silent server outlasts
// MaxTime by no more than the longest time of an answer.
func (r Retry) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := wire.LongestAnswer
	return context.WithTimeout(ctx, r.total+min(limit, math.MaxInt64-r.total))
}

// end returns when MaxTime ends a wait that began at start.
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

// longestPause is short enough for policies to multiply the previous pause.
const longestPause = 365 * 24 * time.Hour
