package place

import (
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// Bar says until when an acquisition asks for no place, because the server has refused it one. The
// zero Bar lets it ask.
type Bar struct{ until clock.Instant }

// Set begins the time in which the acquisition asks for no place.
func (b *Bar) Set() { b.until = clock.Now().After(remote.Patience) }

// On reports whether the acquisition must not ask for a place.
func (b Bar) On() bool { return b.until != 0 && clock.Now() < b.until }

// End returns when an acquisition that waits for pause without a place must ask for one again. If it
// waits until the key is free, it must: others who pass the key on in the queue never let it be free.
func (b Bar) End(pause time.Duration) clock.Instant {
	if pause == clock.NoExpiry && b.On() {
		return b.until
	}
	return clock.Never
}
