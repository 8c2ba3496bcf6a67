package clock

import (
	"sync/atomic"
	"time"
)

// Silence is since when somebody waits for an answer. The zero Silence waits for none. Any goroutine may look at
// it meanwhile.
type Silence struct{ since atomic.Int64 }

// Begin notes that an answer is waited for from now on, unless one is already.
func (s *Silence) Begin(now Instant) { s.since.CompareAndSwap(0, int64(now)) }

// End notes an answer.
func (s *Silence) End() {
	if s.since.Load() != 0 {
		s.since.Store(0)
	}
}

// Inherit goes on with the Silence of another, who waits for the same, unless s has one of its own.
func (s *Silence) Inherit(from *Silence) {
	if since := from.since.Load(); since != 0 {
		s.Begin(Instant(since))
	}
}

// Lasts returns how long the Silence has lasted by now, 0 if there is none.
func (s *Silence) Lasts(now Instant) time.Duration {
	since := s.since.Load()
	if since == 0 {
		return 0
	}
	return max(time.Duration(now-Instant(since)), 1)
}
