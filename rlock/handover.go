package rlock

import (
	"context"
	"time"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/queue"
	"github.com/rlock-go/toolkit/rlock/internal/reaper"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// request tells the holder that hands the lock over what a waiting acquisition wants.
type request struct {
	ttl     time.Duration
	owner   string // what its token is to say about it
	extends bool   // it extends the lease anyway
	shares  bool   // it may have the token of the holder before it
	fenced  bool   // it has a fence
}

// grant is a lock on its way from one holder to the next.
type grant struct {
	token      string
	fence      uint64
	deadline   clock.Instant // of the lease
	unanswered int32         // hand-overs to this token whose outcome is unknown
}

type (
	queueTicket = queue.Ticket[request, grant, *holder]
	offer       = queue.Offer[request, grant, *holder]
)

// request returns what the lock was acquired as.
func (l *Lock) request() request {
	return request{ttl: l.lease.TTL(), owner: l.owner(), extends: l.extends, shares: l.shares, fenced: l.fenced}
}

// holder is a lock as the queue knows it.
type holder Lock

// Deadline is when the lease ends.
func (h *holder) Deadline() clock.Instant { return h.lease.Deadline() }

// Over reports whether the lock has ended in another way than by Release. Release calls the
// next itself.
func (h *holder) Over() bool {
	now := (*Lock)(h).stateNow()
	return now > stateReleased || now == stateHeld && h.Deadline() <= clock.Now()
}

// holder returns the lock of this Locker that holds the key, as far as this process knows.
func (l *Locker) holder(key string) *Lock { return (*Lock)(l.queue.Holder(key)) }

// handing is a lock that has been given up and is to have a next holder.
type handing struct {
	lock *Lock   // whose Release it is
	has  grant   // what the key has now
	as   request // of the acquisition that has.token was made for
}

// handOver passes the lock, which Release has just ended, to the next acquisition of this
// process that waits for it, so that the key is never free in between. It reports false if
// the caller must free the key instead, because nobody waits, other processes must have their
// turn, or the server did not agree. The key then has the token that handOver returns.
//
// If the next holder wants the same lease and enough of it is left, it goes on with that lease
// and its token, which costs no command. Otherwise one command gives the next holder a token
// and a lease of its own.
func (l *Lock) handOver(ctx context.Context) (token string, passed bool) {
	o, ok := l.ticket.Offer()
	if !ok {
		return l.lease.Token(), false
	}
	h := handing{l, grant{token: l.lease.Token()}, l.request()}
	for ok {
		g, agreed := h.offer(ctx, o)
		if !agreed {
			break
		}
		if o.Grant(g) {
			return "", true
		}
		h.has, h.as = g, o.Request // the next has left: the lock is for the one after it
		l.takeBackToken()
		o, ok = l.ticket.Offer()
	}
	return h.has.token, false
}

// offer returns what the next holder is to have. If it reports false, the offer has ended.
func (h *handing) offer(ctx context.Context, o offer) (g grant, ok bool) {
	if deadline, shared := h.share(o); shared {
		g = grant{token: h.has.token, fence: o.Fence, deadline: deadline}
	} else if g, ok = h.pass(ctx, o); !ok {
		return grant{}, false
	}
	if !o.Request.fenced {
		g.fence = 0
	}
	return g, true
}

// share reports whether the next holder can go on with the present lease and its token, and
// returns the deadline of that lease.
func (h *handing) share(o offer) (deadline clock.Instant, shared bool) {
	next := o.Request
	if !h.as.shares || !next.shares || h.as.owner != next.owner || h.as.ttl != next.ttl || next.fenced && o.Fence == 0 {
		return 0, false
	}
	l := h.lock
	if h.has.token != l.lease.Token() {
		return h.has.deadline, next.accepts(h.has.deadline)
	}
	if l.late > 0 {
		return 0, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	deadline = l.lease.Deadline()
	l.tokenMoved = !l.shown && l.lease.Certain() && l.lease.TTL() == next.ttl && next.accepts(deadline)
	return deadline, l.tokenMoved
}

// takeBackToken notes that the token is this lock's again, because the acquisition that was
// to have it has left.
func (l *Lock) takeBackToken() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokenMoved = false
}

// accepts reports whether a lease that ends at deadline has enough left: nearly all of the TTL
// that was asked for, or half of it if the next holder extends it anyway. A lease without an
// end is not handed over without a command, because its deadline does not tell when the
// server confirmed it last.
func (r request) accepts(deadline clock.Instant) bool {
	if r.ttl == NoExpiry {
		return false
	}
	missing := r.ttl / 2
	if !r.extends {
		missing = min(r.ttl/100, longestUnasked)
	}
	return deadline.After(missing) >= clock.LeaseEnd(clock.Now(), r.ttl)
}

// longestUnasked bounds how long ago the server may have confirmed a lease that nobody extends
// and that is handed over without a command. If the lock was lost since then, the next holder
// gets a lock that is lost.
const longestUnasked = 100 * time.Millisecond

// pass has the server give the key to the next holder. If it reports false, the offer has
// ended. If the outcome is then unknown, the next acquisition may have the key: it asks the
// server itself, with the same token, and the server confirms the lock.
func (h *handing) pass(ctx context.Context, o offer) (g grant, passed bool) {
	l, next := h.lock, o.Request
	g.token = newToken(next.owner)
	defer func() {
		if !passed && !o.Withdraw(g) { // also when user code has panicked
			l.locker.reap(l.key[:], g, next.ttl)
		}
	}()
	if ctx.Err() != nil || len(l.lease.Former()) > 0 {
		return grant{}, false // the release does the rest: it has its own time and knows all tokens
	}
	params := gen.HandOverParams{Lock: l.key[0], Token: h.has.token, Next: g.token, TTL: ttlParam(next.ttl), Fences: 1}
	if next.fenced {
		params.Counter = slot.FenceCounter(l.key[0])
	}
	if next.fenced && next.shares {
		params.Fences = int64(o.Reserve)
	}
	sent := clock.Now()
	g.unanswered++ // until there is an answer
	r, err := l.locker.scripts.HandOver(ctx, l.locker.client, params)
	if remote.OutcomeOf(err) == remote.Indeterminate {
		l.unsure = true
	} else {
		g.unanswered--
		l.locker.lastTrip.Store(int64(clock.Now() - sent))
	}
	if err != nil || !r.HandedOver {
		return g, false
	}
	o.Reserved(uint64(r.Fence), int(r.Fences))
	g.fence, g.deadline = uint64(r.Fence), clock.LeaseEnd(sent, next.ttl)
	return g, true
}

// reap frees in the background what a hand-over without an answer may have left.
func (l *Locker) reap(keys []string, g grant, ttl time.Duration) {
	if g.unanswered > 0 {
		l.reaper.Add(reaper.Item{Keys: keys, Token: g.token, Unanswered: int(g.unanswered)}, ttl)
	}
}

// freeUnwanted frees the key after a hand-over to an acquisition that gave up waiting in that
// moment. The key then has token, which need not be the lock's.
func (l *Lock) freeUnwanted(ctx context.Context, token string) error {
	l.ticket.Leave()
	answered := false
	defer func() {
		if !answered { // user code has panicked
			l.locker.reaper.Add(reaper.Item{Keys: l.key[:], Token: token, Unanswered: 1}, NoExpiry)
		}
	}()
	err := l.locker.remote.ReleaseDetached(ctx, l.key[:], token)
	answered = err == nil || isHopeless(err)
	if err != nil {
		return &LockError{"release", l.key[0], err}
	}
	return nil
}
