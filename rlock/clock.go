package rlock

import (
	"math"
	"time"
)

// instant is a reading of the monotonic clock. Wall clocks jump; leases must not.
type instant int64

// never is later than every reading.
const never instant = math.MaxInt64

var epoch = time.Now()

func now() instant { return instant(time.Since(epoch)) }

// time returns i as a time of the wall clock.
func (i instant) time() time.Time { return time.Now().Add(time.Duration(i - now())) }

// until returns how long it is from now to i, NoExpiry for never.
func (i instant) until() time.Duration {
	if i == never {
		return NoExpiry
	}
	return time.Duration(i - now())
}

// after returns the instant d after i; what is too far away is never.
func (i instant) after(d time.Duration) instant {
	if end := i + instant(d); end >= i || d < 0 {
		return end
	}
	return never
}

// leaseEnd returns when a lease of ttl, granted by a command sent at sent, must
// count as over. The server starts counting no earlier than at sent. It rounds to
// whole milliseconds, and its clock may run up to 0.1 % faster than ours.
func leaseEnd(sent instant, ttl time.Duration) instant {
	if ttl == NoExpiry {
		return never
	}
	return sent.after(ttl - ttl/1000 - time.Millisecond)
}
