package lease

import (
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Begin notes an extension by ttl that the caller asked for and that is sent at sent. If
// ttl is shorter than Longest, it comes with a new token from mint and counts at once,
// because the server may run it before the answer is here: the deadline comes nearer. Any
// other counts when it is confirmed.
//
// Each Begin ends with one Confirm, Refuse or Lose.
func (l *Lease) Begin(sent clock.Instant, ttl time.Duration, mint func() string) Extension {
	if ttl >= l.Longest() {
		return l.begin(sent, ttl, nil)
	}
	g := l.generation()
	old := &before{l.token, l.Longest(), g, l.Deadline()}
	next := &generation{number: g.number + 1, changes: g.changes + 1, former: l.Tokens(), first: g.first, ttl: ttl}
	if g.number == 0 {
		next.first = l.token
	}
	l.token = mint()
	e := l.begin(sent, ttl, next)
	e.before = old
	l.Start(min(old.deadline, clock.LeaseEnd(sent, ttl)))
	return e
}

// BeginRenewal is Begin for an extension that nobody asked for, by TTL. It never shortens.
//
// Beside a Begin that shortens and has no answer it asks for the same TTL as that. A longer
// lease could arrive when the caller who shortens has been told that it is done. A shorter
// one could arrive first, and give the keys the new token with less than Deadline says.
func (l *Lease) BeginRenewal(sent clock.Instant) Extension {
	ttl := l.ttl
	switch g := l.generation(); {
	case g.number > 0 && !g.returned:
		ttl = g.ttl
	case len(g.former) > 0:
		ttl = max(ttl, g.ttl)
	}
	e := l.begin(sent, ttl, nil)
	e.renewal = true
	return e
}

// Returned notes that the caller of Begin is told what became of it, and sends it no more.
func (l *Lease) Returned() {
	if l.history != nil && l.history.generation != nil {
		l.history.generation.returned = true
	}
}

// begin notes an extension, with the first of another generation of the token if next is
// not nil.
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
	g := l.generation()
	return Extension{Sent: sent, TTL: ttl, Token: l.token, Former: g.former, number: g.number}
}

// Superseded reports whether the lease has got another token since an extension was sent:
// the server may not have run it, or has shortened its lease since. Its answer says nothing.
func (l *Lease) Superseded(e Extension) bool { return e.number != l.generation().number }

// Confirm notes at at that the server has run an extension. One that is superseded changes
// nothing, nor does one whose answer comes when the lease is over.
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

// Refuse notes at at that the server has not run an extension. If it was to shorten and
// nothing else was sent with its token, the server has never seen the token, and all is as
// before.
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

// Lose notes that nobody knows whether the server has run an extension, or ever will.
func (l *Lease) Lose(Extension) { l.history.pending-- }
