package wire

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// The reaper frees in the background what no caller wants any more. These are keys that commands without an
// answer may have taken, and the places of their tokens in queues.
//
// A command without an answer may still be under way, and reach the server after the release. So the reaper
// repeats the release at growing intervals. It stops after half a minute, or earlier if the lease that the
// command could have started is certainly over. If no command without an answer is left, the reaper stops
// after one answer.
//
// In two cases the reaper cannot free anything. The server does not answer, and the lease may still last. Or
// the server refuses because the slot of the key moves to another node. In these cases, and for half a minute
// after them, the reaper repeats the release at intervals that do not grow.

// releaseFunc makes the calls, and returns their replies in the same order.
type releaseFunc func(ctx context.Context, all []releaseCall) []redislua.Reply[int64]

// reapers has a reaper for each slot of a cluster, so that a silent node delays only its own slots. A
// server that is no cluster has one reaper.
type reapers struct {
	release releaseFunc

	mu     sync.Mutex
	of     map[uint16]*reaper
	closed bool
}

// reaper has the calls of one slot that it may still have to make. It has one timer and makes one call at a
// time, however many there are.
type reaper struct {
	release releaseFunc

	mu      sync.Mutex
	pending []*pending
	rounds  uint64        // rounds so far
	timer   *time.Timer   // of the next round; nil: no round is due or under way
	armed   clock.Instant // when the timer fires
	closed  bool          // each try is the last one
	flushed chan struct{} // closed when nothing is pending; nil: no caller waits for that
	left    []string      // keys of calls that the reaper has forgotten without an answer since it was closed
}

// pending is a call with the schedule of its tries.
type pending struct {
	releaseCall
	backoff time.Duration // from the start of one try to the start of the next
	next    clock.Instant
	last    clock.Instant // the try at this time is the last
	over    clock.Instant // from then on no lease or place can be left
	began   clock.Instant // the start of the last try
	tried   uint64        // the round of the last try
	done    bool          // after the round under way, the reaper forgets the call

	answered bool // the server has answered, but the reaper may have to repeat the call: see late
}

const (
	firstBackoff  = 25 * time.Millisecond
	backoffFactor = 4 // tries after 0, 25, 125, 525 ms, 2.1, 8.5 and 30 s
	longest       = 30 * time.Second
	whileMoving   = 5 * time.Second // longest interval while the slot moves
	// longest interval while the server does not answer or refuses: see TestOutage
	whileSilent  = time.Second
	mostPending  = 1 << 14 // with more pending calls than this, the reaper puts off no last try
	callTimeout  = 2 * time.Second
	mostReleases = 1000 // in one call
)

func (r *reapers) add(slot uint16, call releaseCall, ttl time.Duration) { r.at(slot).add(call, ttl) }

func (r *reapers) at(slot uint16) *reaper {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.of[slot]
	if one == nil {
		one = &reaper{release: r.release, closed: r.closed}
		r.of[slot] = one
	}
	return one
}

// close closes each reaper, and waits for them up to limit. It returns the keys whose release the server
// has not confirmed.
func (r *reapers) close(limit time.Duration) (left []string) {
	r.mu.Lock()
	r.closed = true
	all := slices.Collect(maps.Values(r.of))
	r.mu.Unlock()
	var each sync.WaitGroup
	lefts := make([][]string, len(all))
	for i, one := range all {
		each.Go(func() { lefts[i] = one.close(limit) })
	}
	each.Wait()
	return slices.Concat(lefts...)
}

// add makes the reaper make a call, the first time soon. ttl is the TTL of the longest lease that commands
// without an answer can have started. It is clock.NoExpiry if the token may have a place in a queue, which
// does not end with a lease.
func (r *reaper) add(call releaseCall, ttl time.Duration) {
	now := clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = append(r.pending, &pending{
		releaseCall: call, backoff: firstBackoff,
		next: now, last: now.After(min(ttl, longest)), over: now.After(ttl),
	})
	r.arm(now)
}

