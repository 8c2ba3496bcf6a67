package queue

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
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
func (h *holding) Over(clock.Instant) bool { return h.over.Load() }

// join makes a ticket for the key "k" that must wait, or must not.
func join(t *testing.T, q *Queue[string, int, *holding], request string, wantFirst bool) *tickets {
	t.Helper()
	ticket := new(tickets)
	_, first := q.Join(ticket, "k", request, clock.Now())
	require.Equal(t, wantFirst, first)
	return ticket
}

// isReady reports whether a ticket that waited has come to the front.
func isReady(ticket *tickets) bool {
	s := ticket.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	return ticket.state == front || ticket.state == granted
}

// receive returns what was handed to a ticket that is ready.
func receive(t *testing.T, ticket *tickets) (g int, handed bool) {
	t.Helper()
	g, r := ticket.Ready()
	require.NotEqual(t, Behind, r)
	return g, r == HandedOver
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
	_, handed = receive(t, b)
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
		_, first := q.Join(new(tickets), fmt.Sprint(i), "", clock.Now())
		require.True(t, first)
	}
}

func TestHandOver(t *testing.T) {
	t.Parallel()
	q := New[string, int, *holding](limit)
	a := join(t, q, "a", true)
	a.Hold(&holding{end: clock.Never}, clock.Now())
	_, ok := a.Offer(false, clock.Now())
	require.False(t, ok, "nobody waits")
	b, c := join(t, q, "b", false), join(t, q, "c", false)
	o, ok := a.Offer(false, clock.Now())
	require.True(t, ok)
	require.Equal(t, "b", o.Request)
	require.True(t, o.Grant(7))
	require.True(t, isReady(b))
	g, handed := receive(t, b)
	require.Equal(t, 7, g)
	require.True(t, handed)
	require.False(t, isReady(c))
	require.Nil(t, q.Holder("k"), "b has not begun to hold it")
	require.False(t, b.Hold(&holding{end: clock.Never}, clock.Now()), "nobody has called Watch")
	_, ok = a.Offer(false, clock.Now())
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
		o, _ := a.Offer(false, clock.Now())
		g, handed := b.Leave()
		require.False(t, handed)
		require.Zero(t, g)
		require.False(t, o.Grant(7))
		o, ok := a.Offer(false, clock.Now())
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
		o, _ := a.Offer(false, clock.Now())
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
		o, _ := a.Offer(false, clock.Now())
		b.Leave()
		require.False(t, o.Withdraw(7), "what 7 is about is the caller's to clean up")
		_, ok := a.Offer(false, clock.Now())
		require.False(t, ok)
	})
}

func TestWithdrawLeavesItsPlace(t *testing.T) {
	t.Parallel()
	q := New[string, int, *holding](limit)
	a := join(t, q, "a", true)
	b, c := join(t, q, "b", false), join(t, q, "c", false)
	o, _ := a.Offer(false, clock.Now())
	require.True(t, o.Withdraw(7))
	require.False(t, isReady(b))
	o, _ = a.Offer(false, clock.Now())
	require.Equal(t, "b", o.Request)
	require.True(t, o.Withdraw(8))
	a.Leave()
	require.True(t, isReady(b))
	require.False(t, isReady(c))
	g, handed := receive(t, b)
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
	o, _ := a.Offer(false, clock.Now())
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
	require.False(t, a.Hold(h, clock.Now()))
	require.Same(t, h, q.Holder("k"))
	b := new(tickets)
	left, first := q.Join(b, "k", "b", clock.Now())
	require.False(t, first)
	require.InDelta(t, time.Hour, left, float64(time.Minute))
	require.Same(t, h, b.Behind())
	require.Nil(t, join(t, q, "c", false).Behind())
	require.InDelta(t, time.Hour, b.Remaining(clock.Now()), float64(time.Minute))
	h.over.Store(true)
	join(t, q, "d", false)
	require.True(t, isReady(b), "whoever comes next finds that the holder has ended")
}

func TestHoldersThatEndUnnoticedAreForgotten(t *testing.T) {
	t.Parallel()
	q := New[string, int, *holding](limit)
	for i := range 20_000 {
		ticket, h := new(tickets), &holding{}
		_, first := q.Join(ticket, fmt.Sprint(i), "", clock.Now())
		require.True(t, first)
		if i%2 == 0 {
			ticket.Contended(0) // makes a line
		}
		ticket.Hold(h, clock.Now())
		h.over.Store(true)
	}
	left := 0
	for i := range q.shards {
		left += len(q.shards[i].keys)
	}
	require.LessOrEqual(t, left, 64*len(q.shards))
}

