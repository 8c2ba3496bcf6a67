package rlock

import (
	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/notify"
)

// Invalidations hears from the server that keys have changed. So those who wait notice at once that a
// key is free, and locks that are extended, or were asked for their Context, that they were lost. Open
// installs one. A client that is built elsewhere gets one through its options, and its Locker through
// WithInvalidations:
//
//	invalidations := rlock.NewInvalidations()
//	client, err := rueidis.NewClient(rueidis.ClientOption{
//		InitAddress:     addresses,
//		OnInvalidations: invalidations.OnInvalidations,
//	})
//	…
//	locker, err := rlock.New(client, rlock.WithInvalidations(invalidations))
//
// It is for one client, whose Lockers may share it. The client must pass every message on to it, and be
// told of its own changes too: ClientTrackingOptions without NOLOOP, and BCAST prefixes that cover the
// locks. Probe tells whether messages arrive.
//
// Without it, and where the client has no cache, the next extension notices a loss, and the next
// heartbeat of a waiter that a key was deleted. Where there is no queue between processes
// either, waiting polls: at the pace of the retry policy, or every quarter of a second until a first
// message has shown that the Invalidations are those of the client.
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
