package queue

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

const limit = time.Second

type tickets = Ticket[string, int, *holding]

// holding is a Holder.
type holding struct {
	end  clock.Instant
	over atomic.Bool
}

func (h *holding) Deadline() clock.Instant { return h.end }
func (h *holding) Over() bool              { return h.over.Load() }

// isReady reports whether a ticket that waits has come to the front.
func isReady(t *tickets) bool {
	select {
	case <-t.Ready():
		return true
	default:
		return false
	}
}

// join makes a ticket for the key "k" that must wait, or must not.
func join(t *testing.T, q *Queue[string, int, *holding], request string, wantFirst bool) *tickets {
	t.Helper()
	ticket := new(tickets)
	_, first := q.Join(ticket, "k", request)
	require.Equal(t, wantFirst, first)
	return ticket
}

func TestFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	q := New[string, int, *holding](limit)
	a := join(t, q, "a", true)
	b, c, d := join(t, q, "b", false), join(t, q, "c", false), join(t, q, "d", false)
	_, handed := c.Leave()
	require.False(t, handed)
	a.Leave()
	require.True(t, isReady(b))
	_, handed = b.Granted()
	require.False(t, handed)
	require.False(t, isReady(d))
	b.Leave()
	require.True(t, isReady(d))
	d.Leave()
	d.Leave() // once more changes nothing
	join(t, q, "e", true)
}

func TestKeysHaveNothingToDoWithEachOther(t *testing.T) {
	t.Parallel()
	q := New[string, int, *holding](limit)
	for i := range 1000 {
		_, first := q.Join(new(tickets), fmt.Sprint(i), "")
		require.True(t, first)
	}
}

func TestHandOver(t *testing.T) {
	t.Parallel()
	q := New[string, int, *holding](limit)
	a := join(t, q, "a", true)
	a.Hold(&holding{end: clock.Never})
	_, ok := a.Offer()
	require.False(t, ok, "nobody waits")
	b, c := join(t, q, "b", false), join(t, q, "c", false)
	o, ok := a.Offer()
	require.True(t, ok)
	require.Equal(t, "b", o.Request)
	require.True(t, o.Grant(7))
	require.True(t, isReady(b))
	g, handed := b.Granted()
	require.Equal(t, 7, g)
	require.True(t, handed)
	require.False(t, isReady(c))
	require.Nil(t, q.Holder("k"), "b has not begun to hold it")
	require.True(t, b.Hold(&holding{end: clock.Never}), "c waits behind")
	_, ok = a.Offer()
	require.False(t, ok, "a has gone")
	a.Leave()
	require.False(t, isReady(c))
	b.Leave()
	require.True(t, isReady(c))
}

// Whatever a hand-over meets, nobody is lost and nobody comes twice.
func TestHandOverToOneWhoLeaves(t *testing.T) {
	t.Parallel()
	t.Run("before it is granted", func(t *testing.T) {
		t.Parallel()
		q := New[string, int, *holding](limit)
		a := join(t, q, "a", true)
		b, c := join(t, q, "b", false), join(t, q, "c", false)
		o, _ := a.Offer()
		g, handed := b.Leave()
		require.False(t, handed)
		require.Zero(t, g)
		require.False(t, o.Grant(7))
		o, ok := a.Offer()
		require.True(t, ok, "a is still the front")
		require.Equal(t, "c", o.Request)
		require.True(t, o.Grant(8))
		require.True(t, isReady(c))
	})
	t.Run("after it was granted", func(t *testing.T) {
		t.Parallel()
		q := New[string, int, *holding](limit)
		a := join(t, q, "a", true)
		b, c := join(t, q, "b", false), join(t, q, "c", false)
		o, _ := a.Offer()
		require.True(t, o.Grant(7))
		g, handed := b.Leave()
		require.True(t, handed, "it holds the lock, and must release it")
		require.Equal(t, 7, g)
		require.False(t, isReady(c))
		_, handed = b.Leave()
		require.False(t, handed)
		require.True(t, isReady(c))
	})
	t.Run("before it is withdrawn", func(t *testing.T) {
		t.Parallel()
		q := New[string, int, *holding](limit)
		a := join(t, q, "a", true)
		b := join(t, q, "b", false)
		o, _ := a.Offer()
		b.Leave()
		require.False(t, o.Withdraw(7), "what 7 is about is the caller's to clean up")
		_, ok := a.Offer()
		require.False(t, ok)
	})
}

func TestWithdrawLeavesItsPlace(t *testing.T) {
	t.Parallel()
	q := New[string, int, *holding](limit)
	a := join(t, q, "a", true)
	b, c := join(t, q, "b", false), join(t, q, "c", false)
	o, _ := a.Offer()
	require.True(t, o.Withdraw(7))
	require.False(t, isReady(b))
	o, _ = a.Offer()
	require.Equal(t, "b", o.Request)
	require.True(t, o.Withdraw(8))
	a.Leave()
	require.True(t, isReady(b))
	require.False(t, isReady(c))
	g, handed := b.Granted()
	require.Equal(t, 8, g)
	require.False(t, handed)
	g, _ = b.Leave()
	require.Zero(t, g, "it was taken before")
	require.True(t, isReady(c))
}

func TestWhatWasLeftGoesToWhoeverGivesUp(t *testing.T) {
	t.Parallel()
	q := New[string, int, *holding](limit)
	a := join(t, q, "a", true)
	b := join(t, q, "b", false)
	o, _ := a.Offer()
	o.Withdraw(7)
	g, handed := b.Leave()
	require.Equal(t, 7, g)
	require.False(t, handed)
}

