package readers_test

import (
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/readers"
)

const (
	turn = 10 * time.Millisecond
	ttl  = 10 * time.Second
)

var kind = readers.Kind{Key: "k", TTL: ttl}

func newReaders() *readers.Readers {
	var r readers.Readers
	r.Init(turn)
	return &r
}

// enter is Enter for a reader that waits, and requires what the reader is to do.
func enter(t *testing.T, r *readers.Readers, now clock.Instant, want readers.Role) *readers.Holder {
	t.Helper()
	h, role := r.Enter(kind, true, now)
	require.Equal(t, want, role)
	return h
}

func grant(h *readers.Holder, now clock.Instant) {
	h.Granted(readers.Grant{Lease: "t", Fence: 7, Deadline: clock.LeaseEnd(now, ttl)}, now)
}

func woken(signal <-chan struct{}) bool {
	select {
	case <-signal:
		return true
	default:
		return false
	}
}

// One reader asks, those who wait and those who come in time share what it gets, and the last gives it up.
func TestReadersShareAHolder(t *testing.T) {
	t.Parallel()
	r, now := newReaders(), clock.Now()
	h := enter(t, r, now, readers.Asks)
	require.Same(t, h, enter(t, r, now, readers.Waits))
	require.Same(t, h, enter(t, r, now, readers.Waits))
	granted, vacancy := h.Wake()
	require.Equal(t, readers.Waits, h.Ready())
	require.False(t, woken(granted))
	grant(h, now)
	require.True(t, woken(granted))
	require.False(t, woken(vacancy))
	require.Equal(t, readers.Shares, h.Ready())
	require.Equal(t, readers.Shares, h.Quit(), "it has it")
	require.Equal(t, readers.Grant{Lease: "t", Fence: 7, Deadline: clock.LeaseEnd(now, ttl)}, h.Grant())
	require.Same(t, h, enter(t, r, now.After(turn-1), readers.Shares))
	for range 3 {
		require.False(t, h.Leave())
	}
	require.True(t, h.Leave())
	require.NotSame(t, h, enter(t, r, now, readers.Asks), "nobody revives it")
}

// New readers do not share a Holder that somebody else may wait for, or of whose lease much is over.
func TestNobodySharesForLong(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind   readers.Kind
		after  time.Duration
		shares bool
	}{
		"in its turn":           {kind, turn - 1, true},
		"at the end of it":      {kind, turn, false},
		"a short lease":         {readers.Kind{Key: "k", TTL: 100 * time.Millisecond}, time.Millisecond, true},
		"a short lease, later":  {readers.Kind{Key: "k", TTL: 100 * time.Millisecond}, 2 * time.Millisecond, false},
		"without an end":        {readers.Kind{Key: "k", TTL: clock.NoExpiry}, turn - 1, true},
		"without an end, later": {readers.Kind{Key: "k", TTL: clock.NoExpiry}, turn, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, now := newReaders(), clock.Now()
			h, role := r.Enter(test.kind, true, now)
			require.Equal(t, readers.Asks, role)
			h.Granted(readers.Grant{Lease: "t", Deadline: clock.LeaseEnd(now, test.kind.TTL)}, now)
			next, role := r.Enter(test.kind, true, now.After(test.after))
			require.Equal(t, test.shares, role == readers.Shares)
			require.Equal(t, test.shares, h == next)
			_, role = r.Enter(readers.Kind{Key: "k", TTL: test.kind.TTL, Owner: "ann"}, true, now)
			require.Equal(t, readers.Asks, role, "another owner")
		})
	}
}

// If the one who asks gets nothing, the next asks, with the place of the first.
func TestTheNextAsks(t *testing.T) {
	t.Parallel()
	r, now := newReaders(), clock.Now()
	h := enter(t, r, now, readers.Asks)
	for range 3 {
		enter(t, r, now, readers.Waits)
	}
	_, vacancy := h.Wake()
	h.LeaveScore(42)
	h.Failed()
	enter(t, r, now, readers.Waits) // which is no reason to overtake
	require.True(t, woken(vacancy), "one of them")
	require.False(t, woken(vacancy), "and no other")
	require.Equal(t, readers.Asks, h.Ready())
	require.Equal(t, int64(42), h.Score())
	require.Equal(t, readers.Waits, h.Ready())

	h.Failed()
	require.Equal(t, readers.Quits, h.Quit(), "it need not take what it is woken for")
	require.True(t, woken(vacancy))
	require.Equal(t, readers.Asks, h.Ready())
	h.Failed()
	require.Equal(t, readers.Quits, h.Quit())
	require.NotSame(t, h, enter(t, r, now, readers.Asks), "nobody waits for it any more")

	alone := enter(t, newReaders(), now, readers.Asks)
	alone.Failed()
}

