package rlock

import (
	"sync/atomic"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/histogram"
)

// counters has the counts of Stats. Padding separates counters that every acquisition or check writes from
// the cache lines that every goroutine reads.
type counters struct {
	_          [64]byte
	events     [eventKinds]atomic.Uint64
	failed     [eventKinds][failureReasons]atomic.Uint64
	handedOver atomic.Uint64
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
	if reason := e.Reason(); reason != 0 {
		c.failed[e.Kind][reason].Add(1)
	}
	if e.HandedOver {
		c.handedOver.Add(1)
	}
}

// failures returns the counts of a kind of events by their reasons.
func (c *counters) failures(kind EventKind) (f Failures) {
	for reason := range f {
		f[reason] = c.failed[kind][reason].Load()
	}
	return f
}

// addWait counts a contended acquisition that has ended after d. waits says whether the call waits.
func (c *counters) addWait(d time.Duration, waits bool) {
	c.waited.Add(int64(d))
	if waits {
		c.waits.Add(d)
	}
}