// close makes one last try for each pending call, and waits for it up to limit. It returns the keys that
// may be left. A call that is added later gets one try too.
func (r *reaper) close(limit time.Duration) (left []string) {
	r.mu.Lock()
	r.closed = true
	for _, p := range r.pending {
		p.next = clock.Now()
	}
	r.armNext()
	flushed := make(chan struct{})
	if r.timer == nil {
		close(flushed)
	} else {
		r.flushed = flushed
	}
	r.mu.Unlock()

	select {
	case <-flushed:
	case <-time.After(limit):
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pending {
		if !p.answered {
			left = append(left, p.keys...)
		}
	}
	return append(left, r.left...)
}

// armNext plans the next round for when its first call is due. The caller holds mu.
func (r *reaper) armNext() {
	if len(r.pending) == 0 {
		return
	}
	next := clock.Never
	for _, p := range r.pending {
		next = min(next, p.next)
	}
	r.arm(next)
}

// arm plans a round at next or earlier. A round under way plans the next round when it ends. The caller
// holds mu.
func (r *reaper) arm(next clock.Instant) {
	if r.timer != nil && (next >= r.armed || !r.timer.Stop()) {
		return
	}
	r.armed = next
	r.timer = time.AfterFunc(max(next.Until(), 0), r.round)
}

// round makes the calls that are due. If the server answers none of the releases in a call, the round ends
// there. So a server that is down costs one call at a time, however many keys there are to free. The releases
// of that call come last
// in the next round, because the releases behind them may be at another server.
func (r *reaper) round() {
	r.mu.Lock()
	now := clock.Now()
	var due []*pending
	for _, p := range r.pending {
		if r.closed || p.next <= now {
			due = append(due, p)
		}
	}
	prolong, closed := len(r.pending) <= mostPending, r.closed
	r.mu.Unlock()
	tried := 0
	defer func() { r.endRound(due, tried, prolong) }() // also when a hook ends the goroutine
	for some := range slices.Chunk(due, mostReleases) {
		tried += len(some)
		if !r.reap(some, prolong) && !closed {
			break
		}
	}
}

// reap makes one try, and reports whether the server answered any of the calls. With prolong, it puts off
// the last try of a call while the slot moves, or while the server does not answer.
func (r *reaper) reap(due []*pending, prolong bool) (answered bool) {
	calls := make([]releaseCall, len(due))
	began := clock.Now()
	for i, p := range due {
		calls[i], p.began = p.releaseCall, began
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	for i, reply := range r.release(ctx, calls) {
		answered = due[i].take(reply.Err, prolong) || answered
	}
	return answered
}

// take takes the error of a try, and reports whether the server has answered.
func (p *pending) take(err error, prolong bool) (answered bool) {
	switch {
	case err == nil:
		p.answered, p.done = true, !p.late
	case movesNow(err):
		p.putOff(whileMoving, clock.Never, prolong)
	case Transient(err):
		p.putOff(whileSilent, p.over, prolong)
		return false
	default: // a refusal, which may pass or not
		p.backoff = min(p.backoff, whileSilent)
	}
	return true
}

// putOff puts off the last try of a call, but not beyond until. It also makes no interval between tries
// longer than pause.
func (p *pending) putOff(pause time.Duration, until clock.Instant, prolong bool) {
	p.backoff = min(p.backoff, pause)
	if prolong {
		p.last = max(p.last, min(clock.Now().After(longest), until))
	}
}

// endRound plans the next tries of the due calls, and forgets the calls that are done. tried is how many of
// the due calls the round has made, from the first one on.
func (r *reaper) endRound(due []*pending, tried int, prolong bool) {
	now := clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rounds++
	for i, p := range due {
		switch {
		case i < tried:
			p.tried = r.rounds
		case r.closed: // Close has come meanwhile: the last try is in the next round
			p.next = now
			continue
		default:
			p.began = now
			p.take(ErrNoAnswer, prolong)
		}
		if r.closed && !p.answered {
			r.left = append(r.left, p.keys...)
		}
		p.done = p.done || r.closed || p.next >= p.last
		p.next = min(p.began.After(p.backoff), p.last)
		p.backoff *= backoffFactor
	}
	r.pending = slices.DeleteFunc(r.pending, func(p *pending) bool { return p.done })
	if tried < len(due) {
		slices.SortStableFunc(r.pending, func(a, b *pending) int { return cmp.Compare(a.tried, b.tried) })
	}
	r.timer = nil
	r.armNext()
	if r.timer == nil && r.flushed != nil {
		close(r.flushed)
		r.flushed = nil
	}
}