// A ticket that is gone changes nothing, whatever its owner has still to tell.
func TestGoneTicket(t *testing.T) {
	t.Parallel()
	q := New[string, int, *holding](limit)
	a := join(t, q, "a", true)
	a.Leave()
	b := join(t, q, "b", true)
	a.Contended(time.Hour)
	a.Crowded()
	a.LeaveScore(7)
	c := join(t, q, "c", false)
	require.Zero(t, c.Remaining(clock.Now()))
	require.Zero(t, b.Score())
	b.Leave()
	require.True(t, isReady(c))
	c.Leave()
	for i := range q.shards {
		require.Empty(t, q.shards[i].keys)
	}
}

// While no other process waits, a turn does not end. The server is asked once in the time of a turn
// whether one does.
func TestTurnWithoutOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New[string, int, *holding](limit)
		front := join(t, q, "", true)
		front.Hold(&holding{end: clock.Never}, clock.Now())
		asked := 0
		for range 41 {
			next := join(t, q, "", false)
			o, ok := front.Offer(false, clock.Now())
			require.True(t, ok)
			require.False(t, o.Over)
			if o.Ask {
				asked++
				o.Answered(1, 1, 0)
			}
			require.True(t, o.Grant(0))
			next.Ready()
			front = next
			time.Sleep(limit / 4)
		}
		require.Equal(t, 10, asked)
	})
}

// A turn ends when another process has waited for as long as it may last, and this process has had
// the key for as long.
func TestTurnEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		crowded bool          // the server says with the lock that others wait
		waits   time.Duration // the server says with the first hand-over for how long another has waited
		over    time.Duration // after which time the turn is over
	}{
		"others wait from the start":         {true, 0, limit},
		"another has just come":              {false, time.Nanosecond, 2 * limit},
		"another has come a while ago":       {false, limit / 2, limit + limit/2},
		"another has waited for a long time": {false, time.Hour, limit + limit/4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := New[string, int, *holding](limit)
				front := join(t, q, "", true)
				next := join(t, q, "", false)
				if test.crowded {
					front.Crowded()
				}
				front.Hold(&holding{end: clock.Never}, clock.Now())
				begin := time.Now()
				for {
					time.Sleep(limit / 4)
					o, ok := front.Offer(false, clock.Now())
					require.True(t, ok)
					if o.Over {
						break
					}
					require.Equal(t, !test.crowded && time.Since(begin) == limit, o.Ask)
					if o.Ask {
						o.Answered(1, 1, test.waits)
					}
					require.True(t, o.Grant(0))
					next.Ready()
					front, next = next, join(t, q, "", false)
				}
				require.Equal(t, test.over, time.Since(begin))
			})
		})
	}
}

// When the server gives the lock to the next at the end of a turn, because nobody else waits any
// more, another turn begins, with fences of its own.
func TestTurnBeginsWhenOthersHaveLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New[string, int, *holding](limit)
		front := join(t, q, "", true)
		next := join(t, q, "", false)
		front.Hold(&holding{end: clock.Never}, clock.Now())
		o, _ := front.Offer(false, clock.Now())
		o.Answered(1, 16, time.Hour)
		require.True(t, o.Grant(0))
		next.Ready()
		front, next = next, join(t, q, "", false)
		time.Sleep(limit)
		o, _ = front.Offer(false, clock.Now())
		require.True(t, o.Over)
		o.Passed()
		require.True(t, o.Grant(0))
		next.Ready()
		front = next
		join(t, q, "", false)
		o, _ = front.Offer(false, clock.Now())
		require.False(t, o.Over)
		require.Zero(t, o.Fence)
	})
}

func TestReservedFencesAreUsedInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New[string, int, *holding](limit)
		front := join(t, q, "", true)
		front.Hold(&holding{end: clock.Never}, clock.Now())
		for i := range 17 {
			next := join(t, q, "", false)
			o, ok := front.Offer(false, clock.Now())
			require.True(t, ok)
			if i == 0 {
				require.Zero(t, o.Fence)
				require.Equal(t, 16, o.Reserve)
				o.Answered(100, 16, 0)
			} else if i < 16 {
				require.Equal(t, uint64(100+i), o.Fence)
			} else {
				require.Zero(t, o.Fence, "all are used")
				require.Equal(t, 64, o.Reserve)
				o.Answered(200, 64, 0)
			}
			o.Grant(0)
			next.Ready()
			front = next
		}
		next := join(t, q, "", false)
		front.Leave()
		next.Ready()
		next.Contended(0)
		behind := join(t, q, "", false)
		next.Hold(&holding{end: clock.Never}, clock.Now())
		o, _ := next.Offer(false, clock.Now())
		require.Zero(t, o.Fence, "others may have had larger ones since")
		require.Equal(t, 64, o.Reserve, "as many as the last turn needed")
		o.Grant(0)
		behind.Ready()
	})
}

