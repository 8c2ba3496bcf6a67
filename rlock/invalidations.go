package rlock

import (
	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/notify"
)

// Invalidations receives the server's messages about changed keys. So waiters notice at once that a key is
// free, and holders notice at once that a lock was lost. Open installs Invalidations. For another client, set
// it in the options of the client, and give it to the Locker with WithInvalidations:
//
//	invalidations := rlock.NewInvalidations()
//	client, err := rueidis.NewClient(rueidis.ClientOption{
//		InitAddress:     addresses,
//		OnInvalidations: invalidations.OnInvalidations,
//	})
//	…
//	locker, err := rlock.New(client, rlock.WithInvalidations(invalidations))
//
// Invalidations serves one client, and all Lockers of that client. ClientTrackingOptions must not have
// NOLOOP, and its BCAST prefixes must cover the locks. Probe reports whether messages arrive. Without
// messages, a holder notices a loss at its next extension, and callers that poll do so up to four times a
// second.
type Invalidations struct{ hub *notify.Hub }

// NewInvalidations returns Invalidations for one client.
func NewInvalidations() *Invalidations { return &Invalidations{notify.NewHub()} }

// OnInvalidations is for rueidis.ClientOption.OnInvalidations. It does not block. To use a second function,
// set a function that calls both.
func (i *Invalidations) OnInvalidations(messages []rueidis.RedisMessage) {
	if i != nil && i.hub != nil {
		i.hub.OnInvalidations(messages)
	}
}
