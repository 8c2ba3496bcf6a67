package line_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/line"
)

// lease is what a caller has, as a line knows it.
type lease struct {
	part     line.Lease
	deadline clock.Instant
	users    []*caller // who have it, or were given it and have not taken it
	asked    bool
	over     bool // it was lost, or given back
}

func (l *lease) Part() *line.Lease       { return &l.part }
func (l *lease) Key() string             { return "k" }
func (l *lease) Deadline() clock.Instant { return l.deadline }

// caller is one that wants a lease.
type caller struct {
	number int
	own    *lease
	want   line.Want
	in     line.Entered
	has    *lease // it has, or was given
	do     line.Do
	taken  bool
}

// world has the callers of one process, and plays the server for them: a key has room for so many leases.
type world struct {
	t       *testing.T
	rand    *rand.Rand
	lines   *line.Lines
	kind    line.Kind
	room    int
	now     clock.Instant
	callers []*caller
	leases  []*lease
	number  int
	trace   []string
}

const walkTTL = 10 * time.Second

func (w *world) say(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.trace[max(0, len(w.trace)-60):] {
		w.t.Log(line)
	}
	w.t.Fatalf(format, args...)
}

// held are the leases that the server has granted and that are not over.
func (w *world) held() (n int) {
	for _, g := range w.leases {
		if !g.over && !g.asked {
			n++
		}
	}
	return n
}

// takes has the caller do what it is told to.
func (w *world) takes(c *caller, role line.Role, g line.Grant) {
	c.in.Role = role
	switch role {
	case line.Asks:
		c.own.asked = true
		w.leases = append(w.leases, c.own)
	case line.Given:
		c.has, c.do = g.Lease.(*lease), g.Do
		if c.has.over && w.kind.Mode == line.Whole {
			return // it was lost on its way: who takes it learns that
		}
		if len(c.has.users) > 0 && w.kind.Mode != line.Readers {
			w.fail("caller %d is given what %d has", c.number, c.has.users[0].number)
		}
		c.has.users = append(c.has.users, c)
	case line.Gone:
		w.gone(c)
	}
	w.say("caller %d: role %d, do %d", c.number, role, c.do)
}

func (w *world) gone(c *caller) {
	w.callers = slices.DeleteFunc(w.callers, func(o *caller) bool { return o == c })
}

// part ends a caller's use of what it has. With plain, the lease can only be given back.
func (w *world) part(c *caller, plain bool) {
	g := c.has
	g.users = slices.DeleteFunc(g.users, func(o *caller) bool { return o == c })
	w.gone(c)
	e := line.Event{Now: w.now, Want: c.want, Plain: plain, Sealed: w.rand.IntN(8) == 0}
	back, next := line.Handle{Lease: g}.Done(e)
	if next != nil {
		next.Send()
	}
	w.say("caller %d is done, back %v", c.number, back)
	if back && !g.over {
		if len(g.users) > 0 {
			w.fail("what %d users have is given back", len(g.users))
		}
		g.over = true
		line.Handle{Lease: g}.Ended()
	}
}

// grants has the server give a lease to who asks.
func (w *world) grants(c *caller) {
	g := c.own
	g.asked, g.deadline = false, clock.LeaseEnd(w.now, walkTTL)
	c.has, c.taken = g, true
	g.users = append(g.users, c)
	c.in.Role = line.Given
	line.Handle{Lease: g}.Granted(w.rand.IntN(6) == 0, w.now)
	w.say("caller %d is granted its lease", c.number)
}

