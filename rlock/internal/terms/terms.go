// Package terms computes how long one lock is certainly held, and by which tokens. Meanwhile extensions of
// the lease may overlap, shorten it, be refused or get no answer. The package only computes. It asks no
// server and has no mutex. It does not know what the lock is, who waits for it or whether it has ended.
package terms

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Renewals is how many times a lease is extended before it ends. Two attempts may fail without a loss.
const Renewals = 3

// Terms are the terms of one lease. Any goroutine may call Deadline. Only one goroutine at a time may call
// the other methods. After the lock has ended, the caller reports every answer with Forget. Then only the
// number of extensions under way and Unsure change.
//
// As long as the token stays the same, the lease on the server only grows, because every script keeps the
// longer lease. So the order of commands does not matter, and a command may arrive twice or an hour late. A
// command that the server has confirmed gives at least the lease that it asked for.
//
// A command that shortens the lease also changes the token. Then commands with the former token have no
// effect on the server. A second copy of the shortening command finds the new token, so it can only make
// the lease longer.
type Terms struct {
	deadline atomic.Int64
	ttl      time.Duration
	token    string
	sent     uint32   // how many extensions were sent
	pending  int32    // how many of these are under way
	history  *history // nil: only one TTL was asked for with the token, and each extension had an answer
}

// history is apart, so that a lease that is only renewed stays small.
type history struct {
	longest    time.Duration // the longest TTL that was asked for with the token
	unsure     bool          // an extension has got no answer, and may still arrive after later ones
	generation *generation   // of the token; nil: it is the first token
}

// generation is a token that a Begin has made, and what is known of it.
type generation struct {
	number  int // how many tokens came before it
	sent    int // how many extensions were sent with the token
	changes int // how often the set of possible tokens of the keys has changed
	// the tokens that the keys may still have, because no command with the new one is confirmed
	former   []string
	ttl      time.Duration // of the Begin that made the token
	returned bool          // Returned was called since
}

// Extension is an extension that is under way.
type Extension struct {
	Sent   clock.Instant
	TTL    time.Duration
	Token  string   // the token that the keys get or keep
	Former []string // the tokens that they may have before

	renewal bool
	number  int     // number of the generation
	before  *before // nil: the extension shortens nothing
}

// before is the lease before an extension that shortens it. Refuse restores it.
type before struct {
	token      string
	longest    time.Duration
	generation generation
	deadline   clock.Instant
}

// Version changes when an extension is sent, and when an answer changes the possible tokens of the keys.
type Version struct {
	Sent    uint32 // how many extensions were sent
	changes int
}

// Prepare sets the TTL of a lease that has not begun, and its token if that is known.
func (t *Terms) Prepare(ttl time.Duration, token string) { t.ttl, t.token = ttl, token }

// SetToken sets the token of a lease that has not begun.
func (t *Terms) SetToken(token string) { t.token = token }

// Start begins the lease that the server has confirmed until deadline.
func (t *Terms) Start(deadline clock.Instant) { t.deadline.Store(int64(deadline)) }

// Resume begins the lease of a lock that was held before. longest is what the server says is left of it.
// That may be less or more than the TTL.
func (t *Terms) Resume(longest time.Duration, deadline clock.Instant) {
	t.history = &history{longest: longest}
	t.Start(deadline)
}

// Deadline returns when the lease must count as over. Any goroutine may call it.
func (t *Terms) Deadline() clock.Instant { return clock.Instant(t.deadline.Load()) }

// TTL returns what renewals ask for. It is the TTL of the acquisition, and later the TTL of the last Begin
// that the server has confirmed.
func (t *Terms) TTL() time.Duration { return t.ttl }

// SetTTL sets what renewals ask for from now on.
func (t *Terms) SetTTL(ttl time.Duration) {
	if ttl != t.ttl {
		t.needHistory()
	}
	t.ttl = ttl
}

// Longest returns the longest TTL that was asked for with the token. A shorter TTL needs a new token.
func (t *Terms) Longest() time.Duration {
	if t.history == nil {
		return t.ttl
	}
	return t.history.longest
}

// Token returns the token that the keys have, or get by the commands under way.
func (t *Terms) Token() string { return t.token }

// Former returns the tokens that the keys may still have. The server has not confirmed a command with the
// new token.
func (t *Terms) Former() []string { return t.history.latest().former }

// Tokens returns all tokens that the keys may have. The last one is Token. Release them in this order: a
// late command that changes one token to the next then finds nothing to change.
func (t *Terms) Tokens() []string { return append(slices.Clone(t.Former()), t.token) }

// Certain reports whether another caller may go on with the lease. The keys must certainly have the token,
// with a lease no longer than TTL. An extension under way, or without an answer, could still lengthen the
// lease.
func (t *Terms) Certain() bool { return !t.Unsure() && t.Longest() == t.ttl }

// Unsure reports whether the keys may have a longer lease than is known here. That is so if an extension is
// under way or has got no answer, or if the keys may still have a former token.
func (t *Terms) Unsure() bool {
	return t.pending > 0 || t.history != nil && (t.history.unsure || len(t.Former()) > 0)
}

// Version returns the present version. Lost and Shortened compare it with a later one.
func (t *Terms) Version() Version {
	return Version{Sent: t.sent, changes: t.history.latest().changes}
}

// Lost reports whether a key has another owner. The server was asked after Version was v, and answered with
// owner. If the tokens have changed since v, the answer may be about a token that this lease has given up.
// Then again is true, and the caller reads the key again.
func (t *Terms) Lost(owner string, v Version) (is, again bool) {
	g := t.history.latest()
	switch {
	case owner == t.token || slices.Contains(g.former, owner):
		return false, false
	case g.changes != v.changes:
		return false, true
	}
	return true, false
}

// Verdict says what is known of a lease that another client may have shortened.
type Verdict int

const (
	Unharmed  Verdict = iota // no client has shortened the lease, as far as the answer tells
	Settled                  // the deadline is the server's
	Unsettled                // the server may have answered before or after an extension that is under way
)

// Shortened takes an answer of the server about how much is left of the lease. The server was asked at
// sent, after Version was v, and the answer came at received. If less may be left than is known here, the
// deadline comes nearer.
func (t *Terms) Shortened(v Version, left time.Duration, sent, received clock.Instant) Verdict {
	switch {
	case t.Version().Sent != v.Sent:
		return Settled // a question after that extension learns more
	case t.pending > 0:
		return Unsettled
	case sent.After(left) >= t.Deadline():
		return Unharmed
	}
	slow := received.After(left+time.Millisecond) >= t.Deadline() // the answer was too slow to tell
	t.Start(min(t.Deadline(), clock.LeaseEnd(sent, left)))
	if slow {
		return Unharmed
	}
	return Settled
}

// NextRenewal returns when to extend the lease. from is when the last command was sent that the server has
// confirmed.
func (t *Terms) NextRenewal(from clock.Instant) clock.Instant {
	end := t.Deadline()
	if end == clock.Never {
		return clock.Never
	}
	span := min(t.ttl, time.Duration(end-from)) // the deadline is nearer if a Begin that shortens got no answer
	return from.After(max(span, 0) / Renewals)
}

func (t *Terms) needHistory() *history {
	if t.history == nil {
		t.history = &history{longest: t.ttl}
	}
	return t.history
}

func (h *history) latest() generation {
	if h == nil || h.generation == nil {
		return generation{}
	}
	return *h.generation
}
