package queue

import (
	"math/rand/v2"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// turn is the time in which this process keeps a key to itself: it hands the key over among
// its own waiters, or takes it again at once. When the turn is over, this process frees the
// key and lets others go first. The shard's mutex guards it.
type turn struct {
	began  clock.Instant // 0: it has not
	fence  uint64        // next of those reserved
	spare  int           // how many are reserved
	block  int           // how many were taken at once the last time
	single bool          // reserving fences is of no use: the holders differ too much to share a lease

	contended bool          // another process has stood in the way
	ended     clock.Instant // end of the turn before; 0: there was none
	lasted    time.Duration // how long that was
}

// over reports whether this process must free the key for others. A turn whose begin was not
// noted begins here.
func (t *turn) over(limit time.Duration) bool {
	if t.began == 0 {
		t.began = clock.Now()
	}
	return time.Duration(clock.Now()-t.began) >= limit
}

// pass returns a fence for a hand-over, if one is reserved, and how many fences to reserve if
// that one cannot be used: four times as many as the last time, so that few are wasted.
func (t *turn) pass() (fence uint64, more int) {
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

// reserve notes that n fences were reserved, from first on. The first of them is in use.
func (t *turn) reserve(first uint64, n int) {
	// No fence of the last block was used. Pass has just taken one, which this hand-over
	// could not use.
	t.single = t.single || t.block > 1 && t.spare >= t.block-2
	t.fence, t.spare, t.block = first+1, n-1, n
}

// end ends a turn, and notes when it ended and how long it lasted.
func (t *turn) end() {
	ended := turn{contended: t.contended, ended: clock.Now()}
	if t.began != 0 {
		ended.lasted = time.Duration(ended.ended - t.began)
	}
	*t = ended
}

// recency is how far this process must let others who want the key go first. It is 1 right
// after its own turn, falls towards 0 while it waits for the turns of many others, and is 0
// before its first turn.
func (t *turn) recency() float64 {
	if t.ended == 0 {
		return 0
	}
	turns := float64(clock.Now()-t.ended) / float64(max(t.lasted, shortestTurn))
	return 1 / ((1 + turns) * (1 + turns))
}

// shortestTurn is about how long a turn takes at least.
const shortestTurn = time.Millisecond / 4

// backoff is how long the front lets others go first when the key is free. Without it the
// process that frees a key, or the one that the server tells first, would get it time and
// again. The random factor keeps processes that have waited equally long from trying at the
// same moment.
func (t *turn) backoff(roundTrip time.Duration) time.Duration {
	longest := 2*roundTrip + time.Millisecond/4
	if t.contended {
		longest = 2*roundTrip + LongestStep*5/4 // the others may still be pausing after a push
	}
	backoff := time.Duration(float64(min(longest, longestBackoff)) * t.recency() * (0.7 + 0.3*rand.Float64()))
	if backoff < max(shortestBackoff, min(roundTrip, longestBackoff)/4) {
		return 0 // others would hardly notice
	}
	return backoff
}

// LongestStep is how long a waiter pauses at most after a push that said nothing new.
const LongestStep = 4 * time.Millisecond

// shortestBackoff is the shortest pause that timers keep. A shorter one may take a
// millisecond.
const shortestBackoff = 100 * time.Microsecond

// longestBackoff bounds what a slow network costs where nobody else wants the key.
const longestBackoff = 50 * time.Millisecond

// past remembers the turns of the last few keys that this process has shared with others and
// that nobody in this process wants any more. A caller who comes back at once then still
// backs off, or still has the rest of the turn.
type past struct {
	keys [4]string
	turn [4]turn
	at   [4]clock.Instant
	next int
}

// memory is how long a past turn counts.
const memory = 100 * time.Millisecond

func (p *past) remember(key string, t turn, limit time.Duration) {
	if t.over(limit) {
		t.end()
	}
	t.spare, t.block = 0, 0 // the key is free: others get larger fences
	p.keys[p.next], p.turn[p.next], p.at[p.next] = key, t, clock.Now()
	p.next = (p.next + 1) % len(p.keys)
}

// recall returns the turn of a key that was freed a moment ago.
func (p *past) recall(key string, limit time.Duration) (t turn, known bool) {
	for i := range p.keys {
		if p.keys[i] != key {
			continue
		}
		p.keys[i] = ""
		t := p.turn[i]
		if time.Duration(clock.Now()-p.at[i]) >= memory {
			return turn{}, false
		}
		if t.began != 0 && t.over(limit) {
			t.end()
		}
		return t, true
	}
	return turn{}, false
}
