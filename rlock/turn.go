package rlock

import (
	"math/rand/v2"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// turn is the time in which this process keeps a key to itself, passing it on among
// its own waiters or taking it again at once. When it is over the key is freed, and
// this process lets others go first. It is guarded by the shard's mutex.
type turn struct {
	began  clock.Instant // 0: it has not
	passed int           // hand-overs
	fence  uint64        // next of those reserved
	spare  int           // how many are reserved
	block  int           // how many were taken at once the last time
	single bool          // reserving is of no use here: holders differ too much to share a lease

	met    bool          // another process has stood in the way
	ended  clock.Instant // end of the turn before; 0: there was none
	lasted time.Duration // how long that was
}

// over reports whether the key must be freed for others. A turn that nobody has seen
// the start of begins here.
func (t *turn) over(most int, longest time.Duration) bool {
	if t.began == 0 {
		t.began = clock.Now()
	}
	return t.passed >= most || time.Duration(clock.Now()-t.began) >= longest
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
	if t.single {
		return fence, 1
	}
	return fence, min(max(4*t.block, 16), 1024)
}

// reserve notes fences that were taken, of which the first is in use.
func (t *turn) reserve(first uint64, fences int) {
	// Of those before, none was used but the one that pass has just set aside in vain.
	t.single = t.single || t.block > 1 && t.spare >= t.block-2
	t.fence, t.spare, t.block = first+1, fences-1, fences
}

// end follows the end of a turn.
func (t *turn) end() {
	ended := turn{met: t.met, ended: clock.Now()}
	if t.began != 0 {
		ended.lasted = time.Duration(ended.ended - t.began)
	}
	*t = ended
}

// recency is how far this process must let others who want the key go first:
// from 1, right after its own turn, towards 0, when it has waited for the turns of
// many others; 0 before its first.
func (t *turn) recency() float64 {
	if t.ended == 0 {
		return 0
	}
	turns := float64(clock.Now()-t.ended) / float64(max(t.lasted, shortestTurn))
	return 1 / ((1 + turns) * (1 + turns))
}

// shortestTurn is about what a turn costs at least.
const shortestTurn = time.Millisecond / 4

// backoff is how long the first of a process lets others go ahead to a key that is
// free. Without it the process that frees a key, or the one that the server tells
// first, would get it time and again. The draw keeps those who have waited equally
// long from marching in step.
func (t *turn) backoff(roundTrip time.Duration) time.Duration {
	longest := 2*roundTrip + time.Millisecond/4
	if t.met {
		longest = 2*roundTrip + longestStep*5/4 // they may only pause; see backoff.go
	}
	backoff := time.Duration(float64(min(longest, longestBackoff)) * t.recency() * (0.7 + 0.3*rand.Float64()))
	if backoff < max(shortestBackoff, min(roundTrip, longestBackoff)/4) {
		return 0 // others would hardly notice
	}
	return backoff
}

// shortestBackoff is what timers can be trusted with: asked for less, they may take a
// millisecond.
const shortestBackoff = 100 * time.Microsecond

// longestBackoff bounds what a slow network costs where nobody else wants the key.
const longestBackoff = 50 * time.Millisecond

// roundTrip is about how long a command takes.
func (l *Locker) roundTrip() time.Duration { return time.Duration(l.lastTrip.Load()) }

// standing is what the turns of the past mean for l, which is the first: how long
// it lets others go ahead to a key that is free, and how recent the last one was.
func (q *queues) standing(l *Lock) (backoff time.Duration, recency float64) {
	s := q.shard(l.key[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.line == nil || l.line.turn.began != 0 {
		return 0, 0
	}
	return l.line.turn.backoff(l.locker.roundTrip()), l.line.turn.recency()
}

// meet notes that l, which is the first, has found another process holding the key.
func (q *queues) meet(l *Lock, left time.Duration) {
	s := q.shard(l.key[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.line == nil {
		l.line = &line{}
	}
	if l.line.turn.began != 0 {
		l.line.turn.end()
	}
	l.line.turn.met = true
	l.line.rival = clock.Now().After(left)
}

// begin notes that the server has given a key to l, which is the first, that other
// processes want too.
func (q *queues) begin(l *Lock) {
	s := q.shard(l.key[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.line != nil && l.line.turn.began == 0 {
		l.line.turn.began = clock.Now()
	}
}
