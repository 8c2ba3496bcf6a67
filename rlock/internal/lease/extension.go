package lease

import (
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Begin notes an extension that the caller asked for and sends at sent. A ttl of Longest or more
// counts when the server has confirmed it. A shorter ttl comes with a new token, which mint
// makes, and counts at once: the deadline comes nearer, because the server may run the command
// long before its answer is here.
//
// Exactly one Confirm, Refuse or Forget must follow each Begin, BeginCommon and BeginRenewal.
func (l *Lease) Begin(sent clock.Instant, ttl time.Duration, mint func() string) Extension {
	if ttl >= l.Longest() {
		return l.begin(sent, ttl, nil)
	}
	g := l.history.latest()
	old := &before{l.token, l.Longest(), g, l.Deadline()}
	next := &generation{number: g.number + 1, changes: g.changes + 1, former: l.Tokens(), ttl: ttl}
	l.token = mint()
	e := l.begin(sent, ttl, next)
	e.before = old
	l.Start(min(old.deadline, clock.LeaseEnd(sent, ttl)))
	return e
}

// BeginCommon is Begin for a lease whose token others have too, who count on the lease that the keys
// have. A ttl that is shorter than Longest counts here alone, and at once.
func (l *Lease) BeginCommon(sent clock.Instant, ttl time.Duration) Extension {
	if ttl < l.Longest() {
		l.Start(min(l.Deadline(), clock.LeaseEnd(sent, ttl)))
	}
	return l.begin(sent, ttl, nil)
}

// BeginRenewal notes an automatic extension, which asks for TTL and never shortens the lease.
//
// While a Begin that shortens has no answer, the renewal asks for the TTL of that Begin. With a
// longer one, the renewal could arrive after the caller was told that the lease is short. With a
// shorter one, it could arrive first, and the keys would have the new token with a lease that
// ends before Deadline.
func (l *Lease) BeginRenewal(sent clock.Instant) Extension {
	ttl := l.ttl
	switch g := l.history.latest(); {
	case g.number > 0 && !g.returned:
		ttl = g.ttl
	case len(g.former) > 0:
		ttl = max(ttl, g.ttl)
	}
	e := l.begin(sent, ttl, nil)
	e.renewal = true
	return e
}

// Returned notes that the caller of Begin was told the outcome, and no longer sends the extension.
func (l *Lease) Returned() {
	if l.history != nil && l.history.generation != nil {
		l.history.generation.returned = true
	}
}

// begin notes an extension. If next is not nil, the extension is the first with that token.
func (l *Lease) begin(sent clock.Instant, ttl time.Duration, next *generation) Extension {
	if l.history == nil {
		l.history = &history{longest: l.ttl}
	}
	h := l.history
	if next != nil {
		h.generation, h.longest = next, 0
	}
	h.pending++
	h.sent++
	h.longest = max(h.longest, ttl)
	if h.generation != nil {
		h.generation.sent++
	}
	g := l.history.latest()
	return Extension{Sent: sent, TTL: ttl, Token: l.token, Former: g.former, number: g.number}
}

// Superseded reports whether the lease has got another token since an extension was sent. The
// answer to that extension then says nothing, because the server may have shortened the lease
// after it, or refused it for its token.
func (l *Lease) Superseded(e Extension) bool { return e.number != l.history.latest().number }

// Confirm notes that the server has run an extension; at is the present time. It changes nothing
// if the extension is superseded, or if the lease was over before the answer came.
func (l *Lease) Confirm(e Extension, at clock.Instant) {
	l.history.pending--
	if l.Superseded(e) || at >= l.Deadline() {
		return
	}
	if g := l.history.generation; g != nil && len(g.former) > 0 {
		g.former = nil
		g.changes++
	}
	if !e.renewal {
		l.ttl = e.TTL
	}
	l.Start(max(l.Deadline(), clock.LeaseEnd(e.Sent, e.TTL)))
}

// Refuse notes that the server has not run an extension; at is the present time. If the extension
// was to shorten the lease, and no other was sent with its token, the server has never seen that
// token. The lease then is what it was before.
func (l *Lease) Refuse(e Extension, at clock.Instant) {
	l.history.pending--
	g := l.history.generation
	if e.before == nil || l.Superseded(e) || g.sent > 1 || at >= l.Deadline() {
		return
	}
	changes := g.changes + 1
	l.token, l.history.longest = e.before.token, e.before.longest
	*g = e.before.generation
	g.changes = changes
	l.Start(max(l.Deadline(), e.before.deadline))
}

// Forget notes that nobody knows whether the server has run an extension, or will still run it.
func (l *Lease) Forget(Extension) {
	l.history.pending--
	l.history.unsure = true
}