// A hand-over that could not use what was reserved, as after a pause of the machine, makes the next
// ones reserve less, until fences are used again.
func TestReservingGoesOnAfterHandOversThatCouldNotUseIt(t *testing.T) {
	t.Parallel()
	q := New[string, int, *holding](limit)
	front := join(t, q, "", true)
	front.Hold(&holding{end: clock.Never}, clock.Now())
	first := uint64(100)
	handOver := func(use bool) (used bool, reserved int) {
		next := join(t, q, "", false)
		o, ok := front.Offer(false, clock.Now())
		require.True(t, ok)
		if used = use && o.Fence != 0; !used {
			reserved = o.Reserve
			first += 1000
			o.Answered(first, reserved, 0)
		} else {
			require.Greater(t, o.Fence, first)
		}
		require.True(t, o.Grant(0))
		next.Ready()
		front = next
		return used, reserved
	}
	for _, want := range []int{16, 4, 2, 2, 2} {
		used, reserved := handOver(false)
		require.False(t, used)
		require.Equal(t, want, reserved)
	}
	for _, want := range []int{16, 64} { // and what was reserved before is used
		for range 100 {
			used, reserved := handOver(true)
			if !used {
				require.Equal(t, want, reserved)
				break
			}
		}
	}
}

// What the server is asked meanwhile is asked once, has the answer counted as that of a hand-over, and
// gives fences that come after those that are left.
func TestQuestion(t *testing.T) {
	t.Parallel()
	type questions = Question[string, int, *holding]
	for name, test := range map[string]struct {
		then   func(q questions, pass func(asks bool) Offer[string, int, *holding])
		fences []uint64 // of the hand-overs after it; 0: it must take one from the server
		itself bool     // the server must be asked by the next hand-over
		over   bool     // the turn is over after its time
	}{
		"not answered yet": {func(questions, func(bool) Offer[string, int, *holding]) {}, []uint64{103, 104, 0}, false, false},
		"answered": {func(q questions, _ func(bool) Offer[string, int, *holding]) {
			q.Answered(105, 2, 0)
			q.Unanswered()
		}, []uint64{103, 104, 105, 106, 0}, false, false},
		"answered, others had fences": {func(q questions, _ func(bool) Offer[string, int, *holding]) {
			q.Answered(200, 2, 0)
		}, []uint64{200, 201, 0}, false, false},
		"answered, without fences": {func(q questions, _ func(bool) Offer[string, int, *holding]) {
			q.Answered(0, 0, 0)
		}, []uint64{103, 104, 0}, false, false},
		"answered, another waits": {func(q questions, _ func(bool) Offer[string, int, *holding]) {
			q.Answered(105, 2, time.Nanosecond)
		}, []uint64{103, 104, 105, 106, 0}, false, true},
		"answered twice": {func(q questions, _ func(bool) Offer[string, int, *holding]) {
			q.Answered(105, 2, 0)
			q.Answered(90, 2, time.Hour)
		}, []uint64{103, 104, 105, 106, 0}, false, false},
		"not answered": {func(q questions, _ func(bool) Offer[string, int, *holding]) {
			q.Unanswered()
		}, []uint64{103, 104, 0}, true, false},
		"answered after a hand-over asked": {func(q questions, pass func(asks bool) Offer[string, int, *holding]) {
			pass(true)
			q.Answered(105, 2, time.Hour)
			q.Unanswered()
		}, []uint64{301, 0}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := New[string, int, *holding](limit)
				at := join(t, q, "", true)
				at.Hold(&holding{end: clock.Never}, clock.Now())
				pass := func(asks bool) Offer[string, int, *holding] {
					next := join(t, q, "", false)
					o, ok := at.Offer(false, clock.Now())
					require.True(t, ok)
					if asks {
						o.Answered(300, 2, 0)
					}
					o.Grant(0)
					next.Ready()
					at = next
					return o
				}
				next := join(t, q, "", false)
				o, _ := at.Offer(false, clock.Now())
				o.Answered(100, 5, 0)
				o.Grant(0)
				next.Ready()
				at = next
				require.Equal(t, uint64(101), pass(false).Fence)
				time.Sleep(limit)
				next = join(t, q, "", false)
				o, _ = at.Offer(false, clock.Now())
				require.True(t, o.Ask)
				require.False(t, o.Itself)
				require.Equal(t, uint64(102), o.Fence)
				question := o.AskMeanwhile(clock.Now(), 0)
				require.Equal(t, o.Reserve-2, question.Reserve)
				o.Grant(0)
				next.Ready()
				at = next
				test.then(question, pass)
				for i, fence := range test.fences {
					o := pass(false)
					require.Equal(t, fence, o.Fence, i)
					require.Equal(t, test.itself, o.Ask)
					require.Equal(t, test.itself, o.Itself)
				}
				time.Sleep(limit)
				o = pass(false)
				require.Equal(t, test.over, o.Over)
				require.Equal(t, !test.over, o.Ask)
			})
		})
	}
}

