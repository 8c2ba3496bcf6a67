package place

import (
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Refusal says until when an acquisition asks for no place, because the server has refused it one.
// With the zero Refusal it asks.
type Refusal struct{ until clock.Instant }

// Note begins the time in which the acquisition asks for no place.
func (r *Refusal) Note() { r.until = clock.Now().After(wire.Patience) }

// Lasts reports whether the acquisition must not ask for a place.
func (r Refusal) Lasts() bool { return r.until != 0 && clock.Now() < r.until }

// End returns when an acquisition that waits without a place must ask for one again, however long its
// policy pauses: others who pass the key on in the queue never let it be free.
func (r Refusal) End() clock.Instant {
	if r.Lasts() {
		return r.until
	}
	return clock.Never
}
