package attempt

import (
	"context"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/internal/place"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// An acquisition waits in the queue with a place.Place. It has a place in three cases: its line makes it
// ask the server, it is for a set, or the caller has chosen its token.

// mayStand reports whether the acquisition may wait in the queue. A set waits in the queue of the key in
// its way.
func (a *Attempts) mayStand() bool {
	return wantsPlace(a) && !a.refusal.Lasts() && a.Server.Queues().Used()
}

// wantsPlace reports whether the acquisition wants a place in the queue: see mayStand.
func wantsPlace(a *Attempts) bool {
	return a.Wait && (!a.Claim.IsSet() || a.collect != nil)
}

// enter reports whether the acquisition has a place in the queue. It begins a place if the acquisition
// should start with one. Otherwise the acquisition first tries without a place, which costs less. It does
// so in three cases:
//   - The key is probably free.
//   - This process has not subscribed to grants yet.
//   - An earlier try or a hand-over has left a token that the key may have.
//
// A set always tries first, and so learns where to stand. If it stood for a key without having the keys
// before it, it would get its keys out of order.
func (a *Attempts) enter() bool {
	if a.place == nil && a.Terms.Token() == "" && a.mayStand() && !a.Claim.IsSet() &&
		(a.Claim.IsShare() || a.Line.Wanted()) && a.Grants.Channel(a.Blocker.Key).Listening() {
		a.stand(false)
	}
	return a.place != nil
}

// subscribe begins a place in the queue after a try. If this process cannot hear of grants, the place looks
// for them itself.
func (a *Attempts) subscribe(caller context.Context, w *notify.Wait) error {
	w.Leave() // the next waiter for the former key hears of changes meanwhile
	ctx, cancel := clock.Within(caller, max(min(a.until.Until(), longestListen), 1))
	defer cancel()
	err := a.Grants.Channel(a.Blocker.Key).Listen(ctx)
	if caller.Err() != nil {
		return clock.ContextError(caller, nil)
	}
	a.stand(err != nil)
	return nil
}

// longestListen is how long an acquisition waits for the subscription before it takes a place. From then on
// the place looks for the grant itself, until the process listens. The client may have no connection left,
// and dial for seconds. Meanwhile other processes would get in front of the acquisition.
const longestListen = notify.LongestPoll

// stand begins a place. With silent, the server sends no message of a grant.
func (a *Attempts) stand(silent bool) {
	token, want, claim := a.Terms.Token(), a.placeWant(), a.Claim
	want.Silent = silent
	if a.IsWholeKey() || claim.IsShare() {
		if token != "" && !claim.Settled() {
			a.Server.Queues().Discard(claim, token)
			a.replaceToken("") // the reaper would free what a later attempt takes with this token
		}
		want.Since = a.Line.Score()
	} else {
		one := wire.One(a.Blocker.Key)
		claim = &one
		if a.Claim.IsSet() {
			want.Since = a.collect.Score(a.Blocker.Key)
		}
		if a.collect.Keys() != nil {
			want.Token = token // the token has the keys before this one
		}
	}
	a.place = place.New(a.Server, a.Grants, claim, want)
}

func (a *Attempts) placeWant() place.Want {
	return place.Want{TTL: a.Want.TTL, Fenced: a.Want.Fenced, Extends: a.Want.Extends, Owner: a.Want.Owner}
}

func (a *Attempts) leavePlace() {
	if a.place != nil {
		a.Line.LeaveScore(a.place.Score())
		a.place.Leave()
		a.place = nil
	}
}

// dropPlace ends the place of an acquisition that has got its keys without the place. The place of a set
// has the token of the set, which has the key now. To give that place up would release the key.
//
// The set goes on waiting until the server has confirmed that the place is gone. The server may have
// granted the place too, and the message would look like a stray grant.
func (a *Attempts) dropPlace(ctx context.Context) Setback {
	if !a.Claim.IsSet() {
		a.leavePlace()
		return Setback{}
	}
	patient, cancel := clock.Within(ctx, patience(a))
	defer cancel()
	confirmed, err := a.place.Confirm(patient)
	switch {
	case a.Outage.Record(err):
		return a.transient(ctx, err)
	case err != nil:
		return FailedCall(ctx, err)
	case !confirmed:
		return Setback{Kind: Busy}
	}
	a.place.GoesOn(a.Claim)
	a.place = nil
	return Setback{}
}

// ask makes one attempt with the place. The place sends what it must ask the server now.
func (a *Attempts) ask(ctx context.Context) (Grant, Setback) {
	p := a.place
	beating := p.Beating()
	patient, cancel := clock.Within(ctx, patience(a))
	defer cancel()
	held, blocked, err := p.Ask(patient)
	switch {
	case a.Outage.Record(err):
		return Grant{}, a.transient(ctx, err)
	case wire.OutcomeOf(err) == wire.Refused && !a.Server.Queues().Insists(err):
		return a.standBack(ctx, err)
	case err != nil:
		return Grant{}, FailedCall(ctx, err)
	}
	if blocked.Held != "" {
		a.blocked(blocked)
		if a.Claim.IsSet() {
			a.collect.Joined(p.Key(), p.Score())
		}
	}
	switch {
	case a.collect.Keys() != nil && (held || p.Token() != a.Terms.Token()):
		return a.collected(ctx, held)
	case held && a.Claim.IsSet():
		a.replaceToken(p.Token())
		return a.tookOne(ctx)
	case held && a.Claim.Chosen():
		return a.choose(ctx)
	case held:
		p.Taken()
		a.place = nil
		a.Terms.SetToken(p.Token())
		deadline, fence := p.Granted()
		return Grant{deadline, fence}, Setback{}
	case beating && (a.Claim.Chosen() || a.collect.Keys() != nil):
		seen := a.Blocker
		// A try renews what a set has collected, and finds a chosen token that has the key.
		g, why := a.tryAlone(ctx)
		if why.Kind == Busy && a.place == p && a.Blocker.Key == p.Key() && a.Blocker.Left == 0 {
			a.Blocker = seen // only the place was told for how long the key stays free for barging
		}
		return g, why
	}
	return Grant{}, Setback{Kind: Busy}
}

// standBack makes the acquisition go on without a place for a while, because the server has refused the
// place. The user lacks a right, or the server has no memory for the queue. If the server refuses a try
// too, the acquisition fails with that error.
func (a *Attempts) standBack(ctx context.Context, refusal error) (Grant, Setback) {
	a.leavePlace()   // the refused script may have joined before
	a.beginAnew(ctx) // the place had the token of the keys, which the reaper now releases
	a.refusal.Note()
	g, why := a.tryAlone(ctx)
	if why.Kind == None || why.Kind == Busy {
		a.Server.Queues().Refuse(refusal)
	}
	return g, why
}

// collected goes on after the end of the place of a set that takes its keys in order. If the server granted
// the key, the set has one more key. If the server lost the place, the set takes its keys again, because a
// token enters a queue only once. Another token may then have got the key.
func (a *Attempts) collected(ctx context.Context, granted bool) (Grant, Setback) {
	if granted && a.place.Token() == a.Terms.Token() {
		return a.tookOne(ctx)
	}
	if granted {
		a.place.Abandon()
		a.place = nil
	}
	return again(ctx, a)
}

// tookOne goes on with a key that a set has got in the queue of that key, for its token. It tries the other
// keys.
func (a *Attempts) tookOne(ctx context.Context) (Grant, Setback) {
	a.collect.Got(a.place.Key())
	a.place.GoesOn(a.Claim)
	a.place.Taken()
	a.place = nil
	return a.tryAlone(ctx)
}

// choose gives the key to the token that the caller has chosen. Another token has stood in the queue for
// it, and has got the key. A token enters a queue only once, and a chosen token may come again.
func (a *Attempts) choose(ctx context.Context) (Grant, Setback) {
	p := a.place
	a.place = nil
	over := false
	defer func() {
		if over {
			p.HandedOver()
		} else { // also if user code has panicked
			p.Abandon()
		}
	}()
	claim := wire.One(a.Claim.Key())
	r := wire.Request{Token: a.Terms.Token(), TTL: a.Terms.TTL(), Fenced: a.Want.Fenced}
	handed, err := a.Server.HandOver(ctx, &claim, p.Token(), r, 1)
	over = handed.Over
	switch {
	case over:
		return Grant{clock.LeaseEnd(handed.Sent, r.TTL), handed.Fence}, Setback{}
	case a.Outage.Record(err):
		return Grant{}, a.transient(ctx, err)
	case err != nil:
		return Grant{}, FailedCall(ctx, err)
	}
	return Grant{}, Setback{Kind: Busy} // another caller has the key again
}
