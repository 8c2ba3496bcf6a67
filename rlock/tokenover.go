package rlock

import (
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/events"
)

// A token that has waited in a queue of the server is this process's until it is over. The message of a grant
// says nothing new about such a token; a grant of any other is given back at once. See notify.Grants.

// tokenOver notes that nobody has the tokens of a lease any more. With away, the keys may go on with them,
// and are given away. A token that the caller has chosen has not waited with this lock: if it has with
// another one, it is that one's. The caller holds mu, or is the Release that has ended the lock.
func (s *lease) tokenOver(away bool) {
	if s.claim.Chosen() {
		return
	}
	over := s.locker.grants.Over
	if away {
		over = s.locker.grants.PassOn
	}
	for _, token := range s.terms.Former() {
		over(token)
	}
	over(s.terms.Token())
}

// tokensOver ends locks that nobody has released, and whose leases have ended without anybody noticing.
func tokensOver(locks []*holder) {
	events.Each(locks, func(h *holder) {
		l := (*Lock)(h)
		defer l.deliver()
		l.mu.Lock()
		defer l.unlock()
		l.endIfOver()
	})
}

// goesOn reports whether the keys of a lock that has ended may go on with its token: it was detached. Or it
// is over here, and somebody who has asked for the token may have made the lease longer, or the keys are to
// keep others out for a little longer. The caller holds mu.
func goesOn(l *Lock, to state) bool {
	return to == stateDetached || to == stateExpired && (l.shown || keptUntil(l) > clock.Now())
}
