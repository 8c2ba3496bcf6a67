package rlock

import "time"

// Pause is what the policy answers to an attempt.
func (r Retry) Pause(a Attempt) (time.Duration, bool) { return r.next(a) }

// Transit has the lock's lease be on its way from one lock to the next while f runs.
func (l *Lock) Transit(f func()) {
	l.mu.Lock()
	l.removeUser(l)
	l.unlock()
	f()
	l.mu.Lock()
	defer l.unlock()
	l.addUser(l)
	l.watchOrEnd()
}
