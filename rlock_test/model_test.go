package rlock_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
)

// model is what locks are: keys that have a token until a time. It does everything
// with real locks as well, one thing after the other, and checks every answer.
type model struct {
	t       *testing.T
	client  rueidis.Client
	slack   time.Duration // how far a remaining time may be off
	ttls    []time.Duration
	lockers []*lockerModel
	leases  map[string]lease
	handles []*handle
	fences  map[string]uint64 // the last of each key
}

// lease is what the server knows of a key.
type lease struct {
	token string
	end   time.Time // zero: never
}

// lockerModel is a Locker and the holders that it knows of without asking: one that
// has waited in line keeps the others of its process from asking.
type lockerModel struct {
	*rlock.Locker
	known map[string]*handle
}

// handle is a lock that was acquired, and what it has to say.
type handle struct {
	*rlock.Lock
	locker *lockerModel
	keys   []string
	token  string
	end    time.Time // zero: never
	why    error     // it has ended; nil: it is held
	freed  bool
}

func newModel(t *testing.T, client rueidis.Client, slack time.Duration, ttls ...time.Duration) *model {
	m := &model{t: t, client: client, slack: slack, ttls: ttls, leases: map[string]lease{}, fences: map[string]uint64{}}
	for range 2 {
		m.lockers = append(m.lockers, &lockerModel{newLocker(t, client), map[string]*handle{}})
	}
	return m
}

func over(end time.Time) bool { return !end.IsZero() && !time.Now().Before(end) }

// after is when a lease that begins now ends on the server, and to its holder, who
// counts with a clock that may differ by a thousandth.
func after(ttl time.Duration) (server, holder time.Time) {
	if ttl == rlock.NoExpiry {
		return time.Time{}, time.Time{}
	}
	return time.Now().Add(ttl), time.Now().Add(ttl - ttl/1000 - time.Millisecond)
}

// at returns the lease of a key, if somebody holds it.
func (m *model) at(key string) (lease, bool) {
	l, held := m.leases[key]
	if held && over(l.end) {
		delete(m.leases, key)
		return lease{}, false
	}
	return l, held
}

func (m *model) left(l lease) time.Duration {
	if l.end.IsZero() {
		return rlock.NoExpiry
	}
	return time.Until(l.end)
}

// sameTime compares remaining times.
func (m *model) sameTime(want, got time.Duration) {
	m.t.Helper()
	if want == rlock.NoExpiry || got == rlock.NoExpiry {
		require.Equal(m.t, want, got)
		return
	}
	require.InDelta(m.t, want, got, float64(m.slack))
}

// shows checks a State.
func (m *model) shows(key string, state rlock.State) {
	m.t.Helper()
	l, held := m.at(key)
	require.Equal(m.t, key, state.Key)
	require.Equal(m.t, held, state.Held)
	require.Equal(m.t, l.token, state.Token)
	if held {
		m.sameTime(m.left(l), state.Left)
	}
}

// notice ends a handle whose lease is over.
func (h *handle) notice() {
	if h.why == nil && over(h.end) {
		h.finish(rlock.ErrExpired)
	}
}

func (h *handle) finish(why error) {
	if h.why == nil {
		h.why = why
		h.leave()
	}
}

func (h *handle) leave() {
	if h.locker.known[h.keys[0]] == h {
		delete(h.locker.known, h.keys[0])
	}
}

// lost returns the first key of a handle that is not its own any more.
func (m *model) lost(h *handle) (key string, lost bool) {
	i := slices.IndexFunc(h.keys, func(key string) bool {
		l, held := m.at(key)
		return !held || l.token != h.token
	})
	if i < 0 {
		return "", false
	}
	return h.keys[i], true
}

