package rlock

import (
	"context"
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// WithAtLeast keeps others out for at least d from when the lock was granted, even if it is
// released earlier: a Release before that shortens the lease to what is left of d and does not free
// the keys. So a job that several machines start at about the same time runs once, although it may
// take less time than their clocks differ by:
//
//	ran, err := locker.TryDo(ctx, "nightly report", report, rlock.WithTTL(10*time.Minute), rlock.WithAtLeast(10*time.Minute))
//
// For a job of every hour, choose a d that is well below an hour, but above the time by which the
// clocks may differ. With 0, which is the default, Release frees the keys.
//
// The lease must be as long as d, so that a process that dies keeps others out too: a shorter
// WithTTL is refused, and so is an Extend that would end the lease before d is over. d is a
// whole number of milliseconds. With WithTTL(NoExpiry), a process that dies within moments of
// getting the lock out of the queue may keep others out for only 10 seconds.
//
// To the caller the lock has ended with its Release as any other, and Release does not wait. The
// keys have another token then, and the same text of WithOwner. Release hands the lock over to
// nobody: who waits, in this process or another, waits on in the same order, and gets the lock when
// d is over. A Release after d frees the keys or passes them on as always. ForceRelease
// frees the keys at once, before and after a Release. Detach takes what is left of d
// along: whoever attaches the lock keeps others out for that time, counted from the Attach, but for no
// longer than the lease.
//
// Shares cannot have it, and a lock that keeps others out cannot be turned into one by Downgrade.
//
// If the server does not confirm that Release, the keys stay until the lease ends or, if that is
// earlier, until this process frees them when d is over. If fn of Do is not called because its context
// has ended, the keys are freed at once.
func WithAtLeast(d time.Duration) SharedOption {
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

// minimum is what a lock has that was acquired WithAtLeast.
type minimum struct {
	until clock.Instant // a Release before that leaves the keys a lease that ends then
	token string        // that the keys get from such a Release, so that no late command with the lock's token changes the lease; "": there was none
}

// keepFor keeps others out for d from now. The caller holds mu.
func keepFor(l *Lock, d time.Duration, now clock.Instant) {
	if d > 0 {
		l.needLifetime()
		l.minimum = &minimum{until: now.After(d)}
	}
}

// keptUntil returns when the keys may be free. The caller holds mu.
func keptUntil(l *Lock) clock.Instant {
	if l.lifetime == nil || l.minimum == nil {
		return clock.Past
	}
	return l.minimum.until
}

// keepsOut reports whether the time for which the lock keeps others out is not over.
func keepsOut(l *Lock) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return clock.Now() < keptUntil(l)
}

// keepNobodyOut undoes keepFor, because what was to be done under the lock has not begun.
func keepNobodyOut(l *Lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lifetime != nil {
		l.minimum = nil
	}
}

// freeExpired has the reaper free the keys of a lock that has expired, because they may have a lease of
// ttl left. The lease ends a little earlier here than at the server, and perhaps before the
// time of WithAtLeast. The caller holds mu.
func freeExpired(l *Lock, ttl time.Duration) {
	if until := keptUntil(l); until > clock.Now() {
		l.locker.remote.Leave(&l.claim, l.lease.Token(), l.lease.Former(), until)
		return
	}
	l.locker.remote.Abandon(&l.claim, l.lease.Tokens(), ttl, 1)
}

// keeps has the Release leave the keys if others are to be kept out, or if an earlier Release may
// have left them with another token. The caller holds the lock's mu.
func (r *releasing) keeps(now clock.Instant) {
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
		return remote.Freeing{Claim: &l.claim, Token: r.minimum.token, Former: l.lease.Tokens()}, r.minimum.until
	}
	return remote.Freeing{Claim: &l.claim, Token: l.lease.Token(), Former: l.lease.Former()}, clock.Past
}

// leave makes the call of a Release that keeps others out, or that comes after one.
func (r *releasing) leave(ctx context.Context) {
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
