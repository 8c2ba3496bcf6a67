package rlock

import (
	"github.com/rlock-go/toolkit/rlock/internal/attempt"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/readers"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// joinReaders has a reader share what another reader of this process has at the server, or is asking
// for. It reports false if the reader is to ask the server.
func joinReaders(a *acquisition) (shares bool, why noLock) {
	l := a.lock
	if share, is := l.claim.Share(); !is || share.Limit > 0 || l.set.uniqueToken || a.ctx.Err() != nil {
		return false, noLock{}
	}
	kind, now := readers.Kind{Key: l.claim.Key(), Owner: l.set.owner, TTL: l.terms.TTL()}, a.start
	for wait := l.want.wait; ; wait = false {
		h, role := l.locker.readers.Enter(kind, wait, now)
		if role == readers.Waits {
			var err error
			a.waits = h
			granted, vacancy := h.Wake()
			role, err = awaitCaller[readers.Role](a, readers.Waits, h, granted, vacancy)
			a.waits = nil
			if err != nil && role == readers.Quits {
				return false, waitEnded(err)
			}
			a.tries.Blocker = attempt.Blocker{Key: l.claim.Key()}
			now = clock.Now()
		}
		switch role {
		case readers.Shares:
			return true, shareReader(a, h)
		case readers.Asks:
			a.asks, a.tries.Ticket = h, h
			h.AskedBy(l.ticket.Silence())
			return false, noLock{}
		}
		// The policy gives up. So far only this process has said that the reader must wait.
	}
}

// quitReaders ends the wait of an acquisition that user code has interrupted.
func quitReaders(a *acquisition) {
	if h := a.waits; h != nil && h.Quit() == readers.Shares {
		shareReader(a, h)
	}
}

// shareReader begins to hold what other readers of this process have.
func shareReader(a *acquisition, h *readers.Holder) noLock {
	l, g := a.lock, h.Grant()
	l.lease = g.Lease.(*lease)
	how := arrival{kind: EventAcquired, start: a.start, handedOver: true, joins: true}
	err := l.hold(g.Deadline, g.Fence, how)
	if err == nil {
		return noLock{}
	}
	if l.leaves(h) {
		l.giveBack()
	}
	return a.notHeld(err, g.Deadline)
}

// leaves ends the part that a reader was to have in what others share, and reports whether nobody has it any
// more.
func (l *Lock) leaves(h *readers.Holder) (last bool) {
	l.mu.Lock()
	defer l.unlock()
	return h.Leave()
}

// admitReaders has others share what the reader who has asked for them has got, unless that has
// changed since.
func admitReaders(a *acquisition) {
	h, l := a.asks, a.lock
	if h == nil {
		return
	}
	l.mu.Lock()
	defer l.unlock()
	// A command without an answer may take the key for the token later. Whoever gives that up must know.
	if l.cause() != nil || l.shown || !l.terms.Certain() || l.claim.Possible() > 0 {
		return
	}
	a.asks = nil
	l.share(h)
	h.Granted(readers.Grant{Fence: l.fence, Deadline: l.terms.Deadline(), Lease: l.lease}, clock.Now())
}

// leaveReaders leaves what a lock that has ended had to those who share it, and reports whether there are
// such. Then there is nothing to free, and it settles the Release. The caller holds the lock's mu.
func (r *releasing) leaveReaders() bool {
	if r.shared || !r.lock.left {
		return r.shared
	}
	r.shared = true
	if r.cause == nil || r.cause == released || r.cause == closed {
		r.freed = remote.Free
	}
	r.settle()
	return true
}
