package fuzz

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
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

	longest time.Duration // lease that was asked for with the token
	own     bool          // the token was chosen
	handoff rlock.Handoff // once it is detached
}

func newModel(t *testing.T, client rueidis.Client, slack time.Duration, ttls ...time.Duration) *model {
	m := &model{t: t, client: client, slack: slack, ttls: ttls, leases: map[string]lease{},
		fences: map[string]uint64{}}
	for range 2 {
		m.lockers = append(m.lockers, &lockerModel{env.NewLocker(t, client), map[string]*handle{}})
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
	require.Equal(m.t, l.token, state.Token())
	if held {
		m.sameTime(m.left(l), state.Remaining())
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

// agrees compares everything that can be seen.
func (m *model) agrees(keys []string) {
	m.t.Helper()
	for _, key := range keys {
		l, _ := m.at(key)
		require.Equal(m.t, l.token, env.Get(m.t, m.client, key), key)
	}
	held := map[*lockerModel]int{}
	for _, h := range m.handles {
		valid := h.why == nil && !over(h.end)
		require.Equal(m.t, valid, h.Err() == nil)
		if valid {
			held[h.locker]++
			require.WithinDuration(m.t, h.end, h.Deadline(), m.slack)
		}
	}
	for _, locker := range m.lockers {
		require.Len(m.t, locker.Locks(), held[locker])
	}
}
