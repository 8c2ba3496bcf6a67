package rlock

import (
	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/notify"
)

// Invalidations hears from the server that keys have changed. It lets waiting acquisitions
// try again at once. It lets the locks that are extended, and those whose Context was
// asked for, notice at once that they were lost, or that somebody else has shortened
// their lease. Open installs one. A client that is built elsewhere gets one through its
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
// Invalidations is for one client. Several Lockers of that client may share it. The client
// must pass every message on to it: if its callback leaves out a key, those who wait for that
// key wait until the lease ends. The server must also tell the client of the client's own
// changes, so its ClientTrackingOptions must not have NOLOOP, and prefixes of BCAST must cover
// the locks. Probe tells whether messages arrive.
//
// Without Invalidations, and where the client has no cache, waiting polls at the pace of
// the retry policy, and a loss is noticed by the next extension, as it always is on
// a cluster. A Locker of New polls too, every quarter of a second, until the first message
// about one of its keys has reached its Invalidations, because Invalidations may have been given to no
// client, or to another.
type Invalidations struct{ hub *notify.Hub }

// NewInvalidations returns Invalidations for one client.
func NewInvalidations() *Invalidations { return &Invalidations{notify.NewHub()} }

// OnInvalidations is for rueidis.ClientOption.OnInvalidations. To have a function of your own
// there too, set a function that calls both. OnInvalidations does not block.
func (i *Invalidations) OnInvalidations(messages []rueidis.RedisMessage) {
	i.hub.OnInvalidations(messages)
}
