package rlock

import (
	"sync/atomic"
	"time"
)

// Stats are what the locks of a Locker have done since it was made. Each field is
// exact; they are read one after the other, so calls under way may show in one and
// not in another.
type Stats struct {
	Acquired      uint64 // acquisitions that succeeded
	AcquireFailed uint64 // acquisitions that did not
	Attempts      uint64 // tries to acquire that were sent to the server
	Contended     uint64 // acquisitions that found the lock held, or others before them
	HandedOver    uint64 // acquisitions that got the lock straight from its last holder
	Attached      uint64 // locks carried on with Attach

	Waiting int64         // contended acquisitions that are neither through nor given up, now
	Waited  time.Duration // what contended acquisitions took, those that ended, all in all

	Extended     uint64 // leases extended
	ExtendFailed uint64 // attempts to extend that got an error for an answer, or none

	Released      uint64 // locks released
	ReleaseFailed uint64 // locks given up while the server could not be told
	Lost          uint64 // locks that the server said were lost
	Expired       uint64 // locks whose lease ended, once anybody has noticed
	Detached      uint64 // locks let go of with Detach
	Closed        uint64 // locks that ended with the Locker, once anybody has noticed

	Checks    uint64 // calls of Locker.Check
	CacheHits uint64 // those that were answered from the client-side cache
}

// Stats returns the counts. It asks nobody and may be called at any time, by an
// Observer and after Close too.
//
// A lock that was left to its lease, without an observer, automatic extension or
// Context, is not looked after and counts as Expired only when a method of it, or the
// next acquisition here, has come upon it.
func (l *Locker) Stats() Stats {
	if l.usable() != nil {
		return Stats{}
	}
	c := &l.counters
	event := func(kind EventKind) uint64 { return c.events[kind].Load() }
	hits, misses := c.hits.Load(), c.misses.Load()
	expired := c.expired.Load()
	return Stats{
		Acquired:      event(EventAcquired),
		AcquireFailed: event(EventAcquireFailed),
		Attempts:      c.attempts.Load(),
		Contended:     event(EventContended),
		HandedOver:    c.handedOver.Load(),
		Attached:      event(EventAttached),
		Waiting:       c.waiting.Load(),
		Waited:        time.Duration(c.waited.Load()),
		Extended:      event(EventExtended),
		ExtendFailed:  event(EventExtendFailed),
		Released:      event(EventReleased),
		ReleaseFailed: event(EventReleaseFailed),
		Lost:          event(EventLost) - expired,
		Expired:       expired,
		Detached:      event(EventDetached),
		Closed:        event(EventClosed),
		Checks:        hits + misses,
		CacheHits:     hits,
	}
}

// counters are what Stats shows. Those that every acquisition or check writes are
// kept off the cache lines that everybody reads.
type counters struct {
	_          [64]byte
	events     [eventKinds]atomic.Uint64
	expired    atomic.Uint64 // of the events that are EventLost
	handedOver atomic.Uint64
	attempts   atomic.Uint64
	waiting    atomic.Int64
	waited     atomic.Int64
	_          [64]byte
	hits       atomic.Uint64
	misses     atomic.Uint64
	_          [64]byte
}
