package rlock

import (
	"math/rand/v2"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/queue"
)

// pushBackoff is how long a waiter pauses before it tries a key after the server has said
// that the key has changed: not at all, unless this process had its turn lately, or the key
// changes all the time because its holders extend it or hand it over.
type pushBackoff struct {
	lock  *Lock
	woken clock.Instant // when the server said so last
	step  time.Duration
}

// A key that changes again within busy is looked at less and less often.
const (
	busy        = 5 * time.Millisecond
	firstStep   = time.Millisecond / 2
	longestStep = queue.LongestStep
)

// delay is how long to wait after a push before going for the key, and whether to
// look at it first: where it changes all the time, somebody else has it by then. A try
// that finds it free saves a round trip.
func (e *pushBackoff) delay() (pause time.Duration, look bool) {
	at := clock.Now()
	if e.woken == 0 || time.Duration(at-e.woken) > busy {
		e.step = 0
	} else {
		e.step = min(max(2*e.step, firstStep), longestStep)
	}
	e.woken = at
	backoff, recency := e.lock.ticket.Backoff(e.lock.locker.remote.RoundTrip())
	// Whoever has waited long looks more often.
	step := float64(e.step) * (0.2 + 3*recency)
	return backoff + time.Duration(step*(0.5+rand.Float64()/2)), e.step > 0
}
