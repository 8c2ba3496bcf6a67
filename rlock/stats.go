package rlock

import (
	"sync/atomic"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/histogram"
)

// Stats counts what the locks of a Locker have done since the Locker was made. Each field is exact, but
// they are read one after the other: a call that is under way may be in one and not yet in another.
type Stats struct {
	Acquired      uint64 // acquisitions that succeeded
	AcquireFailed uint64 // acquisitions that failed
	Attempts      uint64 // commands to acquire that were sent to the server, repeated ones and heartbeats included
	Contended     uint64 // acquisitions that found the lock held, or others before them
	HandedOver    uint64 // acquisitions to which the last holder, of this Locker, handed the lock over, and readers who share what another reader has
	Attached      uint64 // locks that Attach took over, and readers that Downgrade has made

	Waiting int64         // contended acquisitions that wait now
	Waited  time.Duration // total time of the contended acquisitions that have ended
	Waits   Histogram     // how long each of those took, but for calls that do not wait, such as TryAcquire
	Held    int           // locks that are held now: as many as Locks returns; a set, a share or several permits are one
	Holds   Histogram     // for how long those were held that have ended, in whatever way; at most until the end of the lease

	Extended     uint64 // leases extended
	ExtendFailed uint64 // attempts to extend that failed while the lease lasted; see EventExtendFailed

	Released      uint64 // locks released
	ReleaseFailed uint64 // locks given up without the server's confirmation
	Lost          uint64 // locks that the server said were lost
	Expired       uint64 // locks whose lease ended, counted when this process notices
	Detached      uint64 // locks ended with Detach or Downgrade
	Closed        uint64 // locks that ended with the Locker, counted when this process notices

	Checks    uint64 // calls of Locker.Check
	CacheHits uint64 // calls of Locker.Check that the client-side cache answered
}

// Histogram counts how long something took, in buckets whose bounds are powers of two of a second.
// Packages rlockprom and rlockotel publish it.
type Histogram struct {
	Counts [29]uint64 // how many took at most as long as the Bound of the index, and longer than the one before it
	Sum    float64    // of all, in seconds, each rounded to a microsecond
}

// Bound returns how long those of Counts[i] took at most, in seconds: 2^(i-14), from 61 µs to 2 h 16
// min, and +Inf for the last index.
func (Histogram) Bound(i int) float64 { return histogram.Bound(i) }

// Count returns how many there are in all.
func (h Histogram) Count() (n uint64) {
	for _, in := range h.Counts {
		n += in
	}
	return n
}

// Stats returns the counts. It sends nothing, takes some tens of nanoseconds for each lock that is
// held, and may be called at any time, also by an Observer and after Close.
//
// The Locker counts a lock as Expired at once when its lease ends if the lock has an observer, is extended
// automatically, was asked for its Context, or has other callers of the Locker waiting behind it. It may
// count any other lock only when a method of that lock notices.
func (l *Locker) Stats() Stats {
	if l.usable() != nil {
		return Stats{}
	}
	c := &l.counters
	event := func(kind EventKind) uint64 { return c.events[kind].Load() }
	hits, misses := c.hits.Load(), c.misses.Load()
	expired := c.expired.Load()
	held := 0
	if !l.isClosed() {
		held = l.registry.Count()
	}
	return Stats{
		Acquired:      event(EventAcquired),
		AcquireFailed: event(EventAcquireFailed),
		Attempts:      l.remote.Acquisitions(),
		Contended:     event(EventContended),
		HandedOver:    c.handedOver.Load(),
		Attached:      event(EventAttached),
		Waiting:       c.waiting.Load(),
		Waited:        time.Duration(c.waited.Load()),
		Waits:         Histogram{c.waits.Counts(), c.waits.Sum()},
		Held:          held,
		Holds:         Histogram{c.holds.Counts(), c.holds.Sum()},
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

// counters are what Stats shows. Padding keeps the counters that every acquisition or check
// writes off the cache lines that every goroutine reads.
type counters struct {
	_          [64]byte
	events     [eventKinds]atomic.Uint64
	expired    atomic.Uint64 // of the events that are EventLost
	handedOver atomic.Uint64
	waiting    atomic.Int64
	waited     atomic.Int64
	waits      histogram.Histogram
	holds      histogram.Histogram
	_          [64]byte
	hits       atomic.Uint64
	misses     atomic.Uint64
	_          [64]byte
}

// count counts an event.
func (c *counters) count(e *Event) {
	c.events[e.Kind].Add(1)
	if e.HandedOver {
		c.handedOver.Add(1)
	}
	if e.Kind == EventLost && e.Err == ErrExpired {
		c.expired.Add(1) // second, as Stats takes it off the first
	}
}

// addWait counts a contended acquisition that has ended after d, and whether it would have waited.
func (c *counters) addWait(d time.Duration, waits bool) {
	c.waited.Add(int64(d))
	if waits {
		c.waits.Add(d)
	}
}

// holdEnded counts that a lock which was held has ended. One that ended without a call, and was
// noticed later, was held until then and not until now. The caller holds mu.
func holdEnded(l *Lock, to state, now clock.Instant) {
	until := min(now, l.lease.Deadline())
	if to == stateClosed {
		until = l.locker.closedAt
	}
	l.locker.counters.holds.Add(time.Duration(until - l.since))
}
