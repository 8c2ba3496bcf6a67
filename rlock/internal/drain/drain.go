// Package drain counts the calls that are under way, lets no more begin once it is told so, and says when the
// last one has ended.
//
// It does not know what the calls do.
package drain

import (
	"math"
	"sync"
	"sync/atomic"
)

// Drain lets calls begin until Stop. Make one with New.
type Drain struct {
	stop    sync.Once
	stopped chan struct{}
	emptied sync.Once
	empty   chan struct{}
	_       [64]byte     // every call reads what is above, and writes what is below
	calls   atomic.Int64 // under way; math.MinInt64 more after Stop
}

// New returns a Drain without calls.
func New() *Drain {
	return &Drain{stopped: make(chan struct{}), empty: make(chan struct{})}
}

// Enter begins a call, which must Leave. It reports false after Stop: the call must not begin, nor Leave.
func (d *Drain) Enter() bool {
	if d.calls.Add(1) > 0 {
		return true
	}
	d.Leave()
	return false
}

// Leave ends a call.
func (d *Drain) Leave() {
	if d.calls.Add(-1) == math.MinInt64 {
		d.emptied.Do(func() { close(d.empty) })
	}
}

// Stop lets no call begin any more. It reports whether it is the first Stop.
func (d *Drain) Stop() (first bool) {
	d.stop.Do(func() {
		first = true
		close(d.stopped)
		d.calls.Add(math.MinInt64 + 1)
		d.Leave()
	})
	return first
}

// Stopped is closed by Stop.
func (d *Drain) Stopped() <-chan struct{} { return d.stopped }

// Empty is closed when Stop was called and no call is under way.
func (d *Drain) Empty() <-chan struct{} { return d.empty }
