package queue

import (
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// turn is the time in which this process keeps a key to itself, and hands it over among its own
// waiters. It ends when this process has had the key for as long as a turn may last, and another
// process has waited for as long. While no other process waits, it does not end. The shard's mutex
// guards it.
//
// Such turns make few hand-overs between processes out of many between callers, which is the
// idea of lock cohorting (Dice, Marathe and Shavit, 2012).
type turn struct {
	began  clock.Instant // when the server gave the key to this process, or a caller first waited behind the holder; 0: neither
	others clock.Instant // since when another process waits; 0: as far as is known, none does
	asked  clock.Instant // when the server last said whether one waits; 0: it was not asked
	asking *asking       // a Question that is under way; nil: none is
	failed bool          // the last Question got no answer

	fence uint64 // the next reserved fence
	spare int    // how many reserved fences are left
	block int    // how many fences the server gave at once the last time, with the one for the hand-over itself
}

// begin notes that the turn begins now, unless it has begun.
func (t *turn) begin(now clock.Instant) {
	if t.began == 0 {
		t.began = now
	}
}

// over reports whether this process must pass the key on to another.
func (t *turn) over(now clock.Instant, limit time.Duration) bool {
	return limit == 0 || t.others != 0 && time.Duration(now-max(t.began, t.others)) >= limit
}

// asking is a Question. If it has no answer at late, the next hand-over asks.
type asking struct{ late clock.Instant }

// mustAsk reports whether the server must be asked whether another process waits, once in each turn's
// time, and whether the hand-over must do it: a Question has got no answer, or none in time.
func (t *turn) mustAsk(now clock.Instant, limit time.Duration) (ask, itself bool) {
	if t.asking != nil {
		return now >= t.asking.late, now >= t.asking.late
	}
	last := t.asked // which is never before began
	if last == 0 {
		last = t.began
	}
	ask = t.others == 0 && (last == 0 || time.Duration(now-last) >= limit)
	return ask, ask && t.failed
}

// told notes what the server has said: for how long another process has waited; 0: none waits. The
// answer to a Question that is under way would be older, or its fences smaller than one that is used.
func (t *turn) told(waits time.Duration) {
	t.asking, t.failed = nil, false
	t.asked, t.others = clock.Now(), 0
	if waits > 0 {
		t.others = t.asked - clock.Instant(waits)
	}
}

// nextFence takes one of the reserved fences, for a hand-over without a command; 0: there is none. A
// hand-over that needs a command all the same reserves more fences for those behind it: four times as
// many as the last time, so that a long turn seldom has to. If none of the last ones was used, it
// reserves only a quarter as many, because the holders may differ so that each hand-over needs a
// command. It always reserves one to spare: when that one is used, the holders differ no longer.
func (t *turn) nextFence() (fence uint64, more int) {
	used := t.block - 1 - t.spare
	if t.spare > 0 {
		fence = t.fence
		t.fence++
		t.spare--
	}
	if t.block > 1 && used == 0 {
		return fence, max(t.block/4, 2)
	}
	return fence, min(max(4*t.block, 16), mostFences)
}

// mostFences is how many fences are reserved at once at most. A process hands a lock over about as often
// in a turn. The server reserves no more than its clock has counted microseconds.
const mostFences = 16 << 10

// reserve notes that the server gave n fences, from first on. The hand-over itself uses the first.
func (t *turn) reserve(first uint64, n int) {
	t.fence, t.spare, t.block = first+1, n-1, n
}

// add notes that the server gave n fences, from first on, that are all for later hand-overs. What is
// left of the last ones comes first, unless other holders of the slot have had fences in between.
func (t *turn) add(first uint64, n int) {
	if n == 0 {
		return
	}
	if t.spare == 0 || first != t.fence+uint64(t.spare) {
		t.fence, t.spare = first, 0
	}
	t.spare += n
	t.block = t.spare + 1
}

// end ends a turn. The next one starts with as many fences as this one reserved last: nextFence makes the
// quarter of them whole again.
func (t *turn) end() {
	block := t.block
	if t.began != 0 {
		block /= 4
	}
	*t = turn{block: block}
}
