package queue

import (
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// turn is the time in which this process keeps a key to itself: it hands the key over among its
// own waiters. The turn ends when another process has waited for as long as a turn may last, and
// this process has had the key for as long. While no other process waits, it does not end. The
// shard's mutex guards it.
//
// Such turns make few hand-overs between processes out of many between callers, which is the
// idea of lock cohorting (Dice, Marathe and Shavit, 2012).
type turn struct {
	began  clock.Instant // when the server gave the key to this process, or a caller first waited behind the holder; 0: neither
	others clock.Instant // since when another process waits; 0: as far as is known, none does
	asked  clock.Instant // when the server said last whether one waits; 0: it was not asked

	fence uint64 // next of those reserved
	spare int    // how many are reserved
	block int    // how many were taken at once the last time, that of the hand-over itself included
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

// due reports whether the next hand-over is to ask the server whether another process waits. It
// is asked once in the time of a turn.
func (t *turn) due(now clock.Instant, limit time.Duration) bool {
	last := t.asked // which is never before began
	if last == 0 {
		last = t.began
	}
	return t.others == 0 && (last == 0 || time.Duration(now-last) >= limit)
}

// told notes for how long another process has waited; 0: none waits.
func (t *turn) told(waits time.Duration) {
	t.asked, t.others = clock.Now(), 0
	if waits > 0 {
		t.others = t.asked - clock.Instant(waits)
	}
}

// pass returns a fence for a hand-over, if one is reserved, and how many fences to reserve if
// that one cannot be used: four times as many as the last time, so that few are wasted. If none of
// those was used, it is a quarter, and no fewer than 2. One to spare shows when fences can be used
// again: a pause of the machine makes one lease too old to share, holders that differ all of them.
func (t *turn) pass() (fence uint64, more int) {
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

// mostFences is how many fences are reserved at once at most: as many as a process hands a lock
// over in a turn. The server reserves no more than its clock has counted microseconds.
const mostFences = 16 << 10

// reserve notes that n fences were reserved, from first on. The first of them is in use.
func (t *turn) reserve(first uint64, n int) {
	t.fence, t.spare, t.block = first+1, n-1, n
}

// end ends a turn. The next one reserves at once as many fences as this one did in the end.
func (t *turn) end() {
	block := t.block
	if t.began != 0 {
		block /= 4
	}
	*t = turn{block: block}
}
