// Package reaper frees, in the background, keys that commands without an answer may have
// taken. The same release gives up the place of a token in the queue of its key.
//
// Such a command may still be under way and arrive after the release. So the reaper repeats
// the release at growing intervals, until the lease that the command could have started must
// be over, for half a minute at most. While nothing can be given up, and for half a minute after
// that, the reaper goes on, and its intervals do not grow: nobody answers, until the lease is over;
// or the server refuses it because the slot of the key moves to another node.
//
// It does not know how a release is sent, or whether anybody still has a handle of what it
// frees: the caller who adds an item has given up its token.
package reaper

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Item is what an acquisition may have left on a server.
type Item struct {
	Keys       []string // of one release
	Token      string   // nobody uses it any more
	Unanswered int      // commands that may have taken the keys, or may still do so; 0: one answer is enough
	Waits      bool     // the token may have a place in the queue of its key
}

// Result is what one try to release an item has done.
type Result uint8

const (
	NoAnswer Result = iota // nobody has, or the server cannot serve yet
	Absent                 // the server has answered that no key had the token
	Freed                  // the server has freed a key
	Moving                 // the server has refused because the slot moves now
	Refused                // the server has refused for another reason, which may pass or not
)

// Release frees those keys of each item that have its token.
type Release func(ctx context.Context, items []Item) []Result

// Reapers has a Reaper for each place: a slot of a cluster, whose node may be silent, and then keeps
// nothing of another place waiting.
type Reapers struct {
	release Release

	mu     sync.Mutex
	of     map[uint16]*Reaper
	closed bool
}

// Reaper has the items of one place that may still have to be freed. However many there are, it has one
// timer, and makes one call at a time.
type Reaper struct {
	release Release

	mu      sync.Mutex
	pending []*pending
	rounds  uint64        // so far
	timer   *time.Timer   // of the next round; nil: none is due or under way
	armed   clock.Instant // when that is
	closed  bool          // every try is the last
	flushed chan struct{} // closed when nothing is pending any more; nil: nobody waits for it
}

// pending is an item with the schedule of its tries.
type pending struct {
	Item
	backoff time.Duration // from the beginning of one try to that of the next
	next    clock.Instant
	last    clock.Instant // the try at this time is the last
	over    clock.Instant // when no lease can be left, nor a place
	began   clock.Instant // the last try
	tried   uint64        // the number of the round of that
	done    bool          // of the round that is under way
}

const (
	firstBackoff  = 25 * time.Millisecond
	backoffFactor = 4 // tries after 0, 25, 125, 525 ms, 2.1, 8.5 and 30 s
	longest       = 30 * time.Second
	whileMoving   = 5 * time.Second // from one try to the next at most, while the slot moves
	whileSilent   = time.Second     // likewise, while nobody answers or the server refuses; see TestOutage
	mostPending   = 1 << 14         // with more, the last try is not put off any more
	callTimeout   = 2 * time.Second
	callItems     = 1000 // in one call
)

// All returns Reapers that call release from one goroutine at a time for each place.
func All(release Release) *Reapers { return &Reapers{release: release, of: map[uint16]*Reaper{}} }

// Add has an item of a place freed; see Reaper.Add.
func (r *Reapers) Add(place uint16, item Item, ttl time.Duration) { r.at(place).Add(item, ttl) }

func (r *Reapers) at(place uint16) *Reaper {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.of[place]
	if one == nil {
		one = New(r.release)
		one.closed = r.closed
		r.of[place] = one
	}
	return one
}

// Close closes each Reaper, and waits up to limit for them.
func (r *Reapers) Close(limit time.Duration) {
	r.mu.Lock()
	r.closed = true
	all := slices.Collect(maps.Values(r.of))
	r.mu.Unlock()
	var each sync.WaitGroup
	for _, one := range all {
		each.Go(func() { one.Close(limit) })
	}
	each.Wait()
}

// New returns a Reaper that calls release from one goroutine at a time, which it starts
// when something is due.
func New(release Release) *Reaper { return &Reaper{release: release} }

// Add has an item freed. The first try comes soon. ttl is the TTL of the longest lease that
// the unanswered commands could have started, clock.NoExpiry if the token may have a place in a
// queue, which does not end with a lease.
func (r *Reaper) Add(item Item, ttl time.Duration) {
	now := clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = append(r.pending, &pending{
		Item: item, backoff: firstBackoff,
		next: now, last: now.After(min(ttl, longest)), over: now.After(ttl),
	})
	r.arm(now)
}

// Close makes one last try for everything that is pending, and waits up to limit for it.
// What is added later gets one try too.
func (r *Reaper) Close(limit time.Duration) {
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
}

// armNext has the next round run when its first item is due. The caller holds mu.
func (r *Reaper) armNext() {
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
func (r *Reaper) arm(next clock.Instant) {
	if r.timer != nil && (next >= r.armed || !r.timer.Stop()) {
		return
	}
	r.armed = next
	r.timer = time.AfterFunc(max(next.Until(), 0), r.round)
}

// round tries what is due. A call in which nobody answers for any item is the last of its round, so that a
// server that is down costs one call at a time, however much there is to free. The items of that call come
// last in the next round: those behind them may be at another server.
func (r *Reaper) round() {
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
	defer func() { r.endRound(due, tried, prolong) }() // also when release ends the goroutine
	for some := range slices.Chunk(due, callItems) {
		tried += len(some)
		if !r.reap(some, prolong) && !closed {
			break
		}
	}
}

// reap makes one try, and reports whether there was an answer for any of the items. Of several unanswered
// commands, no answer says that all are undone: such an item is tried until its last time. With prolong, that
// is put off while the slot of an item moves, and while nobody answers.
func (r *Reaper) reap(due []*pending, prolong bool) (answered bool) {
	items := make([]Item, len(due))
	began := clock.Now()
	for i, p := range due {
		items[i], p.began = p.Item, began
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	for i, result := range r.release(ctx, items) {
		answered = answered || result != NoAnswer
		due[i].take(result, prolong)
	}
	return answered
}

// take takes what a try has done.
func (p *pending) take(result Result, prolong bool) {
	switch result {
	case Absent, Freed:
		p.done = p.Unanswered == 0 || result == Freed && p.Unanswered == 1
	case Moving:
		p.putOff(whileMoving, clock.Never, prolong)
	case NoAnswer:
		p.putOff(whileSilent, p.over, prolong)
	case Refused:
		p.backoff = min(p.backoff, whileSilent)
	}
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
func (r *Reaper) endRound(due []*pending, tried int, prolong bool) {
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
			p.take(NoAnswer, prolong)
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
