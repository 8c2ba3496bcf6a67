package rlock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/internal/place"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// An acquisition waits in the queue of the server with a place.Place. It belongs to the acquisition at
// the front of the queue of this process, to one of a set that collects its keys, or to one whose
// caller has chosen the token.

// wantPlace is the request as a place has it.
func (r request) wantPlace() place.Want {
	return place.Want{TTL: r.ttl, Fenced: r.fenced, Extends: r.extends, Owner: r.owner}
}

// mayStand reports whether the acquisition may wait in the queue of the server. A set does so while it
// collects its keys, in the queue of the first one that it does not have.
func (a *acquisition) mayStand() bool {
	return a.lock.want.wait && !a.refusal.Lasts() && (!a.lock.claim.IsSet() || a.collect.kept() != nil) && a.lock.locker.remote.Queues().Usable()
}

// enter begins a place in the queue of the server. It reports false if the acquisition must first
// try without one, which costs less: the key is probably free, nobody has subscribed to grants yet,
// or the key may have a token already that an earlier try or a hand-over has left.
func (a *acquisition) enter() bool {
	l := a.lock
	if a.place == nil && l.lease.Token() == "" && a.mayStand() && l.locker.grants.Listening() && (l.claim.IsSet() || l.ticket.Wanted()) {
		a.stand(false)
	}
	return a.place != nil
}

// subscribe begins a place in the queue of the server after a try. If this process cannot hear of
// grants, it looks for them itself.
func (a *acquisition) subscribe() error {
	ctx, cancel := context.WithTimeout(a.ctx, min(a.until.Until(), longestListen))
	defer cancel()
	err := a.lock.locker.grants.Listen(ctx)
	switch {
	case a.ctx.Err() != nil:
		return clock.ContextError(a.ctx, nil)
	case ctx.Err() == nil:
		a.stand(err != nil)
	}
	return nil
}

// longestListen is how long an acquisition waits for the subscription before it tries again
// without a place. The client may have no connection left, and dial for seconds.
const longestListen = notify.LongestPoll

// stand begins a place.
func (a *acquisition) stand(silent bool) {
	l := a.lock
	token, want, claim := l.lease.Token(), l.request().wantPlace(), &l.claim
	want.Silent = silent
	if a.mayQueue() {
		if token != "" && claim.Possible() > 0 {
			l.locker.remote.Queues().Discard(claim, token, want.TTL, false)
		}
		want.Since = l.ticket.Score()
	} else {
		one := remote.One(a.blocker.key)
		claim = &one
		if l.claim.IsSet() {
			want.Token = token
		}
	}
	a.place = place.New(l.locker.remote, l.locker.grants, claim, want)
}

// leavePlace gives the place up, if the acquisition has one.
func (a *acquisition) leavePlace() {
	if a.place != nil {
		a.lock.ticket.LeaveScore(a.place.Score())
		a.place.Leave()
		a.place = nil
	}
}

// dropPlace ends a place that the acquisition has not got its lock by. The token of a set has the key
// now, so the place must not be given up by a release.
func (a *acquisition) dropPlace() {
	if p := a.place; a.lock.claim.IsSet() {
		a.place = nil
		p.Confirm(a.ctx)
		return
	}
	a.leavePlace()
}

// ask has the place go on with what has happened, which sends what the server must be asked.
func (a *acquisition) ask() setback {
	l, p := a.lock, a.place
	if a.ctx.Err() != nil {
		return final(ErrGaveUp, clock.ContextError(a.ctx, nil))
	}
	if a.counted = clock.Now() >= a.until; a.counted { // otherwise the policy has not asked for it
		l.attempts++
	}
	beating := p.Beating()
	held, blocked, err := p.Ask(a.ctx)
	switch {
	case a.outage.Record(err):
		return a.transient(err)
	case remote.OutcomeOf(err) == remote.Refused:
		return a.standBack(err)
	case err != nil:
		return a.failedCall(err)
	}
	if blocked.Held != "" {
		a.blocked(blocked)
	}
	switch {
	case l.claim.IsSet() && (held || p.Token() != l.lease.Token()):
		return a.collected(held)
	case held && l.claim.Chosen():
		return a.choose()
	case held:
		p.Taken()
		a.place = nil
		l.lease.SetToken(p.Token())
		deadline, fence := p.Granted()
		return a.hold(deadline, fence)
	case beating && !a.mayQueue():
		return a.tryAlone() // which renews what a set has collected, and finds a chosen token that has the key
	}
	return setback{kind: setbackBusy, err: ErrHeld}
}

