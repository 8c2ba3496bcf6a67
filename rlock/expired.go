package rlock

import (
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/attempt"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// leaveExpired notes that the keys of a lock which has expired here may have its token for a little longer:
// for the margin for clock drift, and for as long as the last command about the lease was under way. The
// token is nobody's then, unless the caller has chosen it or asked for it, so that another may hold by it,
// or others of this process go on with it, or the keys are to keep others out until the end. The caller
// holds mu.
func (l *Lock) leaveExpired() {
	now := clock.Now()
	if l.shown || l.claim.Chosen() || keptUntil(l) > now {
		return
	}
	until := now.After(time.Second + min(l.terms.Longest()/100, time.Minute))
	l.locker.leftover.Add(l.claim.Keys(), l.terms.Tokens(), until)
}

// afterExpired takes the outcome of the attempt of a caller who does not wait. If the key in the way has
// nothing but the token of a lock of this Locker that has expired, it frees the key, which goes to the first
// who waits for it, and tries again.
func (a *acquisition) afterExpired(
	grant attempt.Grant, why attempt.Setback,
) (attempt.Grant, attempt.Setback) {
	for !a.lock.want.wait && why.Kind == attempt.Busy && a.freesLeftover(a.tries.Blocker.Key) {
		grant, why = a.tries.Try(a.ctx)
	}
	return grant, why
}

func (a *acquisition) freesLeftover(key string) (freed bool) {
	l := a.lock.locker
	if h := l.holder(key); h != nil {
		h.expire() // perhaps nobody has noticed yet that it has
	}
	for _, token := range l.leftover.Take(key) {
		if _, err := l.remote.ReleaseWhile(a.ctx, key, token); err != nil {
			return false
		}
		freed = true
	}
	return freed
}
