package rlock

import (
	"errors"
	"slices"
	"time"
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
// All of it is guarded by the lock's mu, and stays as it is once the lock has ended.
type generation struct {
	number  int           // how many were before it
	longest time.Duration // lease that was asked for with the token; 0: that of the acquisition
	sent    int           // extensions with the token
	former  []string      // tokens that the keys may still have, as no command with the new one is confirmed
}

// extension is one that is under way.
type extension struct {
	sent   instant
	ttl    time.Duration
	token  string
	former []string // see generation
	number int      // of the generation
	before *before  // nil: it shortens nothing
}

// before is what an extension that shortens found, for the case that the server refuses it.
type before struct {
	token      string
	generation generation
	deadline   instant
}

// longest returns the longest lease that was asked for with the token. The caller holds mu.
func (l *Lock) longest() time.Duration {
	if l.care == nil || l.generation.longest == 0 {
		return l.ttl
	}
	return l.generation.longest
}

// settled reports whether the keys have the token and no other, with a lease that is no
// longer than that of the next extension. The caller holds mu.
func (l *Lock) settled() bool { return len(l.former()) == 0 && l.longest() == l.ttl }

// former returns the tokens that the keys may still have. The caller holds mu, or the lock
// has ended.
func (l *Lock) former() []string {
	if l.care == nil {
		return nil
	}
	return l.generation.former
}

// tokens returns all that the keys may have, the one that they are to have last. Release
// them in this order: a change from one to the next that is late on its way then finds
// nothing. The caller holds mu, or the lock has ended.
func (l *Lock) tokens() []string { return append(slices.Clone(l.former()), l.token) }

// current returns the token, and how often it has changed what the keys may have.
func (l *Lock) current() (token string, changes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.care != nil {
		changes = l.changes
	}
	return l.token, changes
}

// lostTo reports whether a key with that owner is another's, as read after so many changes.
// If there have been more since, the owner may be a token that the key has rightly lost:
// read it again. The caller holds mu.
func (l *Lock) lostTo(owner string, changes int) (is, again bool) {
	switch {
	case owner == l.token || slices.Contains(l.former(), owner):
		return false, false
	case l.care != nil && l.changes != changes:
		return false, true
	}
	return true, false
}

// begin notes an extension that is sent now. The caller holds mu. One that shortens counts
// at once, because the server may have run it before the answer is here; any other when it
// is confirmed.
func (l *Lock) beginExtension(ttl time.Duration, shortens bool) extension {
	l.takeCare()
	g := &l.generation
	sent, longest := now(), l.longest()
	l.extensions++
	var found *before
	if shortens {
		found = &before{l.token, *g, instant(l.deadline.Load())}
		if g.number == 0 {
			l.first = l.token
		}
		*g = generation{number: g.number + 1, longest: ttl, former: l.tokens()}
		l.changes++
		l.token = l.mintToken()
		if end := leaseEnd(sent, ttl); end < found.deadline {
			l.deadline.Store(int64(end))
			l.locker.keeper.follow(l, sent.after(ttl/renewals))
		}
	} else {
		g.longest = max(longest, ttl)
	}
	g.sent++
	l.pending++
	return extension{sent, ttl, l.token, g.former, g.number, found}
}

// superseded reports whether the lock has got another token since an extension was sent:
// the server may not have run it, or has cut its lease since. The caller holds mu.
func (l *Lock) superseded(e extension) bool { return e.number != l.generation.number }

// errSuperseded is for an extension that must be sent again.
var errSuperseded = errors.New("rlock: another Extend has shortened the lease meanwhile; extend it again")

// endExtension notes the answer of an extension that is not superseded. The caller holds
// mu, and has ended the lock if its lease was over before the answer came: its deadline
// stays.
func (l *Lock) endExtension(e extension, answer answer) {
	if l.end.Load() != nil {
		return
	}
	end := instant(l.deadline.Load())
	switch {
	case answer == confirmed:
		if len(l.generation.former) > 0 {
			l.generation.former = nil
			l.changes++
		}
		end = max(end, leaseEnd(e.sent, e.ttl))
	case answer == refused && e.before != nil && l.generation.sent == 1:
		// The server has not touched the lease, and has not seen the token.
		l.token, l.generation = e.before.token, e.before.generation
		l.changes++
		end = max(end, e.before.deadline)
	}
	l.deadline.Store(int64(end))
}

// answer is what is known of a command's outcome.
type answer int

const (
	confirmed answer = iota // the server ran it
	refused                 // the server did not run it
	unknown                 // the reply was lost: it may have run, or may still run
)
