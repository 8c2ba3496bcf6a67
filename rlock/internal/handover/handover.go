// Package handover gives a lock that its holder has given up to whoever is next for it: to the next
// caller of this process that waits or, when the turn of this process is over, to the process that
// waits first. So the key is never free in between.
//
// It does not know who holds the lock or waits for it, how they wait, or what a holder does when it
// gives the lock up. It knows their tickets in the queue of this process, and what they want.
package handover

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/internal/place"
	"github.com/rlock-go/toolkit/rlock/internal/queue"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
)

// Request is what an acquisition wants of the lock.
type Request struct {
	TTL       time.Duration
	Owner     string // what its token is to say about it
	Extends   bool   // it extends the lease anyway
	Inherits  bool   // it may have the token of the holder before it
	Fenced    bool   // it has a fence
	FullLease bool   // its lease must begin anew, with the whole TTL
}

// Place is the Request as a place in the queue of the server has it.
func (r Request) Place() place.Want {
	return place.Want{TTL: r.TTL, Fenced: r.Fenced, Extends: r.Extends, Owner: r.Owner}
}

// Grant is a lock on its way from one holder to the next.
type Grant struct {
	Lease      any // that the next goes on with; nil: it has what Token says
	Token      string
	Fence      uint64
	Deadline   clock.Instant // of the lease
	Unanswered int           // hand-overs to this token whose outcome is unknown
	Place      *place.Place  // in the queue of the server, in place of a lock; nil: none
	Yield      time.Duration // how long to let others go first, in place of a lock
	Forced     uint64        // that of the Handover
}

// Lender is the lock of the holder that gives it up.
type Lender interface {
	// Lend gives the next holder the lease with its token, if nobody else can have the token and the
	// Request fits the lease. It returns the deadline of the lease.
	Lend(next Request, now clock.Instant) (deadline clock.Instant, lent bool)
	// TakeBack undoes a Lend, because the acquisition that was to have the lease has left.
	TakeBack()
	// Lent returns the lease that Lend has given.
	Lent() any
}

// Handover gives one lock that was given up to the next holder. Only its release uses it.
type Handover[H queue.Holder] struct {
	Server     *remote.Server
	Grants     *notify.Grants
	Background context.Context // of what is asked meanwhile
	From       Lender
	Ticket     *queue.Ticket[Request, Grant, H]
	Claim      *remote.Claim
	Terms      *terms.Terms
	As         Request       // of the acquisition for which the token was made
	Now        clock.Instant // a recent reading of the clock
	Forced     uint64        // how often force had been used when the holder gave the lock up

	Has   Grant // what the key has now: at first the token of the lock
	Freed bool  // the key was passed on to another process
}

// Give passes the lock to the next acquisition of this process that waits for it. If the turn of this
// process is over, it passes the lock to another process instead. It reports false if the caller must
// release the key, because nobody of this process waits, or the server did not agree: the key has
// Has.Token then.
//
// If the next holder wants the same lease and enough of it is left, it goes on with that lease
// and its token, which costs no command. Otherwise one command gives the next holder a token
// and a lease of its own.
//
// Once in a turn's time the server is asked whether another process waits. Those who wait here do not
// wait for the answer, unless their hand-over needs a command all the same.
func (h *Handover[H]) Give(ctx context.Context) (passed bool) {
	for {
		o, ok := h.Ticket.Offer(!h.Server.Queues().Usable(h.Claim.Key()), h.Now)
		if !ok {
			return false
		}
		g, agreed := h.offer(ctx, &o)
		if agreed && g.Token != h.Has.Token || h.Freed {
			h.over()
		}
		if !agreed {
			return h.Freed
		}
		g.Forced = h.Forced
		if o.Grant(g) {
			h.abandonLate()
			return true
		}
		h.Has, h.As, h.Now = g, o.Request, clock.Now() // the next has left: the lock is for the one after it
		h.From.TakeBack()
	}
}

// over notes that the key has another token now than it had. One that the caller of the lock has chosen may
// have waited with another lock, and is that one's.
func (h *Handover[H]) over() {
	if !h.Claim.Chosen() || h.Has.Token != h.Terms.Token() {
		h.Grants.Over(h.Has.Token)
	}
}

