package rlock

import (
	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/notify"
)

// Invalidations hears from the server that keys have changed, so that those who wait notice at once that a
// key is free, and holders that a lock was lost. Open installs one. Another client gets one through its
// options, and its Locker through WithInvalidations:
//
//	invalidations := rlock.NewInvalidations()
//	client, err := rueidis.NewClient(rueidis.ClientOption{
//		InitAddress:     addresses,
//		OnInvalidations: invalidations.OnInvalidations,
//	})
//	…
//	locker, err := rlock.New(client, rlock.WithInvalidations(invalidations))
//
// It is for one client, whose Lockers may share it. ClientTrackingOptions must be without NOLOOP, and BCAST
// prefixes must cover the locks. Probe tells whether messages arrive. Without them, the next extension
// notices a loss, and callers that poll do so up to four times a second.
type Invalidations struct{ hub *notify.Hub }

// NewInvalidations returns Invalidations for one client.
func NewInvalidations() *Invalidations { return &Invalidations{notify.NewHub()} }

// OnInvalidations is for rueidis.ClientOption.OnInvalidations. It does not block. To have a function of
// your own there too, set one that calls both.
func (i *Invalidations) OnInvalidations(messages []rueidis.RedisMessage) {
	if i != nil && i.hub != nil {
		i.hub.OnInvalidations(messages)
	}
}
