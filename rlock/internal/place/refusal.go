package place

import (
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Refusal remembers that the server has refused a place to an acquisition. The acquisition asks for no
// place until the Refusal ends. The zero Refusal has ended.
type Refusal struct{ until clock.Instant }

// Note begins the time in which the acquisition asks for no place.
func (r *Refusal) Note() { r.until = clock.Now().After(wire.Patience) }

// Lasts reports whether the acquisition must not ask for a place.
func (r Refusal) Lasts() bool { return r.until != 0 && clock.Now() < r.until }

// End returns when an acquisition without a place must ask for one again, however long its policy pauses.
// Other processes may pass the key on in the queue forever, so the key is never free for this one.
func (r Refusal) End() clock.Instant {
	if r.Lasts() {
		return r.until
	}
	return clock.Never
}