func (w *world) step() {
	w.now = w.now.After(time.Duration(w.rand.IntN(3)) * time.Millisecond)
	if len(w.callers) < 5 && w.rand.IntN(3) == 0 {
		w.number++
		c := &caller{number: w.number, own: &lease{}, want: line.Want{
			TTL: walkTTL, Fenced: w.rand.IntN(2) == 0, Slow: w.rand.IntN(3) == 0,
		}}
		w.callers = append(w.callers, c)
		w.say("caller %d enters", c.number)
		c.in = w.lines.Enter(&w.kind, c.own, &c.want, true, 1, w.now)
		w.takes(c, c.in.Role, c.in.Grant)
		return
	}
	if len(w.callers) == 0 {
		return
	}
	c := w.callers[w.rand.IntN(len(w.callers))]
	switch {
	case c.in.Role == line.Waits:
		if c.in.Caller.Peek() == line.Waits && w.rand.IntN(2) == 0 {
			c.in.Caller.Attend(w.rand.IntN(2) == 0, w.now)
		} else if role, g := c.in.Caller.Ready(); role != line.Waits {
			w.takes(c, role, g)
		} else if w.rand.IntN(4) == 0 {
			w.say("caller %d leaves", c.number)
			role, g := c.in.Caller.Leave()
			w.takes(c, role, g)
		}
	case c.in.Role == line.Asks:
		switch at := w.rand.IntN(4); {
		case at == 0:
			w.say("caller %d asks no more", c.number)
			c.own.asked, c.own.over = false, true
			line.Handle{Lease: c.own}.LeaveScore(int64(c.number))
			line.Handle{Lease: c.own}.Failed()
			w.gone(c)
		case at == 1:
			line.Handle{Lease: c.own}.Told(time.Second, w.now)
		case w.held() < w.room || w.kind.Mode == line.Readers:
			w.grants(c)
		}
	case c.taken || c.do == line.GoOn:
		if !c.taken && w.rand.IntN(3) > 0 {
			c.taken = true
			return
		}
		if g := c.has; c.taken && w.rand.IntN(8) == 0 && !g.over {
			w.say("the lease of caller %d is lost", c.number)
			g.over = true
			line.Handle{Lease: g}.Ended()
			return
		}
		w.part(c, w.rand.IntN(6) == 0)
	case w.rand.IntN(4) == 0:
		w.part(c, false) // before it has done anything
	default:
		w.moves(c)
	}
}

// moves has the server give the key of what a caller was given to its own lease, or to another process.
func (w *world) moves(c *caller) {
	from := c.has
	from.users, from.over = nil, true
	w.leases = append(w.leases, c.own)
	c.own.deadline = clock.LeaseEnd(w.now, walkTTL)
	if c.do == line.HandOver {
		w.say("caller %d has the key by its own lease", c.number)
		line.Handle{Lease: c.own}.HandedOver(line.Handle{Lease: from}, uint64(w.number)<<20, 1000, 0, w.now)
		c.has, c.taken = c.own, true
		c.own.users = append(c.own.users, c)
		return
	}
	w.say("caller %d passes the key on", c.number)
	c.own.asked = true
	line.Handle{Lease: c.own}.PassedOn(line.Handle{Lease: from}, w.now)
	c.has, c.in.Role = nil, line.Asks
}

// check fails if two have what excludes, or if somebody waits for nothing.
func (w *world) check() {
	if n := w.held(); w.kind.Mode != line.Readers && n > w.room {
		w.fail("%d leases of %d", n, w.room)
	}
	var first *caller
	busy := false
	for _, c := range w.callers {
		waits := c.in.Role == line.Waits
		if waits {
			role := c.in.Caller.Peek()
			waits = role == line.Waits
			if role != line.Waits && first != nil && w.kind.Mode == line.Whole {
				w.fail("caller %d overtakes %d", c.number, first.number)
			}
		}
		if waits && first == nil {
			first = c
		}
		busy = busy || !waits
	}
	if first != nil && !busy {
		w.fail("caller %d waits for nobody", first.number)
	}
}

// However callers come, go, ask, lose and give up: none has what another has, the first who waits is the
// first who goes on, and nobody waits for nobody.
func TestWalks(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]line.Kind{
		"whole":   {Key: "k"},
		"readers": {Key: "k", Mode: line.Readers, TTL: walkTTL},
		"permits": {Key: "k", Mode: line.Permits, Limit: 3, Permits: 1, TTL: walkTTL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(2000) {
				w := &world{
					t: t, rand: rand.New(rand.NewPCG(seed, 1)), kind: kind, room: max(kind.Limit, 1), now: clock.Now(),
					lines: line.New(10 * time.Millisecond),
				}
				w.say("seed %d", seed)
				for range 80 {
					w.step()
					w.check()
				}
				w.ends()
			}
		})
	}
}

// ends has all callers come to an end, and checks that nothing is left.
func (w *world) ends() {
	for len(w.callers) > 0 {
		c := w.callers[0]
		switch c.in.Role {
		case line.Waits:
			role, g := c.in.Caller.Leave()
			w.takes(c, role, g)
		case line.Asks:
			line.Handle{Lease: c.own}.Failed()
			w.gone(c)
		default:
			w.part(c, true)
		}
	}
	if n := w.lines.Keys(); n != 0 {
		w.fail("%d lines are left", n)
	}
}
