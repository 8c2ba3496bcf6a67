package rlock

import (
	"math/rand/v2"
	"time"
)

// turn is the time in which this process keeps a key to itself, passing it on among
// its own waiters. When it is over the key is freed, and this process lets others
// go first. It is guarded by the shard's mutex.
type turn struct {
	began  instant // first hand-over
	passed int     // hand-overs
	fence  uint64  // next of those reserved
	spare  int     // how many are reserved
	block  int     // how many were taken at once the last time
	served bool    // there was a turn before, and somebody has waited here ever since
	missed int     // holders of other processes seen since that
	seen   string  // token of the last one
}

// over reports whether the key must be freed.
func (t *turn) over(most int, longest time.Duration) bool {
	if t.passed == 0 {
		t.began = now()
	}
	return t.passed >= most || time.Duration(now()-t.began) >= longest
}

// pass counts a hand-over and returns its fence, if one is reserved, and how many to
// reserve where it cannot be used: four times as many as the last time, so that few
// are wasted.
func (t *turn) pass() (fence uint64, more int) {
	t.passed++
	if t.spare > 0 {
		fence = t.fence
		t.fence++
		t.spare--
	}
	return fence, min(max(4*t.block, 16), 1024)
}

// reserve notes fences that were taken, of which the first is in use.
func (t *turn) reserve(first uint64, fences int) {
	t.fence, t.spare, t.block = first+1, fences-1, fences
}

// reset follows the end of a turn: the key is free, or somebody else's.
func (t *turn) reset() { *t = turn{served: true} }

// saw notes the holder that stands in the way.
func (t *turn) saw(token string) {
	if token != t.seen {
		t.seen = token
		t.missed++
	}
}

// courtesy is how long the first of a process lets others go ahead to a key that is
// free: not at all before its first turn, and the less the more turns of others it
// has seen since its last one. Without it the process that frees a key, or the one
// that the server tells first, would get it time and again. The draw keeps those who
// have waited equally long from marching in step.
func (t *turn) courtesy(roundTrip time.Duration) time.Duration {
	if !t.served {
		return 0
	}
	longest := min(2*roundTrip+time.Millisecond/2, longestCourtesy) / time.Duration(1+t.missed)
	return longest/2 + rand.N(longest/2+1)
}

// longestCourtesy bounds what a slow network costs where nobody else wants the key.
const longestCourtesy = 50 * time.Millisecond

// roundTrip is about how long a command takes.
func (l *Locker) roundTrip() time.Duration { return time.Duration(l.lastTrip.Load()) }

// courtesy is how long l, which is the first, lets other processes go ahead.
func (q *queues) courtesy(l *Lock, roundTrip time.Duration) time.Duration {
	s := q.shard(l.keys[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.line == nil {
		return 0
	}
	return l.line.turn.courtesy(roundTrip)
}

// saw notes that l, which is the first, has met another process' holder.
func (q *queues) saw(l *Lock, token string) {
	s := q.shard(l.keys[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.line != nil {
		l.line.turn.saw(token)
	}
}