// The hand-over asks if a question is under way for too long. An answer that comes in another turn says
// nothing: others may have had larger fences since.
func TestLateQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, patience := range []time.Duration{limit / 2, 2 * limit} {
			q := New[string, int, *holding](limit)
			front := join(t, q, "", true)
			next := join(t, q, "", false)
			front.Hold(&holding{end: clock.Never}, clock.Now())
			time.Sleep(limit)
			o, _ := front.Offer(false, clock.Now())
			require.True(t, o.Ask)
			question := o.AskMeanwhile(clock.Now(), patience)
			require.True(t, o.Withdraw(0))
			time.Sleep(max(limit, patience) - 1)
			o, _ = front.Offer(false, clock.Now())
			require.False(t, o.Ask)
			require.True(t, o.Withdraw(0))
			time.Sleep(time.Nanosecond)
			o, _ = front.Offer(false, clock.Now())
			require.True(t, o.Ask)
			require.True(t, o.Itself)
			require.True(t, o.Withdraw(0))

			front.Leave()
			next.Ready()
			next.Hold(&holding{end: clock.Never}, clock.Now())
			join(t, q, "", false)
			question.Answered(100, 16, time.Hour)
			time.Sleep(limit / 2)
			o, _ = next.Offer(false, clock.Now())
			require.Zero(t, o.Fence)
			require.False(t, o.Over)
		}
	})
}

// The next front goes on with the place that the last one had in the queue of the server.
func TestScoreIsLeftToTheNextFront(t *testing.T) {
	t.Parallel()
	q := New[string, int, *holding](limit)
	a := join(t, q, "", true)
	require.Zero(t, a.Score())
	b, c := join(t, q, "", false), join(t, q, "", false)
	b.LeaveScore(5)
	a.LeaveScore(7)
	a.Leave()
	b.Ready()
	require.EqualValues(t, 7, b.Score())
	b.Hold(&holding{end: clock.Never}, clock.Now())
	b.Leave()
	c.Ready()
	require.Zero(t, c.Score(), "the place is used")
}

// A key counts as wanted by others from when one had it until a front gets it unhindered. Each shard
// knows one such key.
func TestWanted(t *testing.T) {
	t.Parallel()
	q := New[string, int, *holding](limit)
	a := join(t, q, "a", true)
	require.False(t, a.Wanted())
	a.Contended(time.Second)
	require.True(t, a.Wanted())
	a.Hold(&holding{end: clock.Never}, clock.Now())
	a.Leave()
	b := join(t, q, "b", true)
	require.True(t, b.Wanted())
	for i := range 1000 { // keys of every shard
		other := new(tickets)
		_, first := q.Join(other, fmt.Sprint("key", i), "", clock.Now())
		require.True(t, first)
		require.False(t, other.Wanted())
		other.Hold(&holding{end: clock.Never}, clock.Now())
		other.Leave()
	}
	require.True(t, b.Wanted(), "others are free")
	b.Hold(&holding{end: clock.Never}, clock.Now())
	require.False(t, b.Wanted())
	require.False(t, new(tickets).Wanted())
}

