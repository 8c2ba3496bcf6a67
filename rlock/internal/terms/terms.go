// Package terms computes how long one lock is certainly held, and by which tokens, while
// extensions of its lease overlap, shorten it, are refused or get no answer.
//
// It only computes: it never asks a server, has no mutex, and does not know what the lock
// is, who waits for it or whether it has ended.
//
// As long as the token stays the same, the lease on the server only grows, because every
// script keeps the longer lease. So it does not matter in which order commands arrive, or
// whether one arrives twice or an hour late: one that the server has confirmed gives at least
// the lease that it asked for. A command that shortens the lease also changes the token.
// Commands with the former token then have no effect on the server, and a second copy of the
// command that shortens finds the new token, so it can only make the lease longer.
package terms

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Renewals is how many times a lease is extended before it ends. Two attempts may fail
// without a loss.
const Renewals = 3

// Terms are the terms of one lease. One goroutine at a time may call its methods, except Deadline,
// which any goroutine may call. After the lock has ended, the caller reports every answer with
// Forget, so that only the number of extensions under way and Unsure change.
type Terms struct {
	deadline atomic.Int64
	ttl      time.Duration
	token    string
	sent     uint32   // extensions
	pending  int32    // of those, how many are under way
	history  *history // nil: no other TTL was asked for with the token, and each extension had an answer
}

// history is apart so that a lease that is only renewed stays small.
type history struct {
	longest    time.Duration // that was asked for with the token
	unsure     bool          // an extension has got no answer; it may still arrive after later ones
	generation *generation   // of the token; nil: it is the first
}

// generation is a token that a Begin has made, and what is known of it.
type generation struct {
	number  int // how many tokens were before it
	sent    int // extensions with the token
	changes int // how often the set of tokens that the keys may have has changed
	// tokens that the keys may still have, because no command with the new one is confirmed
	former   []string
	ttl      time.Duration // of the Begin that made it
	returned bool          // Returned was called since
}

// Extension is an extension that is under way.
type Extension struct {
	Sent   clock.Instant
	TTL    time.Duration
	Token  string   // that the keys are to have
	Former []string // that they may have so far

	renewal bool
	number  int     // of the generation
	before  *before // nil: it shortens nothing
}

// before is what the lease was before an extension that shortens it. Refuse restores it.
type before struct {
	token      string
	longest    time.Duration
	generation generation
	deadline   clock.Instant
}

// Version changes when an extension is sent, and when an answer changes which tokens the keys
// may have.
type Version struct {
	Sent    uint32 // extensions
	changes int
}

// Prepare sets the TTL of a lease that is to begin, and the token if it is known yet.
func (t *Terms) Prepare(ttl time.Duration, token string) { t.ttl, t.token = ttl, token }

// SetToken sets the token of a lease that has not begun.
func (t *Terms) SetToken(token string) { t.token = token }

// Start begins the lease that the server has confirmed until deadline.
func (t *Terms) Start(deadline clock.Instant) { t.deadline.Store(int64(deadline)) }

// Resume begins the lease of a lock that was held before. The server said that longest is left
// of it, which may be less or more than the TTL.
func (t *Terms) Resume(longest time.Duration, deadline clock.Instant) {
	t.history = &history{longest: longest}
	t.Start(deadline)
}

// Deadline is when the lease must count as over. Any goroutine may call it.
func (t *Terms) Deadline() clock.Instant { return clock.Instant(t.deadline.Load()) }

// TTL is what renewals ask for: first the TTL of the acquisition, then that of the last Begin
// that the server has confirmed.
func (t *Terms) TTL() time.Duration { return t.ttl }

// SetTTL sets what renewals ask for from now on.
func (t *Terms) SetTTL(ttl time.Duration) {
	if ttl != t.ttl {
		t.needHistory()
	}
	t.ttl = ttl
}

// Longest is the longest TTL that was asked for with the token. A shorter one needs a new
// token.
func (t *Terms) Longest() time.Duration {
	if t.history == nil {
		return t.ttl
	}
	return t.history.longest
}

// Token is what the keys are to have.
func (t *Terms) Token() string { return t.token }

// Former returns the tokens that the keys may still have, because the server has not confirmed a
// command with the new one.
func (t *Terms) Former() []string { return t.history.latest().former }

// Tokens returns all tokens that the keys may have. The last is the one that they are to have.
// Release them in this order, because a late command that changes one token to the next then
// finds nothing to change.
func (t *Terms) Tokens() []string { return append(slices.Clone(t.Former()), t.token) }

// Certain reports whether the keys certainly have the token, with a lease no longer than TTL, and will have
// none that is longer unless somebody asks for it: an extension that is under way, or has got no answer,
// would lengthen the lease of whoever goes on with it.
func (t *Terms) Certain() bool { return !t.Unsure() && t.Longest() == t.ttl }

// Unsure reports whether the keys may have a longer lease than is known here: an extension has got no
// answer or is under way, or they may still have a former token.
func (t *Terms) Unsure() bool {
	return t.pending > 0 || t.history != nil && (t.history.unsure || len(t.Former()) > 0)
}

// Version returns the present version. Lost and Shortened compare it with a later one.
func (t *Terms) Version() Version {
	return Version{Sent: t.sent, changes: t.history.latest().changes}
}

// Lost reports whether a key is another's. The server was asked after Version was v, and
// answered that the key has that owner. If the tokens have changed since v, the answer may be
// about a token that this lease has given up: again is true then, and the caller reads the key
// again.
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

// Verdict says what is known of a lease that somebody else may have shortened.
type Verdict int

const (
	Unharmed  Verdict = iota // nobody has shortened it, as far as the answer tells
	Settled                  // the deadline is that of the server
	Unsettled                // the server may have answered before or after an extension that is under way
)

// Shortened takes an answer of the server about how much is left of the lease. The server was
// asked at sent, after Version was v, and its answer came at received. If less may be left than
// is known here, the deadline comes nearer.
func (t *Terms) Shortened(v Version, left time.Duration, sent, received clock.Instant) Verdict {
	switch {
	case t.Version().Sent != v.Sent:
		return Settled // whoever asks after that extension learns more
	case t.pending > 0:
		return Unsettled
	case sent.After(left) >= t.Deadline():
		return Unharmed
	}
	slow := received.After(left+time.Millisecond) >= t.Deadline() // and so the answer does not tell
	t.Start(min(t.Deadline(), clock.LeaseEnd(sent, left)))
	if slow {
		return Unharmed
	}
	return Settled
}

// NextRenewal returns when to extend the lease, if the last command that the server has confirmed
// was sent at from.
func (t *Terms) NextRenewal(from clock.Instant) clock.Instant {
	end := t.Deadline()
	if end == clock.Never {
		return clock.Never
	}
	span := min(t.ttl, time.Duration(end-from)) // the deadline is nearer if a Begin that shortens got no answer
	return from.After(max(span, 0) / Renewals)
}

// needHistory makes the history, unless there is one.
func (t *Terms) needHistory() *history {
	if t.history == nil {
		t.history = &history{longest: t.ttl}
	}
	return t.history
}

// latest returns what is known of the token.
func (h *history) latest() generation {
	if h == nil || h.generation == nil {
		return generation{}
	}
	return *h.generation
}
