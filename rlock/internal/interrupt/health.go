package interrupt

import (
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Health tells whether a client of Open keeps no call for longer than its context lasts. A nil Health never
// says so.
type Health struct {
	dials    func() bool // whether a connection is being dialled, for which calls may wait
	most     int64       // calls at the same time, which fit in half a ring
	calls    atomic.Int64
	recovers time.Duration // after a failure: calls without an answer are out of the rings
	failed   atomic.Int64  // until that long after the last failure; 0: there was none
}

// NewHealth returns the Health of a client that is to be built with the option. dials reports whether it dials, and
// noticed is the time in which it knows that a connection is dead.
func NewHealth(option *rueidis.ClientOption, dials func() bool, noticed time.Duration) *Health {
	pipelines := option.OnInvalidations != nil || option.AlwaysPipelining // others do once calls go at the same time
	if !pipelines || option.DisableAutoPipelining {
		return nil
	}
	scale := option.RingScaleEachConn
	if scale <= 0 {
		scale = rueidis.DefaultRingScale
	}
	return &Health{dials: dials, most: 1 << scale / 2, recovers: min(noticed, time.Minute)}
}

// enter reports whether a call may do without a goroutine. It calls leave when it has returned.
func (h *Health) enter() bool {
	if h == nil {
		return false
	}
	if h.calls.Add(1) > h.most || h.dials() || h.hasFailed() { // in this order: see Waited
		h.leave()
		return false
	}
	return true
}

func (h *Health) leave() { h.calls.Add(-1) }

func (h *Health) hasFailed() bool {
	failed := h.failed.Load()
	if failed == 0 {
		return false
	}
	if clock.Now() < clock.Instant(failed) {
		return true
	}
	h.failed.CompareAndSwap(failed, 0)
	return false
}

// Waited reports whether a dial that has just begun may keep calls waiting that heed no context: those that have
// begun before it.
func (h *Health) Waited() bool { return h != nil && h.calls.Load() > 0 }

// see notes a result. One without an answer may still be in a ring, and later ones behind it.
func (h *Health) see(result rueidis.RedisResult) {
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
