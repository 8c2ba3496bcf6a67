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
	kind, now := readers.Kind{Key: l.claim.Key(), Owner: l.set.owner, TTL: l.lease.TTL()}, a.start
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
	l.lease.SetToken(g.Token)
	l.token, l.shared = tokenShared, h
	err := l.hold(g.Deadline, g.Fence, arrival{EventAcquired, a.start, true, 0})
	l.mu.Lock()
	defer l.unlock()
	if err != nil {
		if h.Leave() {
			a.tries.MayHaveTaken()
		} else {
			l.lease.SetToken("") // others have it, so nothing that follows may free it
		}
		l.token = tokenMoved
		return a.notHeld(err, g.Deadline)
	}
	switch extended, gone := h.Fate(); {
	case gone:
		l.finish(stateLost)
	case extended && l.cause() == nil && !l.watched:
		l.watch()
	}
	return noLock{}
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
	if l.cause() != nil || l.token != tokenPrivate || !l.lease.Certain() || l.claim.Possible() > 0 {
		return
	}
	a.asks = nil
	l.token, l.shared = tokenShared, h
	h.Granted(readers.Grant{Token: l.lease.Token(), Fence: l.fence, Deadline: l.lease.Deadline()}, clock.Now())
}

// leaveReaders ends the part of a reader, whose lock has ended, in what it shares with others. It reports
// whether another reader may have made the lease longer. The caller holds mu.
func leaveReaders(l *Lock, to state) (extended bool) {
	h := l.shared
	if l.token == tokenShared {
		if to == stateLost && h.Lose() {
			go eachReader(l.locker, h, func(other *Lock) { other.finish(stateLost) })
		}
		if !h.Leave() {
			l.token = tokenMoved
			return false
		}
		l.token = tokenPrivate
	}
	extended, _ = h.Fate()
	return extended
}

// leaveReaders leaves what a lock that has ended had to those who share it, and reports whether there are
// such. Then there is nothing to free, and it settles the Release. The caller holds the lock's mu.
func (r *releasing) leaveReaders() bool {
	l := r.lock
	if r.shared || l.shared == nil || l.token != tokenMoved {
		return r.shared
	}
	r.shared = true
	if r.cause == nil || r.cause == released || r.cause == closed {
		r.freed = remote.Free
	}
	r.settle()
	return true
}

// extendsForAll reports whether an extension of a lock is also one for other readers, who share what
// it has. The caller holds mu.
func extendsForAll(l *Lock) bool {
	if l.token != tokenShared {
		return false
	}
	if l.shared.Own() {
		l.token = tokenPrivate
		return false
	}
	if l.shared.Extend() {
		// The lease at the server may be longer than theirs from now on, so their ends must be noticed.
		go eachReader(l.locker, l.shared, func(other *Lock) {
			if !other.watched {
				other.watch()
			}
		})
	}
	return true
}

// eachReader calls do for the locks of the readers who share a Holder, or of the last who has it alone
// now; see eachLock.
func eachReader(l *Locker, h *readers.Holder, do func(*Lock)) {
	eachLock(l, func(lock *Lock) bool { return lock.shared == h && lock.cause() == nil }, do)
}
