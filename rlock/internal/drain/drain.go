// Package drain counts the calls under way. Once told to stop, it lets no call begin, and says when the
// last one has ended.
//
// It does not know what the calls do.
package drain

import (
	"math"
	"sync"
	"sync/atomic"
)

// Drain lets calls begin until Stop. New makes a Drain.
type Drain struct {
	stop    sync.Once
	stopped chan struct{}
	emptied sync.Once
	empty   chan struct{}
	_       [64]byte     // every call reads the fields above, and writes the one below
	calls   atomic.Int64 // under way; math.MinInt64 more after Stop
}

// New returns a Drain without calls.
func New() *Drain {
	return &Drain{stopped: make(chan struct{}), empty: make(chan struct{})}
}

// Enter begins a call, which must Leave. After Stop it reports false: the call must not begin, and must not
// Leave.
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

// Stop lets no call begin from now on. It reports whether it is the first Stop.
func (d *Drain) Stop() (first bool) {
	d.stop.Do(func() {
		first = true
		close(d.stopped)
		d.calls.Add(math.MinInt64 + 1)
		d.Leave()
	})
	return first
}

// Stopped returns a channel that Stop closes.
func (d *Drain) Stopped() <-chan struct{} { return d.stopped }

// Empty returns a channel that is closed once Stop was called and no call is under way.
func (d *Drain) Empty() <-chan struct{} { return d.empty }
