// Package lease computes how long one lock is certainly held, and by which tokens, while
// extensions of its lease overlap, shorten it, are refused or get no answer.
//
// It only computes: it never asks a server, has no mutex, and does not know what the lock
// is, who waits for it or whether it has ended.
//
// With one token a lease on the server only grows: every script that knows the token keeps
// the longer lease. So it does not matter in which order commands arrive, or whether one
// arrives twice or an hour late: a confirmed one gives at least what it says. A lease is
// shortened together with the token. Whatever was sent with the former token then has no
// effect on the server, and a second copy of the command that shortens finds the new
// token, with which it only lets the lease grow.
package lease

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Renewals is how many times a lease is extended before it ends. Two attempts may fail
// without a loss.
const Renewals = 3

// Lease is that of one lock. One goroutine at a time may use it, but for Deadline, which
// any may call. Once the lock has ended the caller reports answers with Lose, so that
// nothing changes any more but the number of extensions under way.
type Lease struct {
	deadline atomic.Int64
	ttl      time.Duration
	token    string
	history  *history // nil: no extension was sent, and the lease began with the TTL
}

// history is apart so that a lease that is never extended stays small.
type history struct {
	longest    time.Duration // that was asked for with the token
	pending    int32         // extensions under way
	sent       uint32        // extensions
	generation *generation   // of the token; nil: it is the first
}

// generation is what extensions have made of the token.
type generation struct {
	number   int           // how many were before it
	sent     int           // extensions with the token
	changes  int           // of what tokens the keys may have, so far; never fewer
	former   []string      // tokens that the keys may still have, as no command with the new one is confirmed
	first    string        // token of the acquisition
	ttl      time.Duration // of the Begin that made it
	returned bool          // that Begin, or another, has Returned
}

// Extension is one that is under way.
type Extension struct {
	Sent   clock.Instant
	TTL    time.Duration
	Token  string   // that the keys are to have
	Former []string // that they may have so far

	renewal bool
	number  int     // of the generation
	before  *before // nil: it shortens nothing
}

// before is what an extension that shortens found, for the case that the server refuses it.
type before struct {
	token      string
	longest    time.Duration
	generation generation
	deadline   clock.Instant
}

// Version changes when an extension is sent, and when it changes which tokens the keys may
// have.
type Version struct {
	Sent    uint32 // extensions
	changes int
}

// Prepare sets the TTL of a lease that is to begin, and the token if it is known yet.
func (l *Lease) Prepare(ttl time.Duration, token string) { l.ttl, l.token = ttl, token }

// SetToken sets the token of a lease that has not begun.
func (l *Lease) SetToken(token string) { l.token = token }

// Start begins the lease that the server has confirmed until deadline.
func (l *Lease) Start(deadline clock.Instant) { l.deadline.Store(int64(deadline)) }

// Resume begins a lease of which the server had longest left, which may be less or more
// than the TTL.
func (l *Lease) Resume(longest time.Duration, deadline clock.Instant) {
	l.history = &history{longest: longest}
	l.Start(deadline)
}

// Deadline is when the lease must count as over. Any goroutine may call it.
func (l *Lease) Deadline() clock.Instant { return clock.Instant(l.deadline.Load()) }

// TTL is what renewals ask for: that of the acquisition, then that of the last Begin that
// was confirmed.
func (l *Lease) TTL() time.Duration { return l.ttl }

// Longest is the longest TTL that was asked for with the token. A shorter one needs a new
// token.
func (l *Lease) Longest() time.Duration {
	if l.history == nil {
		return l.ttl
	}
	return l.history.longest
}

// Token is what the keys are to have.
func (l *Lease) Token() string { return l.token }

// First is the token of the acquisition, "" if it is still that of the lease.
func (l *Lease) First() string { return l.generation().first }

// Former are the tokens that the keys may still have, because nothing with the new one is
// confirmed.
func (l *Lease) Former() []string { return l.generation().former }

// Tokens are all that the keys may have, the one that they are to have last. Release them
// in this order: a change from one to the next that is late on its way then finds nothing.
func (l *Lease) Tokens() []string { return append(slices.Clone(l.Former()), l.token) }

// Certain reports whether the keys have the token and no other, with a lease that is no
// longer than that of the next renewal.
func (l *Lease) Certain() bool { return len(l.Former()) == 0 && l.Longest() == l.ttl }

// Version is compared with a later one by Lost and Shortened.
func (l *Lease) Version() Version {
	v := Version{changes: l.generation().changes}
	if l.history != nil {
		v.Sent = l.history.sent
	}
	return v
}

// Lost reports whether a key with that owner is another's, as read after Version was v. If
// the tokens have changed since, the owner may be a token that the key has rightly lost:
// read it again.
func (l *Lease) Lost(owner string, v Version) (is, again bool) {
	g := l.generation()
	switch {
	case owner == l.token || slices.Contains(g.former, owner):
		return false, false
	case g.changes != v.changes:
		return false, true
	}
	return true, false
}

// Verdict is what was found out about a lease that somebody else may have shortened.
type Verdict int

const (
	Unharmed  Verdict = iota // nobody has, as far as the answer tells
	Settled                  // it is known here what the server has
	Unsettled                // an extension is under way that may have come before or after
)

// Shortened follows an answer of the server, asked at sent after Version was v and received
// at received, that so much is left of the lease. If that may be less than is known here,
// the deadline comes nearer.
func (l *Lease) Shortened(v Version, left time.Duration, sent, received clock.Instant) Verdict {
	switch {
	case l.Version().Sent != v.Sent:
		return Settled // whoever asks after that extension learns more
	case l.history != nil && l.history.pending > 0:
		return Unsettled
	case sent.After(left) >= l.Deadline():
		return Unharmed
	}
	slow := received.After(left+time.Millisecond) >= l.Deadline() // and so the answer does not tell
	l.Start(min(l.Deadline(), clock.LeaseEnd(sent, left)))
	if slow {
		return Unharmed
	}
	return Settled
}

// NextRenewal is when to extend a lease that was confirmed by a command sent at from.
func (l *Lease) NextRenewal(from clock.Instant) clock.Instant {
	end := l.Deadline()
	if end == clock.Never {
		return clock.Never
	}
	span := min(l.ttl, time.Duration(end-from)) // the deadline is nearer where a Begin that shortens got no answer
	return from.After(max(span, 0) / Renewals)
}

func (l *Lease) generation() generation {
	if l.history == nil || l.history.generation == nil {
		return generation{}
	}
	return *l.history.generation
}
