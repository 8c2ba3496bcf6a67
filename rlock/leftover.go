package rlock

import (
	"errors"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// noteLeftover notes that the keys of an expired lock may have its token a little longer. There are two
// causes: the margin for clock drift, and the time that the last command about the lease was under way. The
// token may still matter, and then noteLeftover does nothing. It matters if a caller has chosen it or asked
// for it, if other users of this process go on with it, or if WithMinHold keeps others out. The caller holds
// mu.
func (l *Lock) noteLeftover() {
	now := clock.Now()
	if l.tokenShown || l.claim.Chosen() || l.keptUntil() > now {
		return
	}
	until := now.After(time.Second + min(l.terms.Longest()/100, time.Minute))
	l.locker.leftover.Add(l.claim.Keys(), l.terms.Tokens(), until)
}

// freeExpired lets the reaper free the keys of an expired lock, because the server may still have a lease of
// ttl. The reaper waits for the end of WithMinHold. The lease may have ended earlier, by the margin for clock
// drift. freeExpired frees nothing if another holder has the same token: a reader's lock may expire before
// the locks of other readers of the share. The caller holds mu.
func (l *Lock) freeExpired(ttl time.Duration) {
	if l.leaseGone {
		return
	}
	if until := l.keptUntil(); until > clock.Now() {
		l.locker.wire.FreeLater(&l.claim, l.terms.Token(), l.terms.Former(), until)
		return
	}
	l.locker.wire.Abandon(&l.claim, l.terms.Tokens(), ttl)
}

// tokenLives reports whether the keys of an ended lock may keep its token. The lock was detached. Or it has
// expired here, and a program with the token may have made the lease longer, or WithMinHold keeps others out
// a little longer. The caller holds mu.
func (l *Lock) tokenLives(to state) bool {
	lives := l.tokenShown || l.keptUntil() > clock.Now()
	return to == stateDetached || errors.Is(causes[to], expired) && lives
}
