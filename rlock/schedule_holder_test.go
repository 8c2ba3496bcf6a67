package rlock_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock"
)

// schedule is what is known of a run of random steps.
type schedule struct {
	t       *testing.T
	seed    uint64
	redis   *redis
	lockers []*rlock.Locker
	keys    []string
	calm    bool // no reply is lost
	alike   bool // all locks have the same lease, and may have the same token
	closes  bool // the first locker is closed meanwhile

	mu      sync.Mutex
	held    map[string][]*holding // by key, in the order in which they were taken
	fences  map[string]uint64     // the last of each key
	meddled map[string]int        // how often a stranger has changed each key
	since   map[string][]int      // holding.meddled of the first holder with a token
}

// holding is a lock that a worker has, or asks for.
type holding struct {
	lock    *rlock.Lock
	keys    []string
	meddled []int // what the stranger had done when it was asked for
	long    bool  // its lease does not run out by itself
	tokens  map[string]bool
}

// owns reports whether a token is one that the lock has, or had: until an Extend that
// shortens the lease is confirmed, the keys may have either. The schedule's mu is held.
func (h *holding) owns(token string) bool {
	if h.tokens == nil {
		h.tokens = map[string]bool{}
	}
	h.tokens[h.lock.Token()] = true
	return h.tokens[token]
}

// wrong reports what must not be. It may be called from any goroutine.
func (s *schedule) wrong(format string, args ...any) {
	s.t.Errorf("seed %d: "+format, append([]any{s.seed}, args...)...)
}

func (s *schedule) asking(keys []string) *holding {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &holding{keys: keys}
	for _, key := range keys {
		h.meddled = append(h.meddled, s.meddled[key])
	}
	return h
}

// meddling does something to a key in a stranger's place.
func (s *schedule) meddling(key string, do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meddled[key]++
	do()
}

// disturbed reports whether a stranger has changed a key of h. The caller holds mu.
func (s *schedule) disturbed(h *holding) bool {
	for i, key := range h.keys {
		if s.meddled[key] != h.meddled[i] {
			return true
		}
	}
	return false
}

// took notes a lock that a worker has now.
func (s *schedule) took(h *holding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Whoever is handed a token on has what its last holder had, be it lost or not.
	if meddled, shared := s.since[h.lock.Token()]; shared {
		h.meddled = meddled
	}
	s.since[h.lock.Token()] = h.meddled
	h.owns("") // notes the token
	if h.lock.Err() == nil && !s.disturbed(h) {
		for _, key := range h.keys {
			if last := s.fences[key]; h.lock.Fence() <= last {
				s.wrong("key %q: fence %d after %d", key, h.lock.Fence(), last)
			}
			s.fences[key] = h.lock.Fence()
		}
	}
	for _, key := range h.keys {
		s.held[key] = append(s.held[key], h)
	}
	s.check()
}

// look checks what must be so at any time.
func (s *schedule) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.check()
}

// check is look. The caller holds mu.
func (s *schedule) check() {
	for key, list := range s.held {
		list = slices.DeleteFunc(list, func(h *holding) bool { return h.lock.Err() != nil })
		s.held[key] = list
		var holder *holding
		for _, h := range list {
			if s.disturbed(h) {
				continue
			}
			value, _ := s.redis.Get(key)
			switch {
			case h.lock.Err() != nil:
			case !h.owns(value):
				s.wrong("key %q of %q has %q although %q is valid for %v", key, h.keys, value, h.lock.Token(),
					time.Until(h.lock.Deadline()))
			case holder != nil && holder.lock.Err() == nil:
				s.wrong("key %q has two holders, with fences %d and %d", key, holder.lock.Fence(), h.lock.Fence())
			default:
				holder = h
			}
		}
	}
}

// hold does random things with a lock until it has ended, or is left to its lease.
func (s *schedule) hold(ctx context.Context, draw *draw, h *holding) {
	lock := h.lock
	watched := draw.oneIn(2)
	if watched {
		lock.Context()
	}
	for range draw.IntN(4) {
		s.look()
		switch draw.IntN(5) {
		case 0, 1:
			time.Sleep(time.Duration(draw.IntN(5)) * step)
		case 2:
			s.extend(ctx, draw, h)
		case 3:
			_ = lock.Verify(ctx)
		case 4:
			if draw.oneIn(10) {
				time.Sleep(2 * draw.ttl())
			}
		}
	}
	s.look()
	if !h.long && draw.oneIn(8) {
		if handoff, err := lock.Detach(); err == nil {
			s.ended(h, rlock.ErrDetached)
			if draw.oneIn(2) {
				s.attach(ctx, draw, h, handoff)
			}
			return
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if draw.oneIn(4) {
		cancel()
	}
	err := lock.Release(ctx)
	s.released(h, err)
	if draw.oneIn(4) {
		if again := lock.Release(ctx); s.calm && !errors.Is(again, rlock.ErrReleased) {
			s.wrong("the second release: %v", again)
		}
	}
}

// attach carries on with a detached lock, on any locker.
func (s *schedule) attach(ctx context.Context, draw *draw, h *holding, handoff rlock.Handoff) {
	lock, err := pick(draw, s.lockers...).Attach(ctx, handoff)
	switch {
	case err == nil:
		s.hold(ctx, draw, &holding{lock: lock, keys: h.keys, meddled: h.meddled})
	case errors.Is(err, rlock.ErrLost):
		s.excused(h, err)
	case s.calm && !errors.Is(err, rlock.ErrExpired) && !errors.Is(err, rlock.ErrClosed):
		s.wrong("attach: %v", err)
	}
}

func (s *schedule) extend(ctx context.Context, draw *draw, h *holding) {
	ttl := draw.ttl()
	start := time.Now()
	err := h.lock.Extend(ctx, ttl)
	switch {
	case err == nil:
		left := time.Until(h.lock.Deadline())
		least := ttl - ttl/1000 - time.Millisecond - time.Since(start)
		if left > ttl || left < least {
			s.wrong("extended by %v, %v are left", ttl, left)
		}
	case errors.Is(err, rlock.ErrNotHeld):
		if h.lock.Err() == nil {
			s.wrong("valid after %v", err)
		}
	case s.calm && !errors.Is(err, rlock.ErrClosed):
		s.wrong("extend: %v", err)
	}
}

// released checks the answer of the first Release.
func (s *schedule) released(h *holding, err error) {
	switch {
	case err == nil:
		s.ended(h, rlock.ErrReleased)
	case errors.Is(err, rlock.ErrLost), errors.Is(err, rlock.ErrExpired):
		s.ended(h, rlock.ErrNotHeld)
		s.excused(h, err)
	case s.calm && !errors.Is(err, rlock.ErrClosed):
		s.wrong("release: %v", err)
	}
}

// excused checks that a lock was not lost for nothing.
func (s *schedule) excused(h *holding, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.disturbed(h) && s.calm && time.Now().Before(h.lock.Deadline()) {
		s.wrong("%v, with %v left", err, time.Until(h.lock.Deadline()))
	}
}

// ended checks that a lock tells why it has ended.
func (s *schedule) ended(h *holding, why error) {
	if h.lock.Err() == nil {
		s.wrong("valid after its end")
	}
	ctx := h.lock.Context()
	select {
	case <-ctx.Done():
	default:
		s.wrong("the context outlives the lock")
	}
	cause := context.Cause(ctx)
	if !errors.Is(cause, why) && !errors.Is(cause, rlock.ErrClosed) &&
		!(why == rlock.ErrReleased && errors.Is(cause, rlock.ErrExpired)) {
		s.wrong("it ended with %v, not %v", cause, why)
	}
}