// standBack has the acquisition go on without a place for a while, because the server has refused it:
// the user lacks a right, or the server has no memory for the queue. If the server refuses a try
// too, the acquisition fails with that.
func (a *acquisition) standBack(refusal error) setback {
	a.leavePlace() // the script may have been refused after it had joined
	a.refusal.Note()
	why := a.tryAlone()
	if remote.Forbidden(refusal) && !remote.Forbidden(why.err) {
		a.lock.locker.remote.Queues().Refuse()
	}
	return why
}

// collected has a set go on that has got the key of its place. If its token has lost that place, the
// set begins anew, because a token enters a queue once.
func (a *acquisition) collected(granted bool) setback {
	if granted {
		a.place.Taken()
		a.place = nil
		return a.tryAlone()
	}
	a.leavePlace()
	a.collect.turning = clock.Now()
	return setback{kind: setbackBusy, err: ErrHeld}
}

// choose gives the key of the place, which a token of its own has got, the token that the caller has
// chosen: a token enters a queue once, and a chosen one may come again.
func (a *acquisition) choose() setback {
	l, p := a.lock, a.place
	a.place = nil
	claim := remote.One(l.claim.Key())
	r := remote.Request{Token: l.lease.Token(), TTL: l.lease.TTL(), Fenced: !l.set.unfenced}
	handed, err := l.locker.remote.HandOver(a.ctx, &claim, p.Token(), r, 1)
	if handed.Over {
		p.Taken()
		return a.hold(clock.LeaseEnd(handed.Sent, r.TTL), handed.Fence)
	}
	p.Abandon()
	switch {
	case a.outage.Record(err):
		return a.transient(err)
	case err != nil:
		return a.failedCall(err)
	}
	return setback{kind: setbackBusy, err: ErrHeld} // somebody else has the key again
}

// awaitGrant waits until something has happened to the place, or the next try is due.
func (a *acquisition) awaitGrant() error {
	crowded, err := a.place.Await(a.ctx, a.notice, a.blocker.remaining(), min(a.until, a.collect.end()))
	if crowded {
		a.lock.ticket.Crowded()
	}
	return err
}

// yield is how long the next caller of this process lets others go first after a turn, where the
// server keeps no queue. Without it, the process that frees a key would get it time and again.
// Others come within a round trip if they are told of the release; if they were seen to want the
// key, they may pause for up to 4 ms after a push that said nothing new.
func (l *Locker) yield(met bool) time.Duration {
	if l.remote.Queues().Usable() {
		return 0
	}
	longest := 2*l.remote.RoundTrip() + time.Millisecond/4
	if met {
		longest += 5 * time.Millisecond
	}
	longest = min(longest, 50*time.Millisecond) // bounds what a slow network costs where nobody else wants the key
	return longest*7/10 + rand.N(longest*3/10)
}

// passOn ends the turn of this process. The process that waits first gets the key, and the next
// acquisition of this process a place behind all others. If nobody waits any more, passOn reports
// true: the next acquisition is to have the lock. Otherwise the offer has ended.
func (h *handing) passOn(ctx context.Context, o offer) (g grant, granted bool) {
	l := h.lock
	claim, want := remote.One(l.claim.Key()), o.Request.wantPlace()
	want.Silent = !l.locker.grants.Listening()
	p := place.New(l.locker.remote, l.locker.grants, &claim, want)
	defer func() { // also when user code has panicked
		switch {
		case granted:
			o.Passed()
			p.Taken()
		case !h.freed: // the release does it, and the next acquisition asks for a place itself
			o.Withdraw(grant{yield: l.locker.yield(o.Met)})
		case !o.Withdraw(grant{place: p}): // the next has left
			p.Leave()
		}
	}()
	if ctx.Err() != nil || len(l.lease.Former()) > 0 || l.claim.Possible() > 0 || !l.locker.remote.Queues().Usable() {
		return grant{}, false
	}
	freed, granted, err := p.PassOn(ctx, &l.claim, h.has.token)
	if err != nil || !granted {
		h.freed = freed
		return grant{}, false
	}
	deadline, fence := p.Granted()
	return grant{token: p.Token(), fence: fence, deadline: deadline}, true
}
