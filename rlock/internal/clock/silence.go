package clock

import (
	"math"
	"sync/atomic"
	"time"
)

// Silence is since when somebody waits for an answer, and whether there was one before. The zero Silence
// waits for none, and had none. Any goroutine may look at it meanwhile.
type Silence struct {
	// since is an Instant, or answered, or 0. It is negative if there was an answer before.
	since atomic.Int64
}

// answered is the since of a Silence that had an answer and waits for none.
const answered = math.MinInt64

// Begin notes that an answer is waited for from now on, and reports true, unless one is already.
func (s *Silence) Begin(now Instant) bool {
	return s.since.CompareAndSwap(0, int64(now)) || s.since.CompareAndSwap(answered, -int64(now))
}

// End notes an answer.
func (s *Silence) End() {
	if s.since.Load() != answered {
		s.since.Store(answered)
	}
}

// Leave forgets a question for whose answer nobody waits any more.
func (s *Silence) Leave() {
	switch since := s.since.Load(); {
	case since > 0:
		s.since.CompareAndSwap(since, 0)
	case since < 0:
		s.since.CompareAndSwap(since, answered)
	}
}

// Inherit goes on with the Silence of another, who waits for the same, unless s waits for an answer itself.
func (s *Silence) Inherit(from *Silence) {
	since := from.since.Load()
	if since != 0 && !s.since.CompareAndSwap(0, since) && since != answered {
		s.since.CompareAndSwap(answered, min(since, -since))
	}
}

// Lasts returns how long the Silence has lasted by now, 0 if there is none.
func (s *Silence) Lasts(now Instant) time.Duration {
	since := s.since.Load()
	if since == 0 || since == answered {
		return 0
	}
	return max(time.Duration(now-Instant(max(since, -since))), 1)
}

// Answered reports whether there was an answer before.
func (s *Silence) Answered() bool { return s.since.Load() < 0 }
