package fuzz

import (
	"errors"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// acquire takes keys, or not. It gives up at once, whatever way it asks.
func (m *model) acquire(locker *lockerModel, keys []string, ttl time.Duration, token string, wait bool) {
	opts := []rlock.Option{rlock.WithTTL(ttl), rlock.WithRetry(rlock.Fixed(time.Millisecond).MaxAttempts(1))}
	if token != "" {
		opts = append(opts, rlock.WithToken(token))
	}
	alone := len(keys) == 1 && token == ""
	first := locker.known[keys[0]]
	behind := alone && first != nil && first.why == nil && !over(first.end)
	if behind { // before it gives up, it asks the server about that holder, which may learn that it is none
		if _, lost := m.lost(first); lost {
			first.finish(rlock.ErrLost)
			behind = false
		}
	}

	var lock *rlock.Lock
	var err error
	switch {
	case len(keys) > 1 && wait:
		lock, err = locker.AcquireAll(m.t.Context(), keys, opts...)
	case len(keys) > 1:
		lock, err = locker.TryAcquireAll(m.t.Context(), keys, opts...)
	case wait:
		lock, err = locker.Acquire(m.t.Context(), keys[0], opts...)
	default:
		lock, err = locker.TryAcquire(m.t.Context(), keys[0], opts...)
	}
	var facts *rlock.AcquireError
	if err != nil {
		require.ErrorAs(m.t, err, &facts)
		require.ErrorIs(m.t, err, rlock.ErrHeld)
		require.Equal(m.t, wait, errors.Is(err, rlock.ErrGaveUp))
	}
	if alone && wait && !behind { // it was the front
		delete(locker.known, keys[0])
	}
	for _, key := range keys {
		if l, held := m.at(key); held && l.token != token {
			require.Error(m.t, err, "%s is held", key)
			require.Equal(m.t, key, facts.Key)
			m.sameTime(m.left(l), facts.Remaining)
			return
		}
	}
	require.NoError(m.t, err)
	h := &handle{Lock: lock, locker: locker, keys: keys, token: lock.Token(), longest: ttl, own: token != ""}
	if token != "" {
		require.Equal(m.t, token, h.token)
	}
	var end time.Time
	end, h.end = after(ttl)
	for _, key := range keys {
		if l, held := m.at(key); held && (l.end.IsZero() || !end.IsZero() && l.end.After(end)) {
			continue // a confirmed lease is never cut
		}
		m.leases[key] = lease{h.token, end}
	}
	if alone && wait {
		locker.known[keys[0]] = h
	}
	m.took(h)
}

// took notes a handle whose fence must be new.
func (m *model) took(h *handle) {
	for _, key := range h.keys {
		require.Greater(m.t, h.Fence(), m.fences[key], key)
		m.fences[key] = h.Fence()
	}
	m.handles = append(m.handles, h)
}

func (m *model) extend(h *handle, ttl time.Duration) {
	err := h.Extend(m.t.Context(), ttl)
	h.notice()
	if h.why != nil {
		require.ErrorIs(m.t, err, h.why)
		return
	}
	if h.own && ttl < h.longest {
		require.ErrorIs(m.t, err, rlock.ErrInvalid, "others may have the token too")
		return
	}
	if _, lost := m.lost(h); lost {
		h.finish(rlock.ErrLost)
		require.ErrorIs(m.t, err, rlock.ErrLost)
		return
	}
	require.NoError(m.t, err)
	end, mine := after(ttl)
	if token := h.Token(); token != h.token { // the lease was shortened
		require.Less(m.t, ttl, h.longest)
		for _, key := range h.keys {
			m.leases[key] = lease{token, end}
		}
		h.token, h.longest, h.end = token, ttl, mine
		return
	}
	require.GreaterOrEqual(m.t, ttl, h.longest-m.slack)
	h.longest, h.end = max(h.longest, ttl), later(h.end, mine)
	for _, key := range h.keys {
		m.leases[key] = lease{h.token, later(m.leases[key].end, end)}
	}
}

// later returns the later end of a lease; zero is never.
func later(a, b time.Time) time.Time {
	if a.IsZero() || b.IsZero() {
		return time.Time{}
	}
	if a.After(b) {
		return a
	}
	return b
}

func (m *model) release(h *handle) {
	err := h.Release(m.t.Context())
	h.notice()
	switch {
	case h.freed:
		require.ErrorIs(m.t, err, rlock.ErrReleased)
		return
	case errors.Is(h.why, rlock.ErrDetached):
		require.ErrorIs(m.t, err, rlock.ErrDetached)
		return
	}
	h.freed = true
	freed := 0
	for _, key := range h.keys {
		if l, held := m.at(key); held && l.token == h.token {
			delete(m.leases, key)
			freed++
		}
	}
	switch {
	case freed == len(h.keys):
		require.NoError(m.t, err)
	case h.why == nil:
		require.ErrorIs(m.t, err, rlock.ErrLost)
	default:
		require.ErrorIs(m.t, err, h.why)
	}
	h.finish(rlock.ErrReleased)
}

func (m *model) check(h *handle) {
	err := h.Verify(m.t.Context())
	h.notice()
	if h.why != nil {
		require.ErrorIs(m.t, err, h.why)
		return
	}
	if key, lost := m.lost(h); lost {
		h.finish(rlock.ErrLost)
		require.ErrorIs(m.t, err, rlock.ErrLost)
		require.ErrorContains(m.t, err, strconv.Quote(key))
		return
	}
	require.NoError(m.t, err)
}

func (m *model) detach(h *handle) {
	handoff, err := h.Detach()
	h.notice()
	if h.why != nil && h.why != rlock.ErrDetached { // twice is fine
		require.ErrorIs(m.t, err, h.why)
		return
	}
	require.NoError(m.t, err)
	h.handoff = handoff
	h.finish(rlock.ErrDetached)
}

// attach carries on with the keys of a detached handle, on any locker.
func (m *model) attach(locker *lockerModel, of *handle) {
	lock, err := locker.Attach(m.t.Context(), of.handoff)
	if of.handoff == (rlock.Handoff{}) {
		require.ErrorIs(m.t, err, rlock.ErrInvalid)
		return
	}
	if _, lost := m.lost(of); lost {
		require.ErrorIs(m.t, err, rlock.ErrLost)
		return
	}
	least := rlock.NoExpiry
	for _, key := range of.keys {
		l, _ := m.at(key)
		least = min(least, m.left(l))
	}
	if least != rlock.NoExpiry {
		least = least.Truncate(time.Millisecond)
	}
	_, end := after(least)
	if over(end) {
		require.ErrorIs(m.t, err, rlock.ErrExpired)
		for _, key := range of.keys { // the server has done it
			m.leases[key] = lease{env.Get(m.t, m.client, key), m.leases[key].end}
		}
		return
	}
	require.NoError(m.t, err)
	h := &handle{Lock: lock, locker: locker, keys: of.keys, token: lock.Token(), end: end, longest: least}
	for _, key := range of.keys {
		m.leases[key] = lease{h.token, m.leases[key].end}
	}
	m.handles = append(m.handles, h)
}

func (m *model) forceRelease(locker *lockerModel, key, token string) {
	err := env.Admin(locker.Locker).ForceRelease(m.t.Context(), key, token)
	if l, held := m.at(key); !held || l.token != token {
		require.ErrorIs(m.t, err, rlock.ErrLost)
		return
	}
	require.NoError(m.t, err)
	delete(m.leases, key)
}

func (m *model) inspect(locker *lockerModel, key string) {
	holder := env.HolderOf(m.t, locker.Locker, key)
	l, held := m.at(key)
	require.Equal(m.t, l.token, holder.Token())
	if held {
		m.sameTime(m.left(l), holder.Remaining)
	}
	state, err := locker.Check(m.t.Context(), key)
	require.NoError(m.t, err)
	m.shows(key, state)
}
