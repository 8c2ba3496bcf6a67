package line

import (
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// turn is the time in which this process keeps a key to itself, and its callers go on with the lease one
// after the other. It ends when this process has had the key for as long as a turn may last, and another
// process has waited for as long. While no other process waits, it does not end.
//
// Such turns make few hand-overs between processes out of many between callers, which is the
// idea of lock cohorting (Dice, Marathe and Shavit, 2012).
type turn struct {
	began  clock.Instant // when the server gave the key, or a caller first waited behind the holder; 0: neither
	others clock.Instant // since when another process waits; 0: as far as is known, none does
	asked  clock.Instant // when the server last said whether one waits; 0: it was not asked
	late   clock.Instant // when the next hand-over asks if a question has no answer yet; 0: none is under way
	failed bool          // the last question got no answer

	fence uint64 // the next reserved fence
	spare int    // how many reserved fences are left
}

// begin notes that the turn begins now, unless it has begun.
func (t *turn) begin(now clock.Instant) {
	if t.began == 0 {
		t.began = now
	}
}

// over reports whether this process must pass the key on to another.
func (t *turn) over(now clock.Instant, limit time.Duration, blind bool) bool {
	if blind {
		t.begin(now)
		return time.Duration(now-t.began) >= limit
	}
	return limit == 0 || t.others != 0 && time.Duration(now-max(t.began, t.others)) >= limit
}

// mustAsk reports whether the server must be asked whether another process waits, once in each turn's
// time, and whether the hand-over must do it: a question has got no answer, or none in time.
func (t *turn) mustAsk(now clock.Instant, limit time.Duration) (ask, itself bool) {
	if t.late != 0 {
		return now >= t.late, now >= t.late
	}
	last := t.asked // which is never before began
	if last == 0 {
		last = t.began
	}
	ask = t.others == 0 && (last == 0 || time.Duration(now-last) >= limit)
	return ask, ask && t.failed
}

// learn notes what the server has said: for how long another process has waited; 0: none waits. The
// answer to a question that is under way would be older, or its fences smaller than one that is used.
func (t *turn) learn(now clock.Instant, waits time.Duration) {
	t.late, t.failed = 0, false
	t.asked, t.others = now, 0
	if waits > 0 {
		t.others = now - clock.Instant(waits)
	}
}

// fences is how many fences a command reserves for those who go on without one. A process hands a lock over
// about as often in a turn. The server reserves no more than its clock has counted microseconds since the
// last.
const fences = 16 << 10

// next takes one of the reserved fences; 0: there is none.
func (t *turn) next() (fence uint64) {
	if t.spare > 0 {
		fence = t.fence
		t.fence++
		t.spare--
	}
	return fence
}

// reserve notes that the server gave n fences, from first on. They come after what is left of the last ones,
// unless other holders of the slot have had fences in between.
func (t *turn) reserve(first uint64, n int) {
	if n == 0 {
		return
	}
	if t.spare == 0 || first != t.fence+uint64(t.spare) {
		t.fence, t.spare = first, 0
	}
	t.spare += n
}
