package rlock

import (
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// keepFor keeps others out for d from now. The caller holds mu.
func (l *Lock) keepFor(d time.Duration, now clock.Instant) {
	if d > 0 {
		l.needExtras()
		l.minimum = &minimum{until: now.After(d)}
	}
}

// keptUntil returns when the keys may be free. The caller holds mu.
func (l *Lock) keptUntil() clock.Instant {
	if l.extras == nil || l.minimum == nil {
		return clock.Past
	}
	return l.minimum.until
}

// keepNobodyOut undoes keepFor, because the work under the lock has not begun.
func (l *Lock) keepNobodyOut() {
	l.mu.Lock()
	defer l.unlock()
	if l.extras != nil {
		l.minimum = nil
	}
}
