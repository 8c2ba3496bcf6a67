// Package histogram counts lengths of time in buckets.
//
// The bounds of the buckets are powers of two of a second, so they are exact as float64. They are the
// bounds of Prometheus with schema 0, and of OpenTelemetry with scale 0. Histograms of several processes
// can be added up.
package histogram

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// Size is the number of buckets.
const Size = 29

// lowest is the power of two of the first bound: 61 µs, about a call to a near server.
const lowest = -14

// Bound returns the upper bound of a bucket in seconds. It is 2^-14 for the first bucket, 2^13 for the last
// but one, and +Inf for the last. The bound itself is in the bucket.
func Bound(bucket int) float64 {
	if bucket >= Size-1 {
		return math.Inf(1)
	}
	return math.Ldexp(1, bucket+lowest)
}

// Histogram counts lengths of time. It has no mutex, and any goroutine may use it at any time.
type Histogram struct {
	counts [Size]atomic.Uint64
	sum    atomic.Uint64 // in microseconds: many waits of years would be too much for nanoseconds
}

// Add counts one length of time. A negative one counts as zero.
func (h *Histogram) Add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucket(d)].Add(1)
	h.sum.Add(uint64(d.Round(time.Microsecond) / time.Microsecond))
}

// bucket returns the bucket for a length of time that is not negative.
func bucket(d time.Duration) int {
	const most = time.Second << (Size - 2 + lowest)
	if d > most {
		return Size - 1
	}
	// d in units of the first bound, rounded up
	units := (uint64(d)<<-lowest + uint64(time.Second) - 1) / uint64(time.Second)
	if units == 0 {
		return 0
	}
	return bits.Len64(units - 1)
}

// Counts returns how many lengths of time are in each bucket.
func (h *Histogram) Counts() (counts [Size]uint64) {
	for i := range h.counts {
		counts[i] = h.counts[i].Load()
	}
	return counts
}

// Sum returns the sum of the lengths of time in seconds. Each is rounded to a microsecond.
func (h *Histogram) Sum() float64 { return float64(h.sum.Load()) / 1e6 }
