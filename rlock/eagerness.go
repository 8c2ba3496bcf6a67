package rlock

import (
	"math/rand/v2"
	"time"
)

// eagerness is how fast a waiter goes for a key when the server says that it has
// changed: at once, unless this process had its turn lately, or the key changes all
// the time because its holders extend it or hand it over.
type eagerness struct {
	lock   *Lock
	woken  instant // when the server said so last
	falter time.Duration
}

// A key that changes again within busy is looked at less and less often.
const (
	busy          = 5 * time.Millisecond
	firstFalter   = time.Millisecond / 2
	longestFalter = 4 * time.Millisecond
)

// restraint is how long to wait after a push before going for the key, and whether to
// look at it first: where it changes all the time, somebody else has it by then. A try
// that finds it free saves a round trip.
func (e *eagerness) restraint() (pause time.Duration, look bool) {
	at := now()
	if e.woken == 0 || time.Duration(at-e.woken) > busy {
		e.falter = 0
	} else {
		e.falter = min(max(2*e.falter, firstFalter), longestFalter)
	}
	e.woken = at
	backoff, recency := time.Duration(0), 0.0
	if e.lock.queued {
		backoff, recency = e.lock.locker.queues.standing(e.lock)
	}
	// Whoever has waited long looks more often.
	falter := float64(e.falter) * (0.2 + 3*recency)
	return backoff + time.Duration(falter*(0.5+rand.Float64()/2)), e.falter > 0
}