// A ticket takes over the place of one that is gone, and nothing of what that one had. It is not
// ready because the other was.
func TestPlacesAreUsedAgain(t *testing.T) {
	t.Parallel()
	q := New[string, int, *holding](limit)
	front := join(t, q, "front", true)
	front.Hold(&holding{end: clock.Never}, clock.Now())
	for _, gone := range []func(*tickets){
		func(a *tickets) { a.Leave() }, // it waits
		func(a *tickets) { // it has been called, and does not know it
			front.Leave()
			require.True(t, isReady(a))
			a.Leave()
			front = join(t, q, "front", true)
			front.Hold(&holding{end: clock.Never}, clock.Now())
		},
		func(a *tickets) { // it is offered the lock, which is left for it
			o, ok := front.Offer(false, clock.Now())
			require.True(t, ok)
			require.True(t, o.Withdraw(7))
			a.Leave()
		},
		func(a *tickets) { // it is granted the lock, and somebody waits behind it
			b := join(t, q, "b", false)
			o, ok := front.Offer(false, clock.Now())
			require.True(t, ok)
			require.True(t, o.Grant(7))
			g, ready, err := a.Await(t.Context(), clock.Now(), clock.Now().After(time.Hour), nil)
			require.NoError(t, err)
			require.Equal(t, HandedOver, ready)
			require.Equal(t, 7, g)
			a.Hold(&holding{end: clock.Never}, clock.Now())
			a.Leave()
			front = b
			front.Hold(&holding{end: clock.Never}, clock.Now())
		},
	} {
		for range 20 { // the pool forgets places now and then
			a := join(t, q, "a", false)
			gone(a)
			b := join(t, q, "b", false)
			_, ready, err := b.Await(t.Context(), clock.Now(), clock.Now(), nil)
			require.NoError(t, err)
			require.Equal(t, Behind, ready)
			g, handed := b.Leave()
			require.False(t, handed)
			require.Zero(t, g)
		}
	}
}

// A holder is to be watched if a ticket behind it has called Watch, wherever that one stands and
// whoever leaves, or if the lease ends before one would call it.
func TestTicketsHaveTheHolderWatched(t *testing.T) {
	t.Parallel()
	holds := &holding{end: clock.Never}
	for name, test := range map[string]struct {
		before func(a, b, c *tickets)
		h      *holding
		watch  bool
	}{
		"nobody":              {func(*tickets, *tickets, *tickets) {}, holds, false},
		"the first":           {func(_, b, _ *tickets) { b.Watch() }, holds, true},
		"the last":            {func(_, _, c *tickets) { c.Watch() }, holds, true},
		"twice, and has left": {func(_, _, c *tickets) { c.Watch(); c.Watch(); c.Leave() }, holds, false},
		"the first has left":  {func(_, b, c *tickets) { b.Watch(); c.Watch(); b.Leave() }, holds, true},
		"one to which the hand-over failed": {func(a, b, _ *tickets) {
			o, _ := a.Offer(false, clock.Now())
			b.Watch()
			o.Withdraw(0)
		}, holds, true},
		"nobody, and the lease ends soon": {func(*tickets, *tickets, *tickets) {}, &holding{end: clock.Now().After(WatchAfter / 2)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := New[string, int, *holding](limit)
			a, b, c := join(t, q, "a", true), join(t, q, "b", false), join(t, q, "c", false)
			test.before(a, b, c)
			require.Equal(t, test.watch, a.Hold(test.h, clock.Now()))
		})
	}
	q := New[string, int, *holding](limit)
	a, b := join(t, q, "a", true), join(t, q, "b", false)
	a.Hold(holds, clock.Now())
	require.Same(t, holds, b.Watch())
	require.Nil(t, b.Watch(), "it was told before")
}

// A wait ends when stop was closed before, and by Wake when it is closed later.
func TestWaitsEndWithStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New[string, int, *holding](limit)
		front := join(t, q, "front", true)
		stop, ended := make(chan struct{}), make(chan error, 3)
		wait := func() {
			ticket := join(t, q, "", false)
			_, _, err := ticket.Await(t.Context(), clock.Now(), clock.Never, stop)
			ticket.Leave()
			ended <- err
		}
		go wait()
		go wait()
		synctest.Wait()
		close(stop)
		q.Wake()
		wait()
		for range cap(ended) {
			require.ErrorIs(t, <-ended, clock.ErrStopped)
		}
		front.Leave()
	})
}

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
				if _, first := q.Join(ticket, fmt.Sprint(k), "", clock.Now()); !first {
					patience := time.Hour
					if random.IntN(4) == 0 {
						patience = time.Duration(random.IntN(50)) * time.Microsecond
					}
					now := clock.Now()
					_, ready, err := ticket.Await(t.Context(), now, now.After(patience), nil)
					assert.NoError(t, err)
					if ready == Behind {
						if _, handed := ticket.Leave(); !handed {
							left.Add(1)
							continue
						}
					}
				}
				if fronts[k].Add(1) != 1 {
					t.Error("two are at the front")
				}
				ticket.Hold(&holding{end: clock.Never}, clock.Now())
				served.Add(1)
				for {
					o, ok := ticket.Offer(false, clock.Now())
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
		require.Empty(t, q.shards[i].keys)
	}
}
