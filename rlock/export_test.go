package rlock

import "time"

// Pause is what the policy answers to an attempt.
func (r Retry) Pause(a Attempt) (time.Duration, bool) { return r.next(a) }
