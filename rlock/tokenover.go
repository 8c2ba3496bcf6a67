package rlock

import "github.com/rlock-go/toolkit/rlock/internal/clock"

// A token that has waited in a queue of the server is this process's until it is over. The message of a grant
// says nothing new about such a token; a grant of any other is given back at once. See notify.Grants.

// tokenOver notes that nobody has the tokens of a lock any more. With away, the keys may go on with them, and
// are given away. A token that the caller has chosen has not waited with this lock: if it has with another
// one, it is that one's. The caller holds mu, or is the Release that has ended the lock.
func (l *Lock) tokenOver(away bool) {
	if l.claim.Chosen() {
		return
	}
	over := l.locker.grants.Over
	if away {
		over = l.locker.grants.PassOn
	}
	for _, token := range l.lease.Former() {
		over(token)
	}
	over(l.lease.Token())
}

// tokensOver does so for locks that nobody has released, and whose leases have ended without anybody
// noticing.
func tokensOver(locks []*holder) {
	for _, h := range locks {
		l := (*Lock)(h)
		l.mu.Lock()
		if l.stateNow() == stateHeld {
			if l.token == tokenShared {
				leaveReaders(l, stateExpired) // the last of them has the token
			}
			if l.token != tokenMoved {
				l.tokenOver(goesOn(l, stateExpired))
			}
		}
		l.unlock()
	}
}

// goesOn reports whether the keys of a lock that has ended may go on with its token: it was detached. Or it
// is over here, and somebody who has asked for the token may have made the lease longer, or the keys are to
// keep others out for a little longer. The caller holds mu.
func goesOn(l *Lock, to state) bool {
	return to == stateDetached || to == stateExpired && (l.token == tokenShown || keptUntil(l) > clock.Now())
}
