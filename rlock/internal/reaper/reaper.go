// Package reaper frees, in the background, keys that commands without an answer may have
// taken. The same release gives up the place of a token in the queue of its key.
//
// Such a command may still be under way and arrive after the release. So the reaper repeats
// the release at growing intervals, until the lease that the command could have started must
// be over, for half a minute at most. While the server refuses it because the slot of the key
// moves to another node, and for half a minute after that, the reaper goes on: until then nothing
// could be given up.
//
// It does not know how a release is sent, or whether anybody still has a handle of what it
// frees: the caller who adds an item has given up its token.
package reaper

import (
	"context"
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

	Waits  bool // the token may have a place in the queue of its key, which it has joined with:
	TTL    time.Duration
	Silent bool
}

// Result is what one try to release an item has done.
type Result uint8

const (
	NoAnswer Result = iota
	Absent          // the server has answered that no key had the token
	Freed           // the server has freed a key
	Moving          // the server has refused because the slot moves now
)

// Release frees those keys of each item that have its token.
type Release func(ctx context.Context, items []Item) []Result

// Reaper has the items that may still have to be freed. However many there are, it has one
// timer, and makes one call at a time.
type Reaper struct {
	release Release

	mu      sync.Mutex
	pending []*pending
	timer   *time.Timer   // of the next round; nil: none is due or under way
	armed   clock.Instant // when that is
	closed  bool          // every try is the last
	flushed chan struct{} // closed when nothing is pending any more; nil: nobody waits for it
}

// pending is an item with the schedule of its tries.
type pending struct {
	Item
	backoff time.Duration
	next    clock.Instant
	last    clock.Instant // the try at this time is the last
	done    bool          // of the round that is under way
}

const (
	firstBackoff  = 25 * time.Millisecond
	backoffFactor = 4 // tries after 0, 25, 125, 525 ms, 2.1, 8.5 and 30 s
	longest       = 30 * time.Second
	whileMoving   = 5 * time.Second // between two tries at most, while the slot moves
	mostPending   = 1 << 14         // with more, a slot that moves is like a server that does not answer
	callTimeout   = 2 * time.Second
	callItems     = 1000 // in one call
)

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
		next: now, last: now.After(min(ttl, longest)),
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

// round tries what is due.
func (r *Reaper) round() {
	r.mu.Lock()
	now := clock.Now()
	var due []*pending
	for _, p := range r.pending {
		if r.closed || p.next <= now {
			due = append(due, p)
		}
	}
	prolong := len(r.pending) <= mostPending
	r.mu.Unlock()
	defer r.endRound(due) // also when release ends the goroutine
	for some := range slices.Chunk(due, callItems) {
		r.reap(some, prolong)
	}
}

// reap makes one try. Of several unanswered commands, no answer says that all are undone: such an
// item is tried until its last time. With prolong, that is put off while the slot of an item moves.
func (r *Reaper) reap(due []*pending, prolong bool) {
	items := make([]Item, len(due))
	for i, p := range due {
		items[i] = p.Item
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	for i, result := range r.release(ctx, items) {
		p := due[i]
		switch {
		case result == Moving && prolong:
			p.last = clock.Now().After(longest)
			p.backoff = min(p.backoff, whileMoving)
		case result == Absent || result == Freed:
			p.done = p.Unanswered == 0 || result == Freed && p.Unanswered == 1
		}
	}
}

// endRound plans the next tries of what was due, and forgets what is done.
func (r *Reaper) endRound(due []*pending) {
	now := clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range due {
		p.done = p.done || r.closed || p.next >= p.last
		p.next = min(now.After(p.backoff), p.last)
		p.backoff *= backoffFactor
	}
	r.pending = slices.DeleteFunc(r.pending, func(p *pending) bool { return p.done })
	r.timer = nil
	r.armNext()
	if r.timer == nil && r.flushed != nil {
		close(r.flushed)
		r.flushed = nil
	}
}
