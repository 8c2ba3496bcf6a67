package rlock

import (
	"errors"
	"slices"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// generation is what extensions have made of a lock's token.
//
// With one token a lease on the server only grows: every script that knows the token keeps
// the longer lease. So it does not matter in which order commands arrive, or whether one
// arrives twice or an hour late: a confirmed one gives at least what it says. A lease is
// shortened together with the token. Whatever was sent with the former token then has no
// effect on the server, and a second copy of the command that shortens finds the new
// token, with which it only lets the lease grow.
//
// It is guarded by the lock's mu, and stays as it is once the lock has ended.
type generation struct {
	number  int      // how many were before it
	sent    int      // extensions with the token
	changes int      // of what the keys may have, so far; never fewer
	former  []string // tokens that the keys may still have, as no command with the new one is confirmed
	first   string   // token of the acquisition

	asked time.Duration // lease of the Extend that began it, until an Extend returns; then 0
}

// extension is one that is under way.
type extension struct {
	sent   clock.Instant
	ttl    time.Duration
	token  string
	former []string // see generation
	number int      // of the generation
	before *before  // nil: it shortens nothing
}

// before is what an extension that shortens found, for the case that the server refuses it.
type before struct {
	token      string
	longest    time.Duration
	generation generation
	deadline   clock.Instant
}

// tokenAge returns the generation of the token. The caller holds mu, or the lock has ended.
func (l *Lock) tokenAge() generation {
	if l.lifetime == nil || l.generation == nil {
		return generation{}
	}
	return *l.generation
}

// longestLease returns the longest lease that was asked for with the token. The caller
// holds mu.
func (l *Lock) longestLease() time.Duration {
	if l.lifetime == nil || l.longest == 0 {
		return l.ttl
	}
	return l.longest
}

// settled reports whether the keys have the token and no other, with a lease that is no
// longer than that of the next extension. The caller holds mu.
func (l *Lock) settled() bool { return len(l.former()) == 0 && l.longestLease() == l.ttl }

// former returns the tokens that the keys may still have. The caller holds mu, or the lock
// has ended.
func (l *Lock) former() []string { return l.tokenAge().former }

// tokens returns all that the keys may have, the one that they are to have last. Release
// them in this order: a change from one to the next that is late on its way then finds
// nothing. The caller holds mu, or the lock has ended.
func (l *Lock) tokens() []string { return append(slices.Clone(l.former()), l.token) }

// changes returns how often what the keys may have has changed.
func (l *Lock) changes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tokenAge().changes
}

// lostTo reports whether a key with that owner is another's, as read after so many changes.
// If there have been more since, the owner may be a token that the key has rightly lost:
// read it again. The caller holds mu.
func (l *Lock) lostTo(owner string, changes int) (is, again bool) {
	age := l.tokenAge()
	switch {
	case owner == l.token || slices.Contains(age.former, owner):
		return false, false
	case age.changes != changes:
		return false, true
	}
	return true, false
}

// beginExtension notes an extension that is sent now. The caller holds mu. One that
// shortens counts at once, because the server may have run it before the answer is here;
// any other when it is confirmed.
func (l *Lock) beginExtension(ttl time.Duration, shortens bool) extension {
	l.needLifetime()
	l.pending++
	e := extension{sent: clock.Now(), ttl: ttl}
	l.extensions++
	if !shortens {
		l.longest = max(l.longestLease(), ttl)
	} else {
		e.before = &before{l.token, l.longestLease(), l.tokenAge(), clock.Instant(l.deadline.Load())}
		l.replaceToken()
		l.generation.asked = ttl
		l.longest = ttl
		if end := clock.LeaseEnd(e.sent, ttl); end < e.before.deadline {
			l.deadline.Store(int64(end))
			l.locker.keeper.follow(l, e.sent.After(ttl/renewals))
		}
	}
	if l.generation != nil {
		l.generation.sent++
	}
	age := l.tokenAge()
	e.token, e.former, e.number = l.token, age.former, age.number
	return e
}

// replaceToken gives the lock a new token, which the keys get with the next command. The
// caller holds mu.
func (l *Lock) replaceToken() {
	age := l.tokenAge()
	if age.number == 0 {
		age.first = l.token
	}
	l.generation = &generation{number: age.number + 1, changes: age.changes + 1, former: l.tokens(), first: age.first}
	l.token = l.mintToken()
}

// superseded reports whether the lock has got another token since an extension was sent:
// the server may not have run it, or has cut its lease since. The caller holds mu.
func (l *Lock) superseded(e extension) bool { return e.number != l.tokenAge().number }

// errSuperseded is for an extension that must be sent again.
var errSuperseded = errors.New("rlock: another Extend has shortened the lease meanwhile; extend it again")

// endExtension notes the answer of an extension that is not superseded. The caller holds
// mu, and has ended the lock if its lease was over before the answer came: its deadline
// stays.
func (l *Lock) endExtension(e extension, answer answer) {
	if l.end.Load() != nil {
		return
	}
	end := clock.Instant(l.deadline.Load())
	switch {
	case answer == confirmed:
		if g := l.generation; g != nil && len(g.former) > 0 {
			g.former = nil
			g.changes++
		}
		end = max(end, clock.LeaseEnd(e.sent, e.ttl))
	case answer == refused && e.before != nil && l.generation.sent == 1:
		// The server has not touched the lease, and has not seen the token.
		changes := l.generation.changes + 1
		l.token, l.longest = e.before.token, e.before.longest
		*l.generation = e.before.generation
		l.generation.changes = changes
		end = max(end, e.before.deadline)
	}
	l.deadline.Store(int64(end))
}

// dropExtension notes that an extension under way will never be settled. What it may have
// done on the server stays as unknown as if its reply was lost.
func (l *Lock) dropExtension() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending--
}

// answer is what is known of a command's outcome.
type answer int

const (
	confirmed answer = iota // the server ran it
	refused                 // the server did not run it
	unknown                 // the reply was lost: it may have run, or may still run
)
