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

// The reaper gives up, in the background, what nobody wants any more: keys that commands without an answer
// may have taken, and places of their tokens in queues.
//
// Such a command may still be under way, and arrive after the release. So the reaper repeats the release at
// growing intervals, until the lease that the command could have started must be over, for half a minute at
// most. Where no such command is left, one answer is enough. While nothing can be given up, and for half a
// minute after that, the reaper goes on, and its intervals do not grow: nobody answers, until the lease is
// over; or the server refuses it because the slot of the key moves to another node.

// releaseFunc makes the calls, and returns their replies in the same order.
type releaseFunc func(ctx context.Context, all []releaseCall) []redislua.Reply[int64]

// reapers has a reaper for each slot of a cluster, whose node may be silent, and then keeps nothing of
// another waiting. A server that is no cluster has one.
type reapers struct {
	release releaseFunc

	mu     sync.Mutex
	of     map[uint16]*reaper
	closed bool
}

// reaper has the calls of one slot that may still have to be made. However many there are, it has one timer,
// and makes one call at a time.
type reaper struct {
	release releaseFunc

	mu      sync.Mutex
	pending []*pending
	rounds  uint64        // so far
	timer   *time.Timer   // of the next round; nil: none is due or under way
	armed   clock.Instant // when that is
	closed  bool          // every try is the last
	flushed chan struct{} // closed when nothing is pending any more; nil: nobody waits for it
	left    []string      // keys of calls that had no answer when they were forgotten, since closed
}

// pending is a call with the schedule of its tries.
type pending struct {
	releaseCall
	backoff time.Duration // from the beginning of one try to that of the next
	next    clock.Instant
	last    clock.Instant // the try at this time is the last
	over    clock.Instant // when no lease can be left, nor a place
	began   clock.Instant // the last try
	tried   uint64        // the number of the round of that
	done    bool          // of the round that is under way

	answered bool // it was made, but may have to be made again: see late
}

const (
	firstBackoff  = 25 * time.Millisecond
	backoffFactor = 4 // tries after 0, 25, 125, 525 ms, 2.1, 8.5 and 30 s
	longest       = 30 * time.Second
	whileMoving   = 5 * time.Second // from one try to the next at most, while the slot moves
	whileSilent   = time.Second     // likewise, while nobody answers or the server refuses; see TestOutage
	mostPending   = 1 << 14         // with more, the last try is not put off any more
	callTimeout   = 2 * time.Second
	mostReleases  = 1000 // in one call
)

// add has a call made that is about a slot; see reaper.add.
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

// close closes each reaper, and waits up to limit for them. It returns the keys of which the server has not
// confirmed that they are given up.
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

// add has a call made, the first time soon. ttl is that of the longest lease that unanswered commands could
// have started, clock.NoExpiry if the token may have a place in a queue, which does not end with a lease.
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

// close makes one last try for everything that is pending, waits up to limit for it, and returns the keys
// that may be left. What is added later gets one try too.
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

// armNext has the next round run when its first call is due. The caller holds mu.
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

// arm has a round run at next or earlier. A round that is under way arms the next one when
// it ends. The caller holds mu.
func (r *reaper) arm(next clock.Instant) {
	if r.timer != nil && (next >= r.armed || !r.timer.Stop()) {
		return
	}
	r.armed = next
	r.timer = time.AfterFunc(max(next.Until(), 0), r.round)
}

// round tries what is due. A call in which nobody answers for any of its releases is the last of its round,
// so that a server that is down costs one call at a time, however much there is to free. Its releases come
// last in the next round: those behind them may be at another server.
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

// reap makes one try, and reports whether there was an answer for any of the calls. With prolong, the last
// try of a call is put off while its slot moves, and while nobody answers.
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

// putOff puts off the last try of what could not be given up, until the time at most, and bounds the pauses
// until then.
func (p *pending) putOff(pause time.Duration, until clock.Instant, prolong bool) {
	p.backoff = min(p.backoff, pause)
	if prolong {
		p.last = max(p.last, min(clock.Now().After(longest), until))
	}
}

// endRound plans the next tries of what was due, and forgets what is done. Only the first of them were tried.
func (r *reaper) endRound(due []*pending, tried int, prolong bool) {
	now := clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rounds++
	for i, p := range due {
		switch {
		case i < tried:
			p.tried = r.rounds
		case r.closed: // Close has come meanwhile: its last try is in the next round
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
