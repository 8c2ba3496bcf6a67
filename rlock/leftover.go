package rlock

import (
	"errors"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// noteLeftover notes that the keys of a lock which has expired here may have its token for a little longer:
// for the margin for clock drift, and for as long as the last command about the lease was under way. The
// token is nobody's then, unless the caller has chosen it or asked for it, so that another may hold by it,
// or others of this process go on with it, or the keys are to keep others out until the end. The caller
// holds mu.
func (l *Lock) noteLeftover() {
	now := clock.Now()
	if l.tokenShown || l.claim.Chosen() || l.keptUntil() > now {
		return
	}
	until := now.After(time.Second + min(l.terms.Longest()/100, time.Minute))
	l.locker.leftover.Add(l.claim.Keys(), l.terms.Tokens(), until)
}

// freeExpired has the reaper free the keys of a lock that has expired here, because the server may still
// have a lease of ttl. It waits until the time of WithMinHold is over: the lease may have ended earlier,
// by the margin for clock drift. It frees nothing if the token is another holder's: a reader's lock may
// expire before those of others who share what it has. The caller holds mu.
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

// tokenLives reports whether the keys of a lock that has ended may go on with its token: it was detached.
// Or it is over here, and somebody who has asked for the token may have made the lease longer, or the keys
// are to keep others out for a little longer. The caller holds mu.
func (l *Lock) tokenLives(to state) bool {
	lives := l.tokenShown || l.keptUntil() > clock.Now()
	return to == stateDetached || errors.Is(causes[to], expired) && lives
}
