package rlock

import (
	"context"
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// WithAtLeast keeps others out for at least d from when the lock was granted, even if it is released
// earlier. So a job that several machines start at about the same time runs once, although it may take
// less time than their clocks differ by:
//
//	ran, err := locker.TryDo(ctx, "nightly report", report,
//		rlock.WithTTL(10*time.Minute), rlock.WithAtLeast(10*time.Minute))
//
// For an hourly job, choose a d well below an hour, but above the time by which the clocks may differ.
// With 0, which is the default, Release frees the keys. d is a whole number of milliseconds. The lease
// must be as long as d, so that a process that dies keeps others out too: a shorter WithTTL is refused,
// and so is an Extend that would end the lease before.
//
// For its holder the lock ends at the Release, which does not wait: it leaves the keys another token,
// with the same text of WithOwner, and a lease that ends when d is over. Those who wait keep their
// order, and the first gets the lock then. ForceRelease frees the keys at any time. If fn of Do is not
// called because its context has ended, the keys are freed at once.
//
// Shares cannot have it.
func WithAtLeast(d time.Duration) CommonOption {
	return sharedOption(func(s *settings) error {
		s.atLeast = d
		switch {
		case d == NoExpiry:
			return invalid("WithAtLeast", "it must end; a lock that lasts for ever is one with WithTTL(NoExpiry) that nobody releases")
		case d < 0:
			return invalid("WithAtLeast", "want 0 or more")
		case d%time.Millisecond != 0:
			return invalid("WithAtLeast", fmt.Sprintf("%v is not a whole number of milliseconds; truncate it", d))
		}
		return nil
	})
}

// checkAtLeast refuses a lease that would end before WithAtLeast is over.
func (s *settings) checkAtLeast() error {
	if s.ttl < s.atLeast {
		return invalid("WithAtLeast", fmt.Sprintf("%v is longer than the lease of %v, which is all that is left if the process dies; use a WithTTL of %v or more", s.atLeast, s.ttl, s.atLeast))
	}
	return nil
}

// minimum is the time for which a lock keeps others out; see WithAtLeast.
type minimum struct {
	until clock.Instant // when it is over. A Release before that leaves the keys a lease that ends then
	token string        // that such a Release gives the keys, so that no late command of the lock changes that lease; "": there was no such Release
}

// keepFor keeps others out for d from now. The caller holds mu.
func keepFor(l *Lock, d time.Duration, now clock.Instant) {
	if d > 0 {
		l.needExtras()
		l.minimum = &minimum{until: now.After(d)}
	}
}

// keptUntil returns when the keys may be free. The caller holds mu.
func keptUntil(l *Lock) clock.Instant {
	if l.extras == nil || l.minimum == nil {
		return clock.Past
	}
	return l.minimum.until
}

// keepNobodyOut undoes keepFor, because the work under the lock has not begun.
func keepNobodyOut(l *Lock) {
	l.mu.Lock()
	defer l.unlock()
	if l.extras != nil {
		l.minimum = nil
	}
}

// freeExpired has the reaper free the keys of a lock that has expired here, because the server may still
// have a lease of ttl. It waits until the time of WithAtLeast is over: the lease may have ended earlier,
// by the margin for clock drift. It frees nothing if the token is another holder's: a reader's lock may
// expire before those of others who share what it has. The caller holds mu.
func freeExpired(l *Lock, ttl time.Duration) {
	if l.left {
		return
	}
	if until := keptUntil(l); until > clock.Now() {
		remote.FreeLater(l.locker.remote, &l.claim, l.terms.Token(), l.terms.Former(), until)
		return
	}
	l.locker.remote.Abandon(&l.claim, l.terms.Tokens(), ttl, 1)
}

// keepOthersOut decides whether this Release only shortens the lease, because others are to be kept out. It also
// notes the token of an earlier Release that has, because the keys may have that one. The caller holds
// the lock's mu.
func (r *releasing) keepOthersOut(now clock.Instant) {
	l := r.lock
	until := keptUntil(l)
	if until == clock.Past || until <= now && l.minimum.token == "" {
		return
	}
	if l.minimum.token == "" {
		l.minimum.token = l.mint()
	}
	r.minimum, r.over = l.minimum, until <= now
}

// shortening is the call of a Release that leaves the keys.
func (r *releasing) shortening() *remote.Shortening {
	f, until := r.freeing()
	return &remote.Shortening{Freeing: f, Until: until}
}

// freeing is the call of a Release that frees the keys, and when it may.
func (r *releasing) freeing() (f remote.Freeing, until clock.Instant) {
	l := r.lock
	if r.minimum != nil {
		return remote.Freeing{Claim: &l.claim, Token: r.minimum.token, Former: l.terms.Tokens()}, r.minimum.until
	}
	return remote.Freeing{Claim: &l.claim, Token: l.terms.Token(), Former: l.terms.Former()}, clock.Past
}

// shorten makes the call of a Release that keeps others out, or that comes after one that did.
func (r *releasing) shorten(ctx context.Context) {
	server := r.lock.locker.remote
	if r.over {
		f, _ := r.freeing()
		r.freed, r.err = server.Release(ctx, f.Claim, f.Token, f.Former)
		return
	}
	s := r.shortening()
	remote.ShortenEach(ctx, server, []*remote.Shortening{s})
	r.freed, r.err = s.Freed, s.Err
}