// acquire takes keys, or not. It gives up at once, whatever way it asks.
func (m *model) acquire(locker *lockerModel, keys []string, ttl time.Duration, token string, wait bool) {
	opts := []rlock.Option{rlock.WithTTL(ttl), rlock.WithRetry(rlock.Fixed(time.Millisecond).MaxAttempts(1))}
	if token != "" {
		opts = append(opts, rlock.WithToken(token))
	}
	alone := len(keys) == 1 && token == ""
	first := locker.known[keys[0]]
	waits := alone && first != nil && first.why == nil && !over(first.end)

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
	if waits {
		require.Error(m.t, err)
		return
	}
	if alone && wait {
		delete(locker.known, keys[0])
	}
	for _, key := range keys {
		if l, held := m.at(key); held && l.token != token {
			require.Error(m.t, err, "%s is held", key)
			require.Equal(m.t, key, facts.Key)
			m.sameTime(m.left(l), facts.Left)
			return
		}
	}
	require.NoError(m.t, err)
	h := &handle{Lock: lock, locker: locker, keys: keys, token: lock.Token()}
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
	if _, lost := m.lost(h); lost {
		h.finish(rlock.ErrLost)
		require.ErrorIs(m.t, err, rlock.ErrLost)
		return
	}
	require.NoError(m.t, err)
	var end time.Time
	end, h.end = after(ttl)
	for _, key := range h.keys {
		m.leases[key] = lease{h.token, end}
	}
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
	state, err := h.Check(m.t.Context())
	h.notice()
	if h.why != nil {
		require.ErrorIs(m.t, err, h.why)
		return
	}
	if key, lost := m.lost(h); lost {
		h.finish(rlock.ErrLost)
		require.ErrorIs(m.t, err, rlock.ErrLost)
		m.shows(key, state)
		return
	}
	require.NoError(m.t, err)
	least := rlock.NoExpiry
	for _, key := range h.keys {
		l, _ := m.at(key)
		least = min(least, m.left(l))
	}
	m.sameTime(least, state.Left)
}

func (m *model) detach(h *handle) {
	err := h.Detach()
	h.notice()
	if h.why != nil && h.why != rlock.ErrDetached { // twice is fine
		require.ErrorIs(m.t, err, h.why)
		return
	}
	require.NoError(m.t, err)
	h.finish(rlock.ErrDetached)
}

// attach carries on with the keys of a handle, on any locker.
func (m *model) attach(locker *lockerModel, of *handle) {
	lock, err := locker.Attach(m.t.Context(), of.token, of.Fence(), of.keys...)
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
		return
	}
	require.NoError(m.t, err)
	m.handles = append(m.handles, &handle{Lock: lock, locker: locker, keys: of.keys, token: of.token, end: end})
}

func (m *model) forceRelease(locker *lockerModel, key, token string) {
	err := locker.ForceRelease(m.t.Context(), key, token)
	if l, held := m.at(key); !held || l.token != token {
		require.ErrorIs(m.t, err, rlock.ErrLost)
		return
	}
	require.NoError(m.t, err)
	delete(m.leases, key)
	if h := locker.known[key]; h != nil && h.token == token {
		h.finish(rlock.ErrLost)
	}
}

func (m *model) inspect(locker *lockerModel, key string) {
	state, err := locker.Inspect(m.t.Context(), key)
	require.NoError(m.t, err)
	m.shows(key, state)
	state, err = locker.Check(m.t.Context(), key)
	require.NoError(m.t, err)
	m.shows(key, state)
}

// agrees compares everything that can be seen.
func (m *model) agrees(keys []string) {
	m.t.Helper()
	for _, key := range keys {
		l, _ := m.at(key)
		require.Equal(m.t, l.token, get(m.t, m.client, key), key)
	}
	held := map[*lockerModel]int{}
	for _, h := range m.handles {
		valid := h.why == nil && !over(h.end)
		require.Equal(m.t, valid, h.Valid())
		if valid {
			held[h.locker]++
			require.WithinDuration(m.t, h.end, h.Deadline(), m.slack)
		}
	}
	for _, locker := range m.lockers {
		require.Len(m.t, locker.Held(), held[locker])
	}
}
