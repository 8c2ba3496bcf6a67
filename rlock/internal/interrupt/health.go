package interrupt

import (
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// health tells whether a client of Open keeps no call for longer than its context lasts. A nil health never
// says so.
type health struct {
	dials    func() bool // whether a connection is being dialled, for which calls may wait
	most     int64       // calls at the same time, which fit in half a ring
	calls    atomic.Int64
	recovers time.Duration // after a failure: calls without an answer are out of the rings
	failed   atomic.Int64  // until that long after the last failure; 0: there was none
}

func newHealth(option *rueidis.ClientOption, dials Dials) *health {
	scale := option.RingScaleEachConn
	if scale <= 0 {
		scale = rueidis.DefaultRingScale
	}
	return &health{dials: dials.Underway, most: 1 << scale / 2, recovers: min(dials.Noticed, time.Minute)}
}

// enter reports whether a call may do without a goroutine. It calls leave when it has returned.
func (h *health) enter() bool {
	if h == nil || h.dials() {
		return false
	}
	if failed := h.failed.Load(); failed != 0 {
		if clock.Now() < clock.Instant(failed) {
			return false
		}
		h.failed.CompareAndSwap(failed, 0)
	}
	if h.calls.Add(1) > h.most {
		h.calls.Add(-1)
		return false
	}
	return true
}

func (h *health) leave() { h.calls.Add(-1) }

// see notes a result. One without an answer may still be in a ring, and later ones behind it.
func (h *health) see(result rueidis.RedisResult) {
	if result.NonRedisError() != nil {
		h.failed.Store(int64(clock.Now().After(h.recovers)))
	}
}

// hits has the calls of a client of the user's that should be answered from its cache, as the last ones were.
// They do without a goroutine, which would take several times as long as they do. If the connection is lost in
// that moment, mostHits of them may have to wait for the next.
type hits struct {
	calls atomic.Int64
	last  atomic.Int64 // when one was answered
}

const (
	mostHits   = 16
	hitsRecent = 10 * time.Millisecond
)

func (h *hits) enter() bool {
	if last := h.last.Load(); last == 0 || clock.Now() > clock.Instant(last).After(hitsRecent) {
		return false
	}
	if h.calls.Add(1) > mostHits {
		h.calls.Add(-1)
		return false
	}
	return true
}

func (h *hits) leave() { h.calls.Add(-1) }

func (h *hits) see(result rueidis.RedisResult) {
	if result.IsCacheHit() {
		h.last.Store(int64(clock.Now()))
	}
}
