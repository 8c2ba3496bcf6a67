package rlock

import (
	"context"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/handover"
	"github.com/rlock-go/toolkit/rlock/internal/queue"
	"github.com/rlock-go/toolkit/rlock/internal/registry"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

type queueTicket = queue.Ticket[handover.Request, handover.Grant, *holder]

// request returns what the lock was acquired as.
func (l *Lock) request() handover.Request {
	return handover.Request{
		TTL: l.terms.TTL(), Owner: l.set.owner, Extends: l.extends(), Inherits: !l.set.uniqueToken,
		Fenced: !l.set.unfenced, FullLease: l.set.atLeast > 0,
	}
}

// holder is a lock as the queue and the registry know it.
type holder Lock

// Deadline is when the lease ends.
func (h *holder) Deadline() clock.Instant { return (*Lock)(h).deadline() }

// Entry is its place in the registry of the Locker.
func (h *holder) Entry() *registry.Entry { return &h.listed }

// Over reports whether the lock has ended in another way than by Release. Release calls the
// next itself.
func (h *holder) Over(now clock.Instant) bool {
	state := (*Lock)(h).stateNow()
	return state > stateReleased || state == stateHeld && h.Deadline() <= now
}

// Renewed reports whether the lease is extended automatically, which one without an end is not.
func (h *holder) Renewed() bool { return h.set.extends(h.want.do) && h.Deadline() != clock.Never }

// Look asks the server who has the key, and ends the lock if it has lost the key.
func (h *holder) Look(ctx context.Context) (remote.Holder, error) {
	seen, _, err := h.locker.lookFor(ctx, &h.claim, (*Lock)(h))
	return seen, err
}

// Watch has the Locker watch the lock, so that those who wait behind it are called when its lease
// ends or its key is gone. A nil holder is none.
func (h *holder) Watch() {
	if h == nil {
		return
	}
	l := (*Lock)(h)
	defer l.deliver()
	l.mu.Lock()
	defer l.unlock()
	if l.stateNow() == stateHeld {
		l.beWatched()
	}
}

// holder returns the lock of this Locker that holds the key, as far as this process knows.
func (l *Locker) holder(key string) *Lock { return (*Lock)(l.queue.Holder(key)) }

// lender is a lock that its Release has just ended, as the hand-over knows it.
type lender Lock

// Lend gives the lease to the next holder, unless somebody has asked for its token.
func (l *lender) Lend(next handover.Request, now clock.Instant) (deadline clock.Instant, lent bool) {
	l.mu.Lock()
	defer l.unlock()
	if l.shown || !next.Fits(&l.terms, now) {
		return 0, false
	}
	l.left = true
	return l.terms.Deadline(), true
}

// TakeBack notes that the lease is this lock's again.
func (l *lender) TakeBack() {
	l.mu.Lock()
	defer l.unlock()
	l.left = false
}

// Lent returns the lease that Lend has given.
func (l *lender) Lent() any { return l.lease }

// handOver makes h, which is new, give the lock, which Release has just ended, to the next holder. now is
// a recent reading of the clock; forced is how often force had been used before the Release.
func (l *Lock) handOver(h *handover.Handover[*holder], now clock.Instant, forced uint64) {
	h.Server, h.Grants, h.Background, h.From = l.locker.remote, l.locker.grants, l.locker.background, (*lender)(l)
	h.Ticket, h.Claim, h.Terms, h.As, h.Now, h.Forced = &l.ticket, &l.claim, &l.terms, l.request(), now, forced
	h.Has.Token = l.terms.Token()
}