// offer returns what the next holder is to have. If it reports false, the offer has ended.
func (h *Handover[H]) offer(ctx context.Context, o *queue.Offer[Request, Grant, H]) (g Grant, ok bool) {
	if o.Over {
		if g, ok = h.passOn(ctx, o); !ok {
			return Grant{}, false
		}
	} else if deadline, shared := h.inherit(o); shared {
		if o.Ask {
			h.askMeanwhile(o)
		}
		g = Grant{Token: h.Has.Token, Fence: o.Fence, Deadline: deadline}
		if h.Has.Token == h.Terms.Token() {
			g.Lease = h.From.Lent()
		}
	} else if g, ok = h.pass(ctx, o); !ok {
		return Grant{}, false
	}
	if !o.Request.Fenced {
		g.Fence = 0
	}
	return g, true
}

// inherit reports whether the next holder can have the present token and what is left of its lease,
// and returns the deadline of that lease.
func (h *Handover[H]) inherit(o *queue.Offer[Request, Grant, H]) (deadline clock.Instant, shared bool) {
	next := o.Request
	switch {
	case o.Itself || next.FullLease || !h.As.Inherits || !next.Inherits || h.As.Owner != next.Owner || h.As.TTL != next.TTL || next.Fenced && o.Fence == 0:
		return 0, false
	case h.Has.Token != h.Terms.Token():
		return h.Has.Deadline, next.accepts(h.Has.Deadline, h.Now)
	case h.Claim.Possible() > 0:
		return 0, false
	}
	return h.From.Lend(next, h.Now)
}

// Fits reports whether a lease is one that a holder with this Request can go on with.
func (r Request) Fits(l *terms.Terms, now clock.Instant) bool {
	return l.Certain() && l.TTL() == r.TTL && r.accepts(l.Deadline(), now)
}

// accepts reports whether a lease that ends at deadline has enough left: nearly all of the TTL
// that was asked for, or half of it if the next holder extends it anyway. A lease without an
// end is not handed over without a command, because its deadline does not tell when the
// server confirmed it last.
func (r Request) accepts(deadline, now clock.Instant) bool {
	if r.TTL == clock.NoExpiry {
		return false
	}
	missing := r.TTL / 2
	if !r.Extends {
		missing = min(r.TTL/100, longestUnasked)
	}
	return deadline.After(missing) >= clock.LeaseEnd(now, r.TTL)
}

// longestUnasked bounds how long ago the server may have confirmed a lease that nobody extends
// and that is handed over without a command. If the lock was lost since then, the next holder
// gets a lock that is lost.
const longestUnasked = 100 * time.Millisecond

// askMeanwhile asks the server whether another process waits, and reserves fences, while the holders hand
// the lock over. If the key has another token by then, the next hand-over learns it from the server.
func (h *Handover[H]) askMeanwhile(o *queue.Offer[Request, Grant, H]) {
	q := o.AskMeanwhile(h.Now, min(2*h.Server.RoundTrip(), longestUnasked))
	server, ctx, key, token, fenced := h.Server, h.Background, h.Claim.Key(), h.Has.Token, o.Request.Fenced
	go func() {
		defer func() {
			_ = recover() // the client's hooks may panic: they do so again in the next hand-over, whose caller it concerns
			q.Unanswered()
		}()
		if said, err := remote.Ask(ctx, server, key, token, fenced, q.Reserve); err == nil && said.Over {
			q.Answered(said.Fence, said.Reserved, said.Waits)
		}
	}()
}

