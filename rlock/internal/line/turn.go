package line

import (
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// turn is the time in which this process keeps a key. Its callers go on with the lease one after the other.
// The turn ends when this process has had the key for the time of a turn, and another process has waited as
// long. While no other process waits, the turn does not end.
//
// So most hand-overs are between callers of one process, and few are between processes. That is the idea of
// lock cohorting (Dice, Marathe and Shavit, 2012).
type turn struct {
	began  clock.Instant // when the server gave the key, or a caller first waited behind the holder; 0: neither
	others clock.Instant // since when another process waits; 0: none does, as far as this process knows
	asked  clock.Instant // when the server last said whether another process waits; 0: never
	// when the next hand-over asks, if the question has no answer by then; 0: no question is under way
	late   clock.Instant
	failed bool // the last question got no answer

	fence uint64 // the next reserved fence
	spare int    // how many reserved fences are left
}

// begin begins the turn now, unless it has begun.
func (t *turn) begin(now clock.Instant) {
	if t.began == 0 {
		t.began = now
	}
}

// over reports whether this process must pass the key on to another process.
func (t *turn) over(now clock.Instant, limit time.Duration, blind bool) bool {
	if blind {
		t.begin(now)
		return time.Duration(now-t.began) >= limit
	}
	return limit == 0 || t.others != 0 && time.Duration(now-max(t.began, t.others)) >= limit
}

// mustAsk reports whether this process must ask the server if another process waits. It does once in the
// time of a turn. itself reports that the hand-over must ask, because a question got no answer, or got none
// in time.
func (t *turn) mustAsk(now clock.Instant, limit time.Duration) (ask, itself bool) {
	if t.late != 0 {
		return now >= t.late, now >= t.late
	}
	last := t.asked // never before began
	if last == 0 {
		last = t.began
	}
	ask = t.others == 0 && (last == 0 || time.Duration(now-last) >= limit)
	return ask, ask && t.failed
}

// learn notes for how long another process has waited, as the server says. 0 means that none waits. learn
// drops a question that is under way. Its answer would be older, or its fences smaller than one that is
// used.
func (t *turn) learn(now clock.Instant, waits time.Duration) {
	t.late, t.failed = 0, false
	t.asked, t.others = now, 0
	if waits > 0 {
		t.others = now - clock.Instant(waits)
	}
}

// fences is how many fences a command reserves for the callers that go on without a command. That is about
// the number of hand-overs in one turn. The server reserves at most one fence for each microsecond since
// its last reservation.
const fences = 16 << 10

// next takes one of the reserved fences. 0 means that there is none.
func (t *turn) next() (fence uint64) {
	if t.spare > 0 {
		fence = t.fence
		t.fence++
		t.spare--
	}
	return fence
}

// reserve notes that the server has given n fences, from first on. They follow the fences that are left,
// unless other holders of the slot have got fences in between.
func (t *turn) reserve(first uint64, n int) {
	if n == 0 {
		return
	}
	if t.spare == 0 || first != t.fence+uint64(t.spare) {
		t.fence, t.spare = first, 0
	}
	t.spare += n
}
