package rlock

import (
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/histogram"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Stats counts what the locks of a Locker have done since the Locker was made. Each field is exact, but Stats
// reads one field after the other: one field may count a call under way, and another field may not.
type Stats struct {
	Acquired      uint64 // acquisitions that succeeded
	AcquireFailed uint64 // acquisitions that failed
	// commands to acquire that were sent to the server, with repeated commands and heartbeats
	Attempts  uint64
	Contended uint64 // acquisitions that found the lock held, or other waiters before them
	// acquisitions that got the lock from the last holder if that holder was of this Locker; also readers
	// that joined the share of another reader
	HandedOver uint64
	Attached   uint64 // locks that Attach took over

	// Waiting is the number of acquisitions that wait now. They wait for other holders and waiters, or for
	// the server. An acquisition waits for the server if its last try got no answer, if the server cannot
	// serve yet, or if the server has been silent for a second. Unanswered is how many acquisitions wait for
	// the server. One caller of a line asks on behalf of the line, so all callers of the line count.
	// OldestWait is how long the oldest of the acquisitions has waited. A candidate of Lead waits
	// while others lead, so OldestWait counts a candidate only if the server does not answer.
	Waiting    int64
	Unanswered int64
	OldestWait time.Duration

	Polling bool // all callers poll: WithQueue(false), or the user lacks a right for the queue

	Waited time.Duration // total time of contended acquisitions that have ended
	Waits  Histogram     // how long each of them took, without calls that do not wait, such as TryAcquire
	// locks that are held now, as many as Locks returns; a set, a share or several permits count as one
	Held int
	// how long each ended lock was held, however it ended; the time after the end of its lease does not count
	Holds Histogram

	Extended     uint64 // leases extended
	ExtendFailed uint64 // attempts to extend that failed while the lease lasted; see EventExtendFailed

	Released      uint64 // locks released
	ReleaseFailed uint64 // locks given up without the server's confirmation
	Lost          uint64 // locks that the server said were lost
	Expired       uint64 // locks whose lease ended, counted when this process notices the end
	Detached      uint64 // locks ended with Detach
	Closed        uint64 // locks that ended with the Locker, counted when this process notices the end

	AcquireFailedBy, ExtendFailedBy, ReleaseFailedBy Failures // the same by their reasons

	Checks    uint64 // calls of Locker.Check
	CacheHits uint64 // calls of Locker.Check that the client-side cache answered
}

// Histogram counts durations in buckets. The bounds are powers of two of a second. Packages rlockprom and
// rlockotel export it.
type Histogram struct {
	// durations of at most the Bound of the index, and longer than the Bound before
	Counts [29]uint64
	Sum    float64 // of all durations, in seconds, each rounded to a microsecond
}

// Bound returns the longest duration in Counts[i], in seconds: 2^(i-14), from 61 µs to 2 h 16 min, and +Inf
// for the last index.
func (Histogram) Bound(i int) float64 { return histogram.Bound(i) }

// Count returns the number of all durations.
func (h Histogram) Count() (n uint64) {
	for _, in := range h.Counts {
		n += in
	}
	return n
}

// Stats returns the counts. It sends nothing, and takes some tens of nanoseconds for each lock that is held
// or waited for. An Observer may call Stats, and so may any caller after Close. If no caller extends,
// observes or waits for a lock, Stats may count the lock as Expired only after a method of the lock notices
// the end.
func (l *Locker) Stats() Stats {
	if l.usable() != nil {
		return Stats{}
	}
	c := &l.counters
	event := func(kind EventKind) uint64 { return c.events[kind].Load() }
	hits, misses := c.hits.Load(), c.misses.Load()
	held := 0
	if !l.isClosed() {
		held = l.registry.Count()
	}
	waiting, unanswered, oldest := l.waitingNow()
	return Stats{
		Acquired:        event(EventAcquired),
		AcquireFailed:   event(EventAcquireFailed),
		Attempts:        l.wire.Acquisitions(),
		Contended:       event(EventContended),
		HandedOver:      c.handedOver.Load(),
		Attached:        event(EventAttached),
		Waiting:         waiting,
		Unanswered:      unanswered,
		OldestWait:      oldest,
		Polling:         !l.wire.Queues().Used() && !l.wire.Backed(),
		Waited:          time.Duration(c.waited.Load()),
		Waits:           Histogram{c.waits.Counts(), c.waits.Sum()},
		Held:            held,
		Holds:           Histogram{c.holds.Counts(), c.holds.Sum()},
		Extended:        event(EventExtended),
		ExtendFailed:    event(EventExtendFailed),
		Released:        event(EventReleased),
		ReleaseFailed:   event(EventReleaseFailed),
		Lost:            event(EventLost),
		Expired:         event(EventExpired),
		Detached:        event(EventDetached),
		Closed:          event(EventClosed),
		AcquireFailedBy: c.failures(EventAcquireFailed),
		ExtendFailedBy:  c.failures(EventExtendFailed),
		ReleaseFailedBy: c.failures(EventReleaseFailed),
		Checks:          hits + misses,
		CacheHits:       hits,
	}
}

// waitingNow returns how many acquisitions wait now, how many of them wait for the server, and how long the
// oldest has waited. A candidate of Lead waits while others lead, so the oldest is a candidate only if the
// candidate waits for the server.
func (l *Locker) waitingNow() (all, unanswered int64, oldest time.Duration) {
	now := clock.Now()
	l.waiters.Each(func(w *waiter) {
		silent := w.own.handle().Silence().Lasts(now) >= wire.LongestAnswer
		switch state := (*Lock)(w).stateNow(); {
		case state == stateUnanswered:
			silent = true
		case state != stateWaiting && !silent:
			return // the server will have answered soon
		}
		all++
		if silent {
			unanswered++
		}
		if silent || !w.by.lead {
			oldest = max(oldest, time.Duration(now-w.since))
		}
	})
	return all, unanswered, oldest
}
