package rlock

import (
	"hash/maphash"
	"slices"
	"sync"

	"github.com/redis/rueidis"
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
// must pass every message on to it: a callback that leaves messages out makes those
// wait for a lease who wait for keys that it leaves out. What the client is told must
// include its own changes, so its ClientTrackingOptions must not have NOLOOP, and
// prefixes of BCAST must cover the locks. Probe tells whether messages arrive.
//
// Without Invalidations, and where the client has no cache, waiting polls at the pace of
// the retry policy, and a loss is noticed by the next extension, as it always is on
// a cluster. A Locker of New polls too, every quarter of a second, until the first message
// about one of its keys has reached its Invalidations, because Invalidations may have been given to no
// client, or to another.
type Invalidations struct {
	seed   maphash.Seed
	shards [16]watchers
}

// watchers are those who want to know that some keys change.
type watchers struct {
	mu      sync.Mutex
	waiting map[string]*watchList // a list for each Locker
	holding map[string][]*Lock
}

// NewInvalidations returns Invalidations for one client.
func NewInvalidations() *Invalidations {
	h := &Invalidations{seed: maphash.MakeSeed()}
	for i := range h.shards {
		h.shards[i].waiting = map[string]*watchList{}
		h.shards[i].holding = map[string][]*Lock{}
	}
	return h
}

// OnInvalidations is for rueidis.ClientOption.OnInvalidations. To have a function
// of one's own there too, call both. It does not block.
func (h *Invalidations) OnInvalidations(messages []rueidis.RedisMessage) {
	if messages == nil { // all keys, or the connection is gone
		for i := range h.shards {
			h.shards[i].wakeAll()
		}
		return
	}
	for _, m := range messages {
		if key, err := m.ToString(); err == nil {
			h.shard(key).wake(key)
		}
	}
}

func (h *Invalidations) shard(key string) *watchers {
	return &h.shards[maphash.String(h.seed, key)%uint64(len(h.shards))]
}

// hold has l told when key changes.
func (h *Invalidations) hold(key string, l *Lock) {
	w := h.shard(key)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.holding[key] = append(w.holding[key], l)
}

// drop takes hold back.
func (h *Invalidations) drop(key string, l *Lock) {
	w := h.shard(key)
	w.mu.Lock()
	defer w.mu.Unlock()
	list := slices.DeleteFunc(w.holding[key], func(other *Lock) bool { return other == l })
	if len(list) == 0 {
		delete(w.holding, key)
		return
	}
	w.holding[key] = list
}

func (w *watchers) wake(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for list := w.waiting[key]; list != nil; list = list.other {
		list.locker.hear()
		list.head.signal()
	}
	for _, l := range w.holding[key] {
		l.locker.hear()
		l.changed()
	}
}

// hear notes that the server tells of changed keys.
func (l *Locker) hear() {
	if !l.heard.Load() {
		l.heard.Store(true)
	}
}

func (w *watchers) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, list := range w.waiting {
		for ; list != nil; list = list.other {
			list.head.signal()
		}
	}
	for _, list := range w.holding {
		for _, l := range list {
			l.changed()
		}
	}
}
