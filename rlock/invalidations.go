package rlock

import (
	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/notify"
)

// Invalidations hears from the server that keys have changed. With it, those who wait for a key
// notice at once that it is free without a grant: its lease has ended, somebody has deleted it, or
// the server keeps no queue (see "Waiting" above). Locks that are extended, or were asked for their
// Context, notice at once that they were lost, or that somebody else has shortened their lease. Open
// installs one.
// A client that is built elsewhere gets one through its options, and its Locker through
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
// Invalidations is for one client. Several Lockers of that client may share it. The client
// must pass every message on to it: if its callback leaves out a key, those who wait for that
// key wait until the lease ends. The server must also tell the client of the client's own
// changes, so its ClientTrackingOptions must not have NOLOOP, and prefixes of BCAST must cover
// the locks. Probe tells whether messages arrive.
//
// Without Invalidations, and where the client has no cache, the next extension notices a loss, as it
// always does on a cluster, and the next heartbeat of a waiter notices that the key was deleted. Where
// there is no queue, waiting polls at the pace of the retry policy. A Locker of New polls there too,
// every quarter of a second, until the first message about one of its keys has reached its
// Invalidations, because these may have been given to no client, or to another.
type Invalidations struct{ hub *notify.Hub }

// NewInvalidations returns Invalidations for one client.
func NewInvalidations() *Invalidations { return &Invalidations{notify.NewHub()} }

// OnInvalidations is for rueidis.ClientOption.OnInvalidations. To have a function of your own
// there too, set a function that calls both. OnInvalidations does not block.
func (i *Invalidations) OnInvalidations(messages []rueidis.RedisMessage) {
	i.hub.OnInvalidations(messages)
}
