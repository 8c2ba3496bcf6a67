package clock

import (
	"math"
	"sync/atomic"
	"time"
)

// Silence says since when a caller waits for an answer, and whether there was an answer before. The zero
// Silence waits for none, and had none. Any goroutine may read it at any time.
type Silence struct {
	// since is an Instant, or answered, or 0. It is negative if there was an answer before.
	since atomic.Int64
}

// answered is the since of a Silence that had an answer and waits for none.
const answered = math.MinInt64

// Begin notes that a caller waits for an answer from now on. It reports false if one already waits.
func (s *Silence) Begin(now Instant) bool {
	return s.since.CompareAndSwap(0, int64(now)) || s.since.CompareAndSwap(answered, -int64(now))
}

// End notes an answer.
func (s *Silence) End() {
	if s.since.Load() != answered {
		s.since.Store(answered)
	}
}

// Leave forgets a question whose answer no caller awaits now.
func (s *Silence) Leave() {
	switch since := s.since.Load(); {
	case since > 0:
		s.since.CompareAndSwap(since, 0)
	case since < 0:
		s.since.CompareAndSwap(since, answered)
	}
}

// Inherit goes on with the Silence of another caller who waits for the same. It does nothing if s waits for
// an answer itself.
func (s *Silence) Inherit(from *Silence) {
	since := from.since.Load()
	if since != 0 && !s.since.CompareAndSwap(0, since) && since != answered {
		s.since.CompareAndSwap(answered, min(since, -since))
	}
}

// Lasts returns how long the Silence has lasted at now. 0 means that there is none.
func (s *Silence) Lasts(now Instant) time.Duration {
	since := s.since.Load()
	if since == 0 || since == answered {
		return 0
	}
	return max(time.Duration(now-Instant(max(since, -since))), 1)
}

// Answered reports whether there was an answer before.
func (s *Silence) Answered() bool { return s.since.Load() < 0 }
