package queue

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
	fence  uint64        // next of those reserved
	spare  int           // how many are reserved
	block  int           // how many were taken at once the last time
	single bool          // reserving is of no use here: holders differ too much to share a lease

	contended bool          // another process has stood in the way
	ended     clock.Instant // end of the turn before; 0: there was none
	lasted    time.Duration // how long that was
}

// over reports whether the key must be freed for others. A turn that nobody has seen
// the start of begins here.
func (t *turn) over(limit time.Duration) bool {
	if t.began == 0 {
		t.began = clock.Now()
	}
	return time.Duration(clock.Now()-t.began) >= limit
}

// pass returns the fence of a hand-over, if one is reserved, and how many to
// reserve where it cannot be used: four times as many as the last time, so that few
// are wasted.
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

// reserve notes fences that were taken, of which the first is in use.
func (t *turn) reserve(first uint64, n int) {
	// Of those before, none was used but the one that pass has just set aside in vain.
	t.single = t.single || t.block > 1 && t.spare >= t.block-2
	t.fence, t.spare, t.block = first+1, n-1, n
}

// end follows the end of a turn.
func (t *turn) end() {
	ended := turn{contended: t.contended, ended: clock.Now()}
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

// backoff is how long the front lets others go ahead to a key that is free. Without it the
// process that frees a key, or the one that the server tells first, would get it time and
// again. The draw keeps those who have waited equally long from marching in step.
func (t *turn) backoff(roundTrip time.Duration) time.Duration {
	longest := 2*roundTrip + time.Millisecond/4
	if t.contended {
		longest = 2*roundTrip + LongestStep*5/4 // they may only pause after a push
	}
	backoff := time.Duration(float64(min(longest, longestBackoff)) * t.recency() * (0.7 + 0.3*rand.Float64()))
	if backoff < max(shortestBackoff, min(roundTrip, longestBackoff)/4) {
		return 0 // others would hardly notice
	}
	return backoff
}

// LongestStep is how long a waiter pauses at most after a push that said nothing new.
const LongestStep = 4 * time.Millisecond

// shortestBackoff is what timers can be trusted with: asked for less, they may take a
// millisecond.
const shortestBackoff = 100 * time.Microsecond

// longestBackoff bounds what a slow network costs where nobody else wants the key.
const longestBackoff = 50 * time.Millisecond

// past remembers the last few keys that this process has shared with others and
// that nobody here waits for any more, so that whoever comes back at once neither
// forgets to back off nor loses the rest of its turn.
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
