// Package queue decides who in this process is next for a key. For each key one acquisition
// asks the server: the front. The others wait behind it, first come, first served, and send
// nothing. They wait until the front has given up its attempt or, if it holds the lock, until
// it has released or lost the lock. A holder hands the lock to the next as a value.
//
// A Wait decides what this process does while it waits for a key among other processes, in the
// queue that the server keeps.
//
// The package never talks to a server, and does not know what is handed over.
package queue

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Queue has the tickets of many keys. A key that nobody holds or wants costs no memory.
//
// R is what an acquisition wants of the lock. G is what a holder hands to the next. H is a
// lock of this process; its zero value stands for none.
type Queue[R, G any, H Holder] struct {
	limit  time.Duration // of a turn
	seed   maphash.Seed
	shards [64]shard[R, G, H]
	places sync.Pool // of *place; those who wait in a line take turns with them
}

// shard has some keys of a Queue. A goroutine that holds its mutex takes no other.
type shard[R, G any, H Holder] struct {
	queue  *Queue[R, G, H]
	mu     sync.Mutex
	keys   map[string]entry[R, G, H]
	size   int    // number of keys at which sweep looks for holders that have ended unnoticed
	wanted string // the last key that other processes held or waited for
}

// entry is what a shard has of a key: its front alone, or the line that the front has. A hand-over from front
// to front then changes the line only, and not the map.
type entry[R, G any, H Holder] struct {
	alone *Ticket[R, G, H]
	line  *line[R, G, H]
}

// front returns the front; nil: the key has no tickets.
func (e entry[R, G, H]) front() *Ticket[R, G, H] {
	if e.line != nil {
		return e.line.front
	}
	return e.alone
}

// New returns an empty Queue. limit is how long this process may keep a key to itself while
// another process waits for it.
func New[R, G any, H Holder](limit time.Duration) *Queue[R, G, H] {
	q := &Queue[R, G, H]{limit: limit, seed: maphash.MakeSeed()}
	for i := range q.shards {
		q.shards[i].queue, q.shards[i].keys = q, map[string]entry[R, G, H]{}
	}
	return q
}

func (q *Queue[R, G, H]) shard(key string) *shard[R, G, H] {
	return &q.shards[maphash.String(q.seed, key)%uint64(len(q.shards))]
}

// Holder is a lock of this process.
type Holder interface {
	comparable
	Deadline() clock.Instant     // of its lease
	Over(now clock.Instant) bool // it has ended, and no Release of it will call the next
}

// Holder returns the lock of this process that holds the key, as far as this process knows,
// or nil.
func (q *Queue[R, G, H]) Holder(key string) (h H) {
	s := q.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.keys[key].front(); t != nil {
		return t.holder
	}
	return h
}

// Join puts t, which must be new, into the queue for key, and reports whether t is the front.
// If it is not, Join returns what Remaining would. now is a recent reading of the clock.
func (q *Queue[R, G, H]) Join(t *Ticket[R, G, H], key string, request R, now clock.Instant) (left time.Duration, first bool) {
	s := q.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(now)
	t.shard, t.key = s, key
	at := s.keys[key].front()
	if at != nil && at.ended(now) {
		s.next(at)
		at = s.keys[key].front()
	}
	if at == nil {
		s.keys[key] = entry[R, G, H]{alone: t}
		t.state = front
		return 0, true
	}
	line := at.needLine()
	t.state, t.place = waiting, q.newPlace(request, line)
	line.append(t)
	if at.holds() {
		line.turn.begin(now)
	}
	return at.remaining(now), false
}

// Wake ends the present Await of every ticket, after the stop of these waits was closed.
func (q *Queue[R, G, H]) Wake() {
	for i := range q.shards {
		q.shards[i].wake()
	}
}

func (s *shard[R, G, H]) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.keys {
		if e.line != nil {
			for t := e.line.head; t != nil; t = t.place.next {
				t.place.signal.Send()
			}
		}
	}
}

// sweep removes holders whose lease ended with nobody behind them and no Release. It does
// nothing until there are twice as many keys as after the last time. The caller holds mu.
func (s *shard[R, G, H]) sweep(now clock.Instant) {
	if len(s.keys) < s.size {
		return
	}
	for _, e := range s.keys {
		if t := e.front(); t.ended(now) {
			s.next(t)
		}
	}
	s.size = max(2*len(s.keys), 64)
}

// next removes t, which is the front, and makes the first ticket behind it the front. The
// caller holds mu.
func (s *shard[R, G, H]) next(t *Ticket[R, G, H]) {
	line := t.line()
	t.leave()
	if line == nil || line.head == nil {
		delete(s.keys, t.key)
		if line != nil {
			line.front = nil // a Question may still have the line
		}
		return
	}
	next := line.head
	line.remove(next)
	line.turn.end()
	next.state, line.front = front, next
	next.silence.Inherit(&t.silence)
	next.place.signal.Send()
}

// newPlace returns a place in a line, which may be one that another ticket has left.
func (q *Queue[R, G, H]) newPlace(request R, l *line[R, G, H]) *place[R, G, H] {
	p, _ := q.places.Get().(*place[R, G, H])
	if p == nil {
		p = &place[R, G, H]{signal: clock.NewSignal()}
	}
	p.request, p.line = request, l
	return p
}

// line has the tickets behind a front. Each front leaves it to the next front.
type line[R, G any, H Holder] struct {
	front      *Ticket[R, G, H]
	head, tail *Ticket[R, G, H]
	watching   int // how many tickets behind the front watch
	turn       turn
	remote     clock.Instant // when the lease of another process ends that the front waits for; 0: there is none
	met        bool          // a front has found another process holding the key
	score      int64         // of the place that the last front has left in the queue of the server; 0: none
}

// count counts a ticket that comes to the line or leaves it.
func (l *line[R, G, H]) count(t *Ticket[R, G, H], n int) {
	if t.place.watches {
		l.watching += n
	}
}

func (l *line[R, G, H]) append(t *Ticket[R, G, H]) {
	l.count(t, 1)
	t.place.prev = l.tail
	if l.tail == nil {
		l.head = t
	} else {
		l.tail.place.next = t
	}
	l.tail = t
}

func (l *line[R, G, H]) prepend(t *Ticket[R, G, H]) {
	l.count(t, 1)
	t.place.next = l.head
	if l.head == nil {
		l.tail = t
	} else {
		l.head.place.prev = t
	}
	l.head = t
}

func (l *line[R, G, H]) remove(t *Ticket[R, G, H]) {
	l.count(t, -1)
	p := t.place
	if p.prev == nil {
		l.head = p.next
	} else {
		p.prev.place.next = p.next
	}
	if p.next == nil {
		l.tail = p.prev
	} else {
		p.next.place.prev = p.prev
	}
	p.next, p.prev = nil, nil
}