func TestHolderThatEndedMakesRoom(t *testing.T) {
	t.Parallel()
	q := New[string, int, *holding](limit)
	a := join(t, q, "a", true)
	h := &holding{end: clock.Now().After(time.Hour)}
	require.False(t, a.Hold(h))
	require.Same(t, h, q.Holder("k"))
	b := new(tickets)
	before, first := q.Join(b, "k", "b")
	require.False(t, first)
	require.Same(t, h, before)
	require.Same(t, h, b.Behind())
	require.Nil(t, join(t, q, "c", false).Behind())
	require.InDelta(t, time.Hour, b.Remaining(), float64(time.Minute))
	h.over.Store(true)
	join(t, q, "d", false)
	require.True(t, isReady(b), "whoever comes next finds that the holder has ended")
}

func TestHoldersThatEndUnnoticedAreForgotten(t *testing.T) {
	t.Parallel()
	q := New[string, int, *holding](limit)
	for i := range 20_000 {
		ticket, h := new(tickets), &holding{}
		_, first := q.Join(ticket, fmt.Sprint(i), "")
		require.True(t, first)
		ticket.Hold(h)
		h.over.Store(true)
	}
	left := 0
	for i := range q.shards {
		left += len(q.shards[i].fronts)
	}
	require.LessOrEqual(t, left, 64*len(q.shards))
}

func TestTurnEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New[string, int, *holding](limit)
		front := join(t, q, "", true)
		pass := func() bool {
			next := join(t, q, "", false)
			o, ok := front.Offer()
			if ok {
				require.True(t, o.Grant(0))
			} else {
				front.Leave()
			}
			next.Granted()
			front = next
			return ok
		}
		for range 2 {
			for range 3 {
				require.True(t, pass())
				time.Sleep(limit / 4)
			}
			time.Sleep(limit / 4)
			require.False(t, pass(), "the turn is over")
		}
	})
}

func TestReservedFencesAreUsedInOrder(t *testing.T) {
	t.Parallel()
	q := New[string, int, *holding](limit)
	front := join(t, q, "", true)
	for i := range 17 {
		next := join(t, q, "", false)
		o, ok := front.Offer()
		require.True(t, ok)
		if i == 0 {
			require.Zero(t, o.Fence)
			require.Equal(t, 16, o.Reserve)
			o.Reserved(100, 16)
		} else if i < 16 {
			require.Equal(t, uint64(100+i), o.Fence)
		} else {
			require.Zero(t, o.Fence, "all are used")
			require.Equal(t, 64, o.Reserve)
		}
		o.Grant(0)
		next.Granted()
		front = next
	}
}

// The front that meets another process backs off after its turn, and one that comes back
// at once does too.
func TestBackoffAfterATurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New[string, int, *holding](limit)
		a := join(t, q, "", true)
		backoff, recency := a.Backoff(time.Millisecond)
		require.Zero(t, backoff)
		require.Zero(t, recency)
		a.Contended(time.Minute)
		b := join(t, q, "", false)
		require.Equal(t, time.Minute, b.Remaining(), "the other process's lease")
		a.Hold(&holding{end: clock.Never})
		time.Sleep(time.Millisecond)
		a.Leave()
		_, recency = b.Backoff(time.Millisecond)
		require.Equal(t, 1.0, recency)
		require.Positive(t, pause(b.Backoff(time.Millisecond)))
		b.Hold(&holding{end: clock.Never})
		b.Leave()
		c := join(t, q, "", true)
		require.Zero(t, pause(c.Backoff(time.Millisecond)), "it goes on with its turn")
		time.Sleep(limit)
		c.Leave()
		d := join(t, q, "", true)
		require.Positive(t, pause(d.Backoff(time.Millisecond)), "its turn is over")
		d.Leave()
		time.Sleep(memory)
		e := join(t, q, "", true)
		require.Zero(t, pause(e.Backoff(time.Millisecond)), "the turn is forgotten")
	})
}

// pause drops the recency.
func pause(backoff time.Duration, _ float64) time.Duration { return backoff }

// Many goroutines join, hold, hand over, leave and give up at random: at each time one is
// at the front, everybody who stays gets there, and nothing is left.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	q := New[string, int, *holding](limit)
	var fronts [4]atomic.Int32
	var served, left atomic.Int32
	var group sync.WaitGroup
	for worker := range 16 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(worker)))
			for range 500 {
				k := random.IntN(len(fronts))
				ticket := new(tickets)
				if _, first := q.Join(ticket, fmt.Sprint(k), ""); !first {
					patience := time.Hour
					if random.IntN(4) == 0 {
						patience = time.Duration(random.IntN(50)) * time.Microsecond
					}
					select {
					case <-ticket.Ready():
						ticket.Granted()
					case <-time.After(patience):
						if _, handed := ticket.Leave(); !handed {
							left.Add(1)
							continue
						}
					}
				}
				if fronts[k].Add(1) != 1 {
					t.Error("two are at the front")
				}
				ticket.Hold(&holding{end: clock.Never})
				served.Add(1)
				for {
					o, ok := ticket.Offer()
					switch {
					case !ok:
					case random.IntN(5) == 0:
						o.Withdraw(0)
						ok = false
					default:
						fronts[k].Add(-1)
						if !o.Grant(0) {
							fronts[k].Add(1)
							continue
						}
					}
					if !ok {
						fronts[k].Add(-1)
						ticket.Leave()
					}
					break
				}
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 16*500, served.Load()+left.Load())
	for i := range q.shards {
		require.Empty(t, q.shards[i].fronts)
	}
}
