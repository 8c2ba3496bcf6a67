package rlock

import (
	"context"
	"time"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// handOver passes the lock, which has just been given up, on to the next of this
// process that waits for it, so that the key is never free in between. It reports
// false if the key must be freed instead: nobody waits, other processes must have
// their turn, or the server did not agree.
//
// A holder leaves its lease to the next holder if it wants the same one, together with the token,
// if there is enough left of it: that costs no command. Otherwise the next holder gets a token and
// a lease of its own from the server, in one command.
//
// The next holder's Lock is completed here, by whoever releases, while the next holder may be
// giving up: from claim to call, nobody else touches it.
//
// It returns the lock in whose name the key must be freed: l, a next holder that gave up when it
// had the key already, or nil if there is nothing to be freed.
func (l *Lock) handOver(ctx context.Context) (last *Lock) {
	queues := l.locker.queues
	p, fence, more := queues.claim(l)
	if p == nil {
		return l
	}
	next := p.lock
	deadline, shared := l.inherited(next, fence)
	if shared {
		next.lease.SetToken(l.lease.Token())
	} else {
		passed := false
		func() {
			defer func() {
				if !passed { // also if user code has panicked
					queues.unclaim(l, p)
					if p.left && next.late > 0 {
						next.abandon(next.lease.TTL(), int(next.late))
					}
				}
			}()
			fence, deadline, passed = l.passOn(ctx, next, more)
		}()
		if !passed {
			return l
		}
	}
	queues.install(l, next)
	if !next.fenced {
		fence = 0
	}
	p.err = next.hold(deadline, fence)
	if queues.call(p) {
		return nil
	}
	next.mu.Lock()
	next.finish(released)
	next.mu.Unlock()
	done := false
	defer func() {
		if !done { // user code has panicked
			_ = next.freedBy(released, 0, errInterrupted)
		}
	}()
	last = next.handOver(ctx)
	done = true
	if last != next {
		next.clean()
	}
	return last
}

// inherited returns the deadline of a lease that the next holder can go on with as it is, with
// the token.
func (l *Lock) inherited(next *Lock, fence uint64) (deadline clock.Instant, shared bool) {
	if !l.shares || !next.shares || l.owner() != next.owner() || l.late > 0 || next.fenced && fence == 0 {
		return 0, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	deadline = l.lease.Deadline()
	l.tokenMoved = !l.shown && l.lease.Certain() && l.lease.TTL() == next.lease.TTL() && next.contentWith(deadline)
	return deadline, l.tokenMoved
}

// contentWith reports whether a lease that ends at deadline does for l: nearly all of
// what it asked for, or half of it if it is extended anyway. One without an end does not
// tell when the server has confirmed it last, and is not handed on unasked.
func (l *Lock) contentWith(deadline clock.Instant) bool {
	if l.lease.TTL() == NoExpiry {
		return false
	}
	missing := l.lease.TTL() / 2
	if !l.extends {
		missing = min(l.lease.TTL()/100, longestUnasked)
	}
	return deadline.After(missing) >= clock.LeaseEnd(clock.Now(), l.lease.TTL())
}

// longestUnasked bounds how old the server's word may be that a fixed lease is handed on
// by: what was lost since then is handed on too.
const longestUnasked = 100 * time.Millisecond

// passOn gives the key to the next holder on the server. If the outcome is unknown, it may
// have it; it then asks the server itself, with the same token, and is confirmed.
func (l *Lock) passOn(ctx context.Context, next *Lock, fences int) (fence uint64, deadline clock.Instant, passed bool) {
	next.lease.SetToken(next.mintToken())
	params := gen.HandOverParams{Lock: l.key[0], Token: l.lease.Token(), Next: next.lease.Token(), TTL: ttlParam(next.lease.TTL()), Fences: 1}
	if next.fenced {
		params.Counter = slot.FenceCounter(l.key[0])
	}
	if next.fenced && next.shares {
		params.Fences = int64(fences)
	}
	if ctx.Err() != nil || len(l.lease.Former()) > 0 {
		return 0, 0, false // what is left to do is for the release, which has its own time and knows all tokens
	}
	sent := clock.Now()
	next.late++ // until there is an answer
	r, err := l.locker.scripts.HandOver(ctx, l.locker.client, params)
	l.locker.lastTrip.Store(int64(clock.Now() - sent))
	if answerOf(err) == unknown {
		l.unsure = true
	} else {
		next.late--
	}
	if err != nil || !r.HandedOver {
		return 0, 0, false
	}
	l.locker.queues.reserve(l, uint64(r.Fence), int(r.Fences))
	return uint64(r.Fence), clock.LeaseEnd(sent, next.lease.TTL()), true
}

// claim takes the next in line out of it, to hand l over to, with a fence if one is
// reserved, and says how many to take from the server if that is asked. It returns
// nil if nobody is there or the turn is over.
func (q *queues) claim(l *Lock) (p *place, fence uint64, more int) {
	s := q.shard(l.key[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first[l.key[0]] != l || l.line == nil {
		return nil, 0, 0
	}
	p = l.line.head
	set := l.locker.defaults
	if p == nil || l.line.turn.over(set.turnMost, set.turnTime) {
		return nil, 0, 0
	}
	l.line.remove(p)
	p.claimed = true
	fence, more = l.line.turn.pass()
	return p, fence, more
}

// unclaim puts a claimed place back to the head of the line.
func (q *queues) unclaim(l *Lock, p *place) {
	s := q.shard(l.key[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	p.claimed = false
	if !p.left {
		l.line.prepend(p)
	}
}

// reserve notes fences that were taken, of which the first is in use.
func (q *queues) reserve(l *Lock, first uint64, fences int) {
	s := q.shard(l.key[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	l.line.turn.reserve(first, fences)
}

// install makes the next holder the first in l's place.
func (q *queues) install(l, next *Lock) {
	s := q.shard(l.key[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	next.line, l.line = l.line, nil
	next.queued = true
	s.first[l.key[0]] = next
}

// call tells a claimed place that the lock is its own. It reports false if nobody
// is there any more.
func (q *queues) call(p *place) bool {
	s := q.shard(p.lock.key[0])
	s.mu.Lock()
	defer s.mu.Unlock()
	p.claimed = false
	if p.left {
		return false
	}
	p.given = true
	close(p.called)
	return true
}
