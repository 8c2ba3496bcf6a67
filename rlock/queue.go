package rlock

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// queues lets one acquisition per key talk to the server. The others of this
// process that want the key stand in line behind it, first come, first served, and
// send nothing: behind an attempt until it has given up, behind a holder until it
// has released or lost the lock.
//
// A key that nobody holds or wants costs no memory, but for the few that past keeps.
type queues struct {
	seed   maphash.Seed
	shards [64]shard
}

// shard has the first in line of some keys. Its mutex is taken last.
type shard struct {
	mu    sync.Mutex
	first map[string]*Lock
	limit int // size at which holders are looked for that left without a word
	past  past
}

func newQueues() *queues {
	q := &queues{seed: maphash.MakeSeed()}
	for i := range q.shards {
		q.shards[i].first = map[string]*Lock{}
	}
	return q
}

func (q *queues) shard(key string) *shard {
	return &q.shards[maphash.String(q.seed, key)%uint64(len(q.shards))]
}

// enter makes l the first for its key, or gives it a place behind the one that is.
func (q *queues) enter(l *Lock) (*place, *Lock) {
	s := q.shard(l.key[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	first := s.first[l.key[0]]
	if first != nil && first.over() {
		s.next(first)
		first = s.first[l.key[0]]
	}
	if first == nil {
		s.first[l.key[0]] = l
		l.queued = true
		l.line = s.past.recall(l.key[0], l.locker.defaults)
		l.rivals = l.line != nil
		return nil, nil
	}
	if first.line == nil {
		first.line = &line{}
	}
	p := &place{lock: l, called: make(chan struct{})}
	first.line.append(p)
	return p, first
}

// over reports whether a holder's lock has ended without a Release, which calls the
// next itself.
func (l *Lock) over() bool {
	cause := l.end.Load()
	return l.held.Load() && (cause != nil && cause != released || cause == nil && l.lease.Deadline() <= clock.Now())
}

// sweep forgets holders whose lease ended with nobody in line and no Release. It
// looks at all when there are twice as many as after the last time. The caller
// holds mu.
func (s *shard) sweep() {
	if len(s.first) < s.limit {
		return
	}
	for _, first := range s.first {
		if first.over() {
			s.next(first)
		}
	}
	s.limit = max(2*len(s.first), 64)
}

// holder returns the Lock of this process that holds the key, as far as is known
// here.
func (q *queues) holder(key string) *Lock {
	s := q.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.first[key]; first != nil && first.held.Load() {
		return first
	}
	return nil
}

// left returns how much longer the holder of a key has that its line waits for, in
// this process or another; 0 if that is not known.
func (q *queues) left(key string) time.Duration {
	s := q.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch first := s.first[key]; {
	case first == nil:
		return 0
	case first.held.Load():
		return max(first.lease.Deadline().Until(), time.Millisecond)
	case first.line == nil || first.line.rival == 0:
		return 0
	default:
		return max(first.line.rival.Until(), 0)
	}
}

// before returns the holder that a place is next to, nil if there is another place
// between them, or no holder.
func (q *queues) before(p *place) *Lock {
	s := q.shard(p.lock.key[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.first[p.lock.key[0]]
	if p.gone || p.prev != nil || !first.held.Load() {
		return nil
	}
	return first
}

// leave calls the next in line, if l is the first.
func (q *queues) leave(l *Lock) {
	s := q.shard(l.key[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first[l.key[0]] == l {
		s.next(l)
	}
}

// next makes the head of l's line the first. The caller holds mu.
func (s *shard) next(l *Lock) {
	key := l.key[0]
	if l.line == nil || l.line.head == nil {
		delete(s.first, key)
		if l.line != nil && l.line.turn.met {
			s.past.remember(key, l.line, l.locker.defaults)
		}
		return
	}
	p := l.line.head
	l.line.remove(p)
	l.line.turn.end()
	p.lock.line, l.line = l.line, nil
	p.lock.queued = true
	s.first[key] = p.lock
	close(p.called)
}

// giveUp takes back a place, or the turn if it has just come.
func (q *queues) giveUp(p *place) fate {
	s := q.shard(p.lock.key[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case p.given:
		return given
	case p.claimed:
		p.left = true
		return claimed
	case p.gone:
		p.lock.queued = false
		s.next(p.lock)
	default:
		s.first[p.lock.key[0]].line.remove(p)
	}
	return free
}

// fate is what has become of a place that is given up.
type fate int

const (
	free    fate = iota // nothing
	given               // the lock has just been handed over
	claimed             // a hand-over is under way; whoever does it sees that nobody wants it
)

// lined reports whether somebody stands behind l.
func (q *queues) lined(l *Lock) bool {
	s := q.shard(l.key[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.line != nil && l.line.head != nil
}