// A reader that does not want to wait asks for itself while another asks.
func TestWhoDoesNotWaitAsksForItself(t *testing.T) {
	t.Parallel()
	r, now := newReaders(), clock.Now()
	h := enter(t, r, now, readers.Asks)
	own, role := r.Enter(kind, false, now)
	require.Equal(t, readers.Asks, role)
	require.NotSame(t, h, own)
	grant(own, now)
	require.Same(t, h, enter(t, r, now, readers.Waits), "nobody shares that")
	require.True(t, own.Leave())
	grant(h, now)
	again, role := r.Enter(kind, false, now)
	require.Equal(t, readers.Shares, role)
	require.Same(t, h, again)
}

// Readers who never leave cost no memory for keys that nobody asks for again.
func TestForgetsWhatNobodyCanShare(t *testing.T) {
	t.Parallel()
	r, now := newReaders(), clock.Now()
	for i := range 100_000 {
		h, role := r.Enter(readers.Kind{Key: strconv.Itoa(i), TTL: ttl}, true, now)
		require.Equal(t, readers.Asks, role)
		grant(h, now)
		now = now.After(turn / 10)
	}
	require.Less(t, r.Len(), 2000)
}

// What ends the sharing.
func TestEnds(t *testing.T) {
	t.Parallel()
	now := clock.Now()
	shared := func(t *testing.T) (*readers.Readers, *readers.Holder) {
		r := newReaders()
		h := enter(t, r, now, readers.Asks)
		grant(h, now)
		enter(t, r, now, readers.Shares)
		return r, h
	}
	t.Run("one has it alone", func(t *testing.T) {
		r, h := shared(t)
		require.False(t, h.Own(), "there are two")
		enter(t, r, now, readers.Shares)
		require.False(t, h.Leave())
		require.False(t, h.Leave())
		require.True(t, h.Own())
		require.False(t, h.Own())
		enter(t, r, now, readers.Asks)
	})
	t.Run("closed", func(t *testing.T) {
		r, h := shared(t)
		h.Close()
		enter(t, r, now, readers.Asks)
		require.False(t, h.Leave())
		require.True(t, h.Own())
	})
}

// Whatever readers do at the same time, each grant is given up exactly once, by the last that has it,
// and nobody has it after that.
func TestReadersAtTheSameTime(t *testing.T) {
	t.Parallel()
	r := newReaders()
	var given, freed, shares atomic.Int64
	var alive sync.Map // of each Holder that was granted: how many have it
	var wrong atomic.Bool
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range 3000 {
				h, role := r.Enter(kind, rand.N(4) > 0, clock.Now())
				for role == readers.Waits {
					granted, vacancy := h.Wake()
					select {
					case <-granted:
					case <-vacancy:
					}
					if role = h.Ready(); role == readers.Waits && rand.N(8) == 0 {
						role = h.Quit()
					}
				}
				switch role {
				case readers.Quits:
					continue
				case readers.Asks:
					if rand.N(4) == 0 {
						h.Failed()
						continue
					}
					given.Add(1)
					alive.Store(h, true)
					grant(h, clock.Now())
				case readers.Shares:
					shares.Add(1)
				}
				if _, is := alive.Load(h); !is {
					wrong.Store(true)
				}
				runtime.Gosched() // otherwise one may be done before the next begins
				if rand.N(16) == 0 {
					h.Close()
				}
				if h.Leave() {
					freed.Add(1)
					alive.Delete(h)
				}
			}
		})
	}
	work.Wait()
	require.False(t, wrong.Load(), "somebody has what was given up")
	require.Equal(t, given.Load(), freed.Load())
	require.NotZero(t, shares.Load())
}
