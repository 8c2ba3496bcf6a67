package terms

import (
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Begin notes an extension that the caller asks for and sends at sent. A ttl of Longest or more counts when
// the server has confirmed it. A shorter ttl comes with a new token, which mint makes. It counts at once,
// and the deadline comes nearer: the server may run the command long before the answer arrives.
//
// Exactly one Confirm, Refuse or Forget must follow each Begin, BeginJoint and BeginRenewal.
func (t *Terms) Begin(sent clock.Instant, ttl time.Duration, mint func() string) Extension {
	if ttl >= t.Longest() {
		return t.begin(sent, ttl, nil)
	}
	g := t.history.latest()
	old := &before{t.token, t.Longest(), g, t.Deadline()}
	next := &generation{number: g.number + 1, changes: g.changes + 1, former: t.Tokens(), ttl: ttl}
	t.token = mint()
	e := t.begin(sent, ttl, next)
	e.before = old
	t.Start(min(old.deadline, clock.LeaseEnd(sent, ttl)))
	return e
}

// BeginJoint notes an extension by ttl of a lease that several callers use. It never shortens the lease.
func (t *Terms) BeginJoint(sent clock.Instant, ttl time.Duration) Extension {
	e := t.begin(sent, ttl, nil)
	e.renewal = true
	return e
}

// BeginRenewal notes an automatic extension. It asks for the TTL, or for most if that is less. It never
// shortens the lease.
//
// While a Begin that shortens has no answer, the renewal asks for the TTL of that Begin:
//   - A renewal with a longer TTL could arrive after the caller was told that the lease is short.
//   - A renewal with a shorter TTL could arrive first. Then the keys would have the new token, with a lease
//     that ends before Deadline.
func (t *Terms) BeginRenewal(sent clock.Instant, most time.Duration) Extension {
	ttl := min(t.ttl, most)
	switch g := t.history.latest(); {
	case g.number > 0 && !g.returned:
		ttl = g.ttl
	case len(g.former) > 0:
		ttl = max(ttl, g.ttl)
	}
	e := t.begin(sent, ttl, nil)
	e.renewal = true
	return e
}

// Returned notes that the caller of Begin knows the outcome, and does not send the extension again.
func (t *Terms) Returned() {
	if t.history != nil && t.history.generation != nil {
		t.history.generation.returned = true
	}
}

// begin notes an extension. If next is not nil, the extension is the first with that token.
func (t *Terms) begin(sent clock.Instant, ttl time.Duration, next *generation) Extension {
	t.pending++
	t.sent++
	switch {
	case next != nil:
		h := t.needHistory()
		h.generation, h.longest = next, ttl
	case ttl > t.Longest():
		t.needHistory().longest = ttl
	}
	if t.history != nil && t.history.generation != nil {
		t.history.generation.sent++
	}
	g := t.history.latest()
	return Extension{Sent: sent, TTL: ttl, Token: t.token, Former: g.former, number: g.number}
}

// Superseded reports whether the lease has got another token since the extension was sent. Then the answer
// says nothing. The server may have shortened the lease after the extension, or refused the extension for
// its token.
func (t *Terms) Superseded(e Extension) bool { return e.number != t.history.latest().number }

// Confirm notes that the server has run an extension. at is the present time. Confirm changes nothing if
// the extension is superseded, or if the lease was over before the answer came.
func (t *Terms) Confirm(e Extension, at clock.Instant) {
	t.pending--
	if t.Superseded(e) || at >= t.Deadline() {
		return
	}
	if len(t.Former()) > 0 {
		g := t.history.generation
		g.former = nil
		g.changes++
	}
	if !e.renewal {
		t.SetTTL(e.TTL)
	}
	t.Start(max(t.Deadline(), clock.LeaseEnd(e.Sent, e.TTL)))
}

// Refuse notes that the server has not run an extension. at is the present time. The extension may be the
// only one with a token that shortens the lease. Then the server has never seen the token, and Refuse
// restores the former lease.
func (t *Terms) Refuse(e Extension, at clock.Instant) {
	t.pending--
	if e.before == nil || t.Superseded(e) || t.history.generation.sent > 1 || at >= t.Deadline() {
		return
	}
	g := t.history.generation
	changes := g.changes + 1
	t.token, t.history.longest = e.before.token, e.before.longest
	*g = e.before.generation
	g.changes = changes
	t.Start(max(t.Deadline(), e.before.deadline))
}

// Forget notes that an extension has no answer: the server may have run it, or may still run it.
func (t *Terms) Forget(Extension) {
	t.pending--
	t.needHistory().unsure = true
}
