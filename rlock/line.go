package rlock

import "github.com/rlock-go/toolkit/rlock/internal/clock"

// line are the acquisitions behind the first. It passes from one first to the next.
type line struct {
	head, tail *place
	turn       turn
	rival      clock.Instant // when the lease of another process ends that the first waits for
}

// place is a place in a line. It is guarded by the shard's mutex.
type place struct {
	lock       *Lock
	next, prev *place
	called     chan struct{} // closed when the lock is first
	gone       bool          // called, claimed, or given up
	claimed    bool          // a hand-over to it is under way; see handover.go
	left       bool          // it gave up while claimed
	given      bool          // the lock was handed to it: it is held, or err says why not
	err        error
}

func (l *line) append(p *place) {
	p.prev = l.tail
	if l.tail == nil {
		l.head = p
	} else {
		l.tail.next = p
	}
	l.tail = p
}

func (l *line) prepend(p *place) {
	p.next, p.gone = l.head, false
	if l.head == nil {
		l.tail = p
	} else {
		l.head.prev = p
	}
	l.head = p
}

func (l *line) remove(p *place) {
	if p.prev == nil {
		l.head = p.next
	} else {
		p.prev.next = p.next
	}
	if p.next == nil {
		l.tail = p.prev
	} else {
		p.next.prev = p.prev
	}
	p.next, p.prev, p.gone = nil, nil, true
}