// pass has the server give the key to the next holder. If it reports false, the offer has
// ended. If the outcome is then unknown, the next acquisition may have the key: it asks the
// server itself, with the same token, and the server confirms the lock.
func (h *Handover[H]) pass(ctx context.Context, o *queue.Offer[Request, Grant, H]) (g Grant, passed bool) {
	next := o.Request
	g.Token = remote.NewToken(next.Owner)
	defer func() {
		if !passed && !o.Withdraw(g) { // also when user code has panicked
			unwanted := remote.One(h.Claim.Key())
			unwanted.AddPossible(g.Token, g.Unanswered)
			h.Server.Abandon(&unwanted, nil, next.TTL, 0)
		}
	}()
	if ctx.Err() != nil || len(h.Terms.Former()) > 0 {
		return Grant{}, false // the release does the rest: it has its own time and knows all tokens
	}
	fences := 1
	if next.Fenced && next.Inherits {
		fences = o.Reserve
	}
	g.Unanswered = 1 // until there is an answer
	handed, err := h.Server.HandOver(ctx, h.Claim, h.Has.Token, remote.Request{Token: g.Token, TTL: next.TTL, Fenced: next.Fenced}, fences)
	if remote.OutcomeOf(err) != remote.Indeterminate {
		g.Unanswered = 0
	}
	if !handed.Over {
		return g, false
	}
	o.Answered(handed.Fence, handed.Reserved, handed.Waits)
	g.Fence, g.Deadline = handed.Fence, clock.LeaseEnd(handed.Sent, next.TTL)
	return g, true
}

// passOn ends the turn of this process. The process that waits first gets the key, and the next
// acquisition of this process a place behind all others. If nobody waits any more, passOn reports
// true: the next acquisition is to have the lock. Otherwise the offer has ended.
//
// A process that has always got its keys at once is not told of grants yet. It begins to listen now.
func (h *Handover[H]) passOn(ctx context.Context, o *queue.Offer[Request, Grant, H]) (g Grant, granted bool) {
	claim, want := remote.One(h.Claim.Key()), o.Request.Place()
	may := ctx.Err() == nil && len(h.Terms.Former()) == 0 && h.Claim.Possible() == 0 &&
		h.Server.Queues().Usable(h.Claim.Key())
	want.Silent = may && !h.Grants.Channel(h.Claim.Key()).Begin()
	p := place.New(h.Server, h.Grants, &claim, want)
	defer func() { // also when user code has panicked
		switch {
		case granted:
			o.Passed()
			p.Taken()
		case !h.Freed: // the release does it, and the next acquisition asks for a place itself
			o.Withdraw(Grant{Yield: h.yield(o.Met)})
		case !o.Withdraw(Grant{Place: p}): // the next has left: the one after it joins with its score
			h.Ticket.LeaveScore(p.Score())
			p.Leave()
		}
	}()
	if !may {
		return Grant{}, false
	}
	freed, granted, err := p.PassOn(ctx, h.Claim, h.Has.Token)
	if err != nil || !granted {
		h.Freed = freed
		return Grant{}, false
	}
	deadline, fence := p.Granted()
	return Grant{Token: p.Token(), Fence: fence, Deadline: deadline}, true
}

// yield is how long the next caller of this process lets other processes go first after a turn, where the
// server keeps no queue. Without it, the process that frees a key would get it time and again. Others
// try within a round trip of the release if they are told of it. One that was seen with the key may
// first have to wait for up to 4 ms, because it pauses after a push that said nothing new.
func (h *Handover[H]) yield(met bool) time.Duration {
	if h.Server.Queues().Usable(h.Claim.Key()) {
		return 0
	}
	longest := 2*h.Server.RoundTrip() + time.Millisecond/4
	if met {
		longest += 5 * time.Millisecond
	}
	longest = min(longest, 50*time.Millisecond) // bounds what a slow network costs where nobody else wants the key
	return longest*7/10 + rand.N(longest*3/10)
}

// FreeUnwanted frees the key after a Give to an acquisition that gave up waiting in that
// moment. The key then has a token that is not the lock's.
func (h *Handover[H]) FreeUnwanted(ctx context.Context) error {
	h.Ticket.Leave()
	unwanted := remote.One(h.Claim.Key())
	_, err := h.Server.Release(ctx, &unwanted, h.Has.Token, nil)
	h.abandonLate()
	return err
}

// abandonLate has the reaper free the key again if commands of the lock's acquisition got no
// answer. They may still arrive after the end of the next holder's lock, and take the key.
func (h *Handover[H]) abandonLate() {
	if h.Claim.Possible() > 0 {
		h.Server.Abandon(h.Claim, h.Terms.Tokens(), clock.NoExpiry, 1)
	}
}
