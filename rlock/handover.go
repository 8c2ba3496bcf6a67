package rlock

import (
	"context"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/place"
	"github.com/rlock-go/toolkit/rlock/internal/queue"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
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
	unanswered int           // hand-overs to this token whose outcome is unknown
	place      *place.Place  // in the queue of the server, in place of a lock; nil: none
	yield      time.Duration // how long to let others go first, in place of a lock
}

type (
	queueTicket = queue.Ticket[request, grant, *holder]
	offer       = queue.Offer[request, grant, *holder]
)

// request returns what the lock was acquired as.
func (l *Lock) request() request {
	return request{ttl: l.lease.TTL(), owner: l.set.owner, extends: l.set.extends(l.want.do), shares: !l.set.uniqueToken, fenced: !l.set.unfenced}
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
	lock  *Lock   // whose Release it is
	has   grant   // what the key has now
	as    request // of the acquisition that has.token was made for
	freed bool    // the key was passed on to another process
}

// handOver passes the lock, which Release has just ended, to the next acquisition of this
// process that waits for it, so that the key is never free in between. If the turn of this
// process is over, it passes the lock to another process instead. It reports false if the
// caller must release the key, because nobody of this process waits, or the server did not agree.
//
// If the next holder wants the same lease and enough of it is left, it goes on with that lease
// and its token, which costs no command. Otherwise one command gives the next holder a token
// and a lease of its own.
func (h *handing) handOver(ctx context.Context) (passed bool) {
	for {
		o, ok := h.lock.ticket.Offer(!h.lock.locker.remote.Queues().Usable())
		if !ok {
			return false
		}
		g, agreed := h.offer(ctx, o)
		if !agreed {
			return h.freed
		}
		if o.Grant(g) {
			h.abandonLate()
			return true
		}
		h.has, h.as = g, o.Request // the next has left: the lock is for the one after it
		h.takeBackToken()
	}
}

// offer returns what the next holder is to have. If it reports false, the offer has ended.
func (h *handing) offer(ctx context.Context, o offer) (g grant, ok bool) {
	if o.Over {
		if g, ok = h.passOn(ctx, o); !ok {
			return grant{}, false
		}
	} else if deadline, shared := h.share(o); shared {
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
	if o.Ask || !h.as.shares || !next.shares || h.as.owner != next.owner || h.as.ttl != next.ttl || next.fenced && o.Fence == 0 {
		return 0, false
	}
	l := h.lock
	if h.has.token != l.lease.Token() {
		return h.has.deadline, next.accepts(h.has.deadline)
	}
	if l.claim.Possible() > 0 {
		return 0, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	deadline = l.lease.Deadline()
	if l.token == tokenShown || !l.lease.Certain() || l.lease.TTL() != next.ttl || !next.accepts(deadline) {
		return 0, false
	}
	l.token = tokenMoved
	return deadline, true
}

// takeBackToken notes that the token is this lock's again, because the acquisition that was
// to have it has left.
func (h *handing) takeBackToken() {
	h.lock.mu.Lock()
	defer h.lock.mu.Unlock()
	if h.lock.token == tokenMoved {
		h.lock.token = tokenPrivate
	}
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
	server := l.locker.remote
	g.token = remote.NewToken(next.owner)
	defer func() {
		if !passed && !o.Withdraw(g) { // also when user code has panicked
			unwanted := remote.One(l.claim.Key())
			unwanted.AddPossible(g.token, g.unanswered)
			server.Abandon(&unwanted, nil, next.ttl, 0)
		}
	}()
	if ctx.Err() != nil || len(l.lease.Former()) > 0 {
		return grant{}, false // the release does the rest: it has its own time and knows all tokens
	}
	fences := 1
	if next.fenced && next.shares {
		fences = o.Reserve
	}
	g.unanswered = 1 // until there is an answer
	handed, err := server.HandOver(ctx, &l.claim, h.has.token, remote.Request{Token: g.token, TTL: next.ttl, Fenced: next.fenced}, fences)
	if remote.OutcomeOf(err) != remote.Indeterminate {
		g.unanswered = 0
	}
	if !handed.Over {
		return g, false
	}
	o.Answered(handed.Fence, handed.Reserved, handed.Waits)
	g.fence, g.deadline = handed.Fence, clock.LeaseEnd(handed.Sent, next.ttl)
	return g, true
}

// freeUnwanted frees the key after a hand-over to an acquisition that gave up waiting in that
// moment. The key then has a token that is not the lock's.
func (h *handing) freeUnwanted(ctx context.Context) error {
	h.lock.ticket.Leave()
	unwanted := remote.One(h.lock.claim.Key())
	_, err := h.lock.locker.remote.Release(ctx, &unwanted, h.has.token, nil)
	h.abandonLate()
	return err
}

// abandonLate has the reaper free the key again if commands of the lock's acquisition got no
// answer. They may still arrive after the end of the next holder's lock, and take the key.
func (h *handing) abandonLate() {
	if l := h.lock; l.claim.Possible() > 0 {
		l.locker.remote.Abandon(&l.claim, l.lease.Tokens(), NoExpiry, 1)
	}
}
