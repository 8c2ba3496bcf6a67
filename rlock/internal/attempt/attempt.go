// Package attempt makes the attempts of one acquisition. It asks the server for the keys again and again,
// and waits in between. It waits with a place in the queue, or without one where that costs less or the
// place is refused. A set waits for one key after the other. A token that the caller has chosen cannot
// stand in the queue: another token stands there, and gives it the key.
//
// It does not know what becomes of the keys, when the policy gives up, or which other callers of this
// process wait.
package attempt

import (
	"context"
	"errors"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/collect"
	"github.com/rlock-go/toolkit/rlock/internal/line"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/internal/place"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Attempts are the attempts of one acquisition. Only one goroutine at a time may use them.
type Attempts struct {
	Settings
	Blocker Blocker // what the last look at the keys has seen
	Outage  wire.Outage

	collect *collect.Collector // of a waiting set
	place   *place.Place       // in the queue; nil: none
	until   clock.Instant      // when the pause of the policy is over
	early   bool               // the next try comes before until, although no message has woken the acquisition
	counted bool               // the policy called for the last try
	refusal place.Refusal      // when the server refused a place
}

// Settings of Attempts do not change.
type Settings struct {
	Server *wire.Server
	Grants *notify.Grants
	Line   line.Handle // reports to the line of this process
	Claim  *wire.Claim
	Terms  *terms.Terms // prepared with the TTL, and with the token if the caller has chosen one
	Want   line.Want
	Wait   bool          // wait until the keys are free
	Start  clock.Instant // of the acquisition
	Count  *int32        // the number of attempts, as the policy counts them
}

// Begin prepares Attempts in which only the Settings are set.
func Begin(a *Attempts) {
	a.until, a.Blocker.Key, a.Outage = a.Start, a.Claim.Key(), a.Server.Outage(a.Line.Silence())
}

// Blocker is the key that stands in the way of an acquisition, and what is known of its holder.
type Blocker struct {
	Key  string
	Left time.Duration // of the holder's lease; 0: not known
	At   clock.Instant // when Left was learnt
	Held bool          // the key was held at the last look
}

// Remaining returns how much of the holder's lease should be left now.
func (b *Blocker) Remaining() time.Duration {
	if b.Left == clock.NoExpiry {
		return clock.NoExpiry
	}
	return max(b.Left-time.Duration(clock.Now()-b.At), 0)
}

// Sees notes a holder whose lease ends at end.
func (b *Blocker) Sees(end clock.Instant) {
	b.Left, b.At, b.Held = max(end.Until(), 0), clock.Now(), true
}

// Grant is what the server has granted to the acquisition.
type Grant struct {
	Deadline clock.Instant // of the lease; it may have passed
	Fence    uint64
}

// Setback says why an attempt has not got the keys.
type Setback struct {
	Kind Kind
	Err  error // with Ended, why the context has ended; with Failed, the error of the server or the client
}

// Kind is the kind of a Setback.
type Kind uint8

const (
	None      Kind = iota // the keys are granted
	Busy                  // another caller holds a key, or waits for it
	Transient             // the server did not answer, or cannot serve yet
	Ended                 // the context of the caller has ended
	Failed                // the server or the client has refused the attempt, or its outcome is unknown
)

// Passes reports whether another attempt may get the keys.
func (s Setback) Passes() bool { return s.Kind == Busy || s.Kind == Transient }

func ended(ctx context.Context, err error) Setback {
	return Setback{Ended, clock.ContextError(ctx, err)}
}

// FailedCall returns the Setback of an attempt whose call got an error.
func FailedCall(ctx context.Context, err error) Setback {
	if wire.OutcomeOf(err) == wire.Indeterminate && ctx.Err() != nil {
		return ended(ctx, err)
	}
	return Setback{Failed, err}
}

// IsWholeKey reports whether the acquisition is about one whole key, and the caller did not choose the
// token.
func (a *Attempts) IsWholeKey() bool {
	return !a.Claim.IsSet() && !a.Claim.Chosen() && !a.Claim.IsShare()
}

// Try asks the server for the keys. Package wire repeats a command that gets no answer. If the policy has
// called for a Try, the Try counts as one attempt, however many calls it makes. Otherwise it does not count.
func (a *Attempts) Try(ctx context.Context) (Grant, Setback) {
	if ctx.Err() != nil {
		return Grant{}, ended(ctx, nil)
	}
	stands := a.enter()
	if a.counted = !a.early; stands {
		a.counted = clock.Now() >= a.until // otherwise it is a heartbeat, or takes a grant
	}
	if a.counted {
		*a.Count++
	}
	a.Outage.Ask()
	if stands {
		return a.ask(ctx)
	}
	return a.tryAlone(ctx)
}

// tryAlone makes one attempt without a place in the queue. It does not overtake the waiters in the queue. If
// a set
// begins to take its keys in order, tryAlone makes another attempt, because some keys may be free. If a set
// has lost a key, tryAlone takes the keys again.
func (a *Attempts) tryAlone(ctx context.Context) (Grant, Setback) {
	g, why := a.tryOnce(ctx)
	switch {
	case why.Kind != Busy || !a.collects():
	case a.collect.Keys() != nil:
		if a.collect.Lost(a.Blocker.Key) {
			return again(ctx, a)
		}
	case a.meets(ctx, a.Blocker.Key):
		return a.tryOnce(ctx)
	}
	return g, why
}

// collects reports whether the acquisition is for a set that waits for one key after the other.
func (a *Attempts) collects() bool { return a.Wait && a.Claim.IsSet() && !a.Claim.Chosen() }

// meets notes that a key is in the way of a set. If the set has got another key in the queue of that other
// key, it gives the other key back. meets reports whether the set takes its keys in order from now on.
func (a *Attempts) meets(ctx context.Context, key string) (begun bool) {
	if a.collect == nil {
		a.collect = collect.New(a.Server, a.Claim, a.Terms.TTL())
	}
	// the set gives back what this token may have before it takes another token
	if a.collect.Has() || !a.Claim.Settled() {
		a.giveBack(ctx)
	}
	begun = a.collect.Meets(key)
	if begun && a.Claim.SpansSlots() { // the keys of the former token were given back
		a.replaceToken(a.Claim.NewToken(a.Want.Owner))
	}
	return begun
}

// giveBack makes a set give back what it has, and go on with another token.
func (a *Attempts) giveBack(ctx context.Context) {
	a.collect.GiveBack(ctx, a.Terms.Token())
	a.replaceToken(a.Claim.NewToken(a.Want.Owner))
}

func (a *Attempts) tryOnce(ctx context.Context) (Grant, Setback) {
	request := a.Request()
	unsure := a.collect.Asks() // before the call: if user code ends the call, the set may have keys
	answer, err := a.Server.Acquire(ctx, a.Claim, request)
	if err == nil && !answer.Acquired {
		a.collect.Blocked(unsure, answer.Kept)
	}
	if a.Outage.Record(err) && a.Wait {
		return Grant{}, a.transient(ctx, err)
	}
	return a.Take(ctx, answer, err)
}

// again makes a set that takes its keys in order give back what it has, and take them again with another
// token. The set keeps the score with which it stands in queues.
func again(ctx context.Context, a *Attempts) (Grant, Setback) {
	a.leavePlace()
	a.giveBack(ctx)
	return a.tryOnce(ctx)
}

// replaceToken gives the acquisition another token. With "" the next Request makes one. The acquisition has
// given up what the former token may have.
func (a *Attempts) replaceToken(token string) {
	a.Grants.Over(a.Terms.Token())
	a.Terms.SetToken(token)
}

// transient returns the Setback of an attempt that the server has not answered, or cannot serve yet.
func (a *Attempts) transient(ctx context.Context, err error) Setback {
	if ctx.Err() != nil {
		return ended(ctx, nil)
	}
	if !errors.Is(err, context.DeadlineExceeded) { // the client may notice the end of ctx before ctx says so
		a.Blocker.Left = 0 // not known any more
	}
	return Setback{Kind: Transient}
}

// Request returns what to ask the server for. It makes a token, unless an earlier attempt or a hand-over
// has given one.
func (a *Attempts) Request() wire.Request {
	if a.Terms.Token() == "" || a.Claim.SpansSlots() && a.collect.Keys() == nil && !a.collect.Has() {
		a.Terms.SetToken(a.Claim.NewToken(a.Want.Owner))
	}
	return wire.Request{
		Token: a.Terms.Token(), TTL: a.Terms.TTL(), Fenced: a.Want.Fenced,
		Keep: a.collect.Keys(), Patience: patience(a),
	}
}

// patience returns for how long a call may wait for its answer. 0 means that only the client and the
// context limit it. A waiting set must not keep keys at some nodes of a cluster for as long as another node
// is silent.
func patience(a *Attempts) time.Duration {
	if !a.Wait || !a.Claim.SpansSlots() {
		return 0
	}
	return collect.Patience
}

// Take returns what the answer to a Request means for the acquisition.
func (a *Attempts) Take(ctx context.Context, answer wire.Answer, err error) (Grant, Setback) {
	switch {
	case err != nil:
		return Grant{}, FailedCall(ctx, err)
	case !answer.Acquired:
		a.blocked(answer)
		return Grant{}, Setback{Kind: Busy}
	}
	if a.place != nil {
		if why := a.dropPlace(ctx); why.Kind != None {
			return Grant{}, why
		}
	}
	return Grant{clock.LeaseEnd(answer.Sent, a.Terms.TTL()), answer.Fence}, Setback{}
}

func (a *Attempts) blocked(answer wire.Answer) {
	now := clock.Now()
	a.Blocker = Blocker{answer.Held, answer.Left, now, true}
	a.Line.Told(answer.Left, now)
}

// AsksPolicy reports whether the policy decides about the next pause. The policy does not decide after a
// heartbeat, or after another call that does not count as an attempt. Then the pause of the policy goes on.
func (a *Attempts) AsksPolicy() bool { return a.counted }

// beginAnew makes a set give back the keys that it has, or may have. Then the set again waits for one key
// after the other.
func (a *Attempts) beginAnew(ctx context.Context) {
	if a.collect.BeginAnew(ctx, a.Terms.Token()) {
		a.leavePlace()
		a.replaceToken("")
	}
}

// MayHaveTaken notes that the keys may have the acquisition's token, so that GiveUp frees them.
func (a *Attempts) MayHaveTaken() {
	if token := a.Terms.Token(); token != "" {
		a.Claim.Unsettle(token)
	}
}

// GiveUp ends an acquisition that has failed. It gives up the place in the queue. It makes the reaper free
// what commands without an answer may have taken.
func (a *Attempts) GiveUp() {
	if a.collect.Has() {
		a.MayHaveTaken()
	}
	a.leavePlace()
	if !a.Claim.Settled() {
		a.Server.Abandon(a.Claim, a.Terms.Tokens(), a.Terms.TTL())
	}
	if !a.Claim.Chosen() { // a chosen token may belong to another lock, for which it has waited too
		a.Grants.Over(a.Terms.Token())
	}
}

// Interrupted notes that user code has ended an attempt, so a command may be under way. If a set has a place,
// the command under way may be one of the place or one of the set itself. The Collector knows which of these
// it may be.
func (a *Attempts) Interrupted() {
	if a.place != nil {
		a.place.Interrupted()
	} else {
		a.MayHaveTaken()
	}
}
