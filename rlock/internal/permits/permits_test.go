package permits_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/permits"
)

const turn = 10 * time.Millisecond

var kind = permits.Kind{Key: "k", Limit: 4, Permits: 2, TTL: time.Minute}

func newPermits() *permits.Permits {
	p := &permits.Permits{}
	p.Init(turn)
	return p
}

// enters is Enter near a server, and requires what the caller is to do.
func enters(t *testing.T, p *permits.Permits, want permits.Role) *permits.Ticket {
	t.Helper()
	c := p.Enter(kind, 0)
	require.Equal(t, want, c.Ready())
	return c
}

// granted is what a caller gives at once after the server has granted it.
func granted(token string, now clock.Instant) permits.Grant {
	return permits.Grant{Lease: token, Fence: 7, Deadline: now.After(kind.TTL), Turn: now.After(turn)}
}

// woken requires that a caller who waited was woken, and what it is to do.
func woken(t *testing.T, c *permits.Ticket, want permits.Role) {
	t.Helper()
	select {
	case <-c.Wake():
	default:
		t.Fatal("it is not woken")
	}
	require.Equal(t, want, c.Ready())
}

// As many ask at the same time as can have permits. When one is told to wait, those who come later wait
// here, and get what others give up in the order in which they came.
func TestOneAsksForMany(t *testing.T) {
	t.Parallel()
	p, now := newPermits(), clock.Now()
	a, b := enters(t, p, permits.Asks), enters(t, p, permits.Asks)
	c := enters(t, p, permits.Waits)
	a.Done(true) // at once, so more may be free: two ask in its place
	woken(t, c, permits.Asks)
	c.Told()
	d, e, f := enters(t, p, permits.Waits), enters(t, p, permits.Waits), enters(t, p, permits.Waits)
	b.Done(false)
	require.Equal(t, permits.Waits, d.Ready(), "one stands in the queue")
	require.True(t, p.Give(kind, granted("a", now), now))
	woken(t, d, permits.Has)
	require.Equal(t, granted("a", now), d.Grant())
	c.Done(true) // not at once, so one asks in its place
	woken(t, e, permits.Asks)
	require.Equal(t, permits.Waits, f.Ready())
	require.True(t, p.Give(kind, granted("d", now), now))
	woken(t, f, permits.Has)
	require.False(t, p.Give(kind, granted("f", now), now), "nobody waits here")
	e.Done(true)
	enters(t, p, permits.Asks)
	require.Equal(t, 1, p.Lines())
}

// Permits go to callers who want the same, and until the turn is over.
func TestNobodyGetsWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	p, now := newPermits(), clock.Now()
	enters(t, p, permits.Asks).Told()
	c := enters(t, p, permits.Waits)
	for _, change := range []func(*permits.Kind){
		func(k *permits.Kind) { k.Key = "other" },
		func(k *permits.Kind) { k.Limit++ },
		func(k *permits.Kind) { k.Permits-- },
		func(k *permits.Kind) { k.Owner = "other" },
		func(k *permits.Kind) { k.TTL++ },
		func(k *permits.Kind) { k.Extends = true },
	} {
		k := kind
		change(&k)
		require.False(t, p.Give(k, granted("x", now), now), k)
	}
	require.False(t, p.Give(kind, granted("x", now), now.After(turn)), "the turn is over")
	require.Equal(t, permits.Waits, c.Ready())
	require.True(t, p.Give(kind, granted("x", now), now.After(turn-1)))
}

// Far from the server more of them stand in its queue, because each answer takes long.
func TestFarFromTheServer(t *testing.T) {
	t.Parallel()
	p := newPermits()
	k := permits.Kind{Key: "k", Limit: 10, Permits: 1}
	for range 4 { // 10 × 2 × 2 ms in 10 ms
		c := p.Enter(k, 2*time.Millisecond)
		require.Equal(t, permits.Asks, c.Ready())
		c.Told()
	}
	require.Equal(t, permits.Waits, p.Enter(k, 2*time.Millisecond).Ready())
	require.Equal(t, permits.Waits, p.Enter(k, time.Hour).Ready(), "others wait before it")
}

// Who quits leaves nothing. If it was called to ask, the next is called, and what it was given is its own.
func TestQuit(t *testing.T) {
	t.Parallel()
	p, now := newPermits(), clock.Now()
	a := enters(t, p, permits.Asks)
	a.Told()
	a.Told()
	b, c, d := enters(t, p, permits.Waits), enters(t, p, permits.Waits), enters(t, p, permits.Waits)
	a.Done(false)
	a.Done(false)
	woken(t, b, permits.Asks)
	require.Equal(t, permits.Quits, c.Quit())
	require.Equal(t, permits.Quits, b.Quit())
	woken(t, d, permits.Asks)
	e := enters(t, p, permits.Waits)
	require.True(t, p.Give(kind, granted("x", now), now))
	require.Equal(t, permits.Has, e.Quit())
	e.Done(false)
	require.Equal(t, permits.Has, e.Quit())
	d.Done(true)
	require.Zero(t, p.Lines())
}

// The place of one who gives up is that of the next who asks, also if one in between asks nothing. One who
// was granted what it wanted leaves none.
func TestScores(t *testing.T) {
	t.Parallel()
	p := newPermits()
	a := enters(t, p, permits.Asks)
	a.Told()
	b, c, d, e := enters(t, p, permits.Waits), enters(t, p, permits.Waits), enters(t, p, permits.Waits), enters(t, p, permits.Waits)
	a.LeaveScore(7)
	a.LeaveScore(0)
	require.Equal(t, permits.Quits, a.Quit())
	require.EqualValues(t, 7, b.Score())
	require.Equal(t, permits.Quits, b.Quit())
	require.EqualValues(t, 7, c.Score())
	c.Done(true)
	require.Equal(t, permits.Asks, d.Ready())
	require.Zero(t, d.Score())
	require.Zero(t, e.Score())
}

// Whatever callers do, somebody asks while others wait, no permit is lost or doubled, and no line is left.
func TestAnyOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r, p, now := rand.New(rand.NewPCG(seed, 1)), newPermits(), clock.Now()
		var live []*permits.Ticket
		given, has := 0, 0
		for step := range 400 {
			switch n := r.IntN(10); {
			case n < 3 && step < 300:
				live = append(live, p.Enter(kind, time.Duration(r.IntN(5))*time.Millisecond))
			case n == 3:
				if p.Give(kind, granted(strconv.Itoa(step), now), now) {
					given++
				}
			case len(live) > 0:
				at := r.IntN(len(live))
				c := live[at]
				gone := true
				switch role := c.Ready(); {
				case role == permits.Has:
					has++
				case role == permits.Asks && n < 6:
					c.Told()
					gone = false
				case role == permits.Asks:
					c.Done(n < 9)
				case n == 9:
					require.Equal(t, permits.Quits, c.Quit())
				default:
					gone = false
				}
				if gone {
					live = append(live[:at], live[at+1:]...)
				}
			}
			asks, waits := 0, 0
			for _, c := range live {
				switch c.Ready() {
				case permits.Asks:
					asks++
				case permits.Waits:
					waits++
				}
			}
			require.False(t, waits > 0 && asks == 0, "seed %d, step %d: nobody asks", seed, step)
		}
		for _, c := range live {
			if c.Quit() == permits.Has {
				has++
			}
		}
		require.Equal(t, given, has, seed)
		require.Zero(t, p.Lines(), seed)
	}
}
