package line

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/queue"
)

// The explorer has several processes, each with a line of callers, and a server that keeps a key and its
// queue. A line asks the server by tries and by a place, which is a queue.Wait. What an acquisition does
// between them is modelled (act_test.go), the server too (server_test.go): internal/explorer shows that the
// scripts do that.

const (
	tick = time.Second // time passes in ticks
	ttl  = 4 * tick
	key  = "k"
)

// origin is the time at which a world begins.
const origin = clock.Instant(1000 * tick)

// stage is what a caller is about.
type stage uint8

const (
	away      stage = iota // it has not come yet
	inLine                 // it waits, or has not seen yet what it is to do
	trying                 // it has asked without a place
	rests                  // it has to ask again
	stands                 // it asks with a place
	given                  // it has been given a lease, and does nothing with it yet
	handing                // it has asked for the key of what it was given
	passing                // it has given up the key that it was given, for a place
	holds                  // it has a lease
	releasing              // it has given its lease back, and there is no answer yet
	gone
)

// owned is the lease of a caller.
type owned struct {
	part     Lease
	token    string
	deadline clock.Instant
	fence    uint64
	began    clock.Instant
	owner    string
	ends     int  // in how many ways it has ended
	live     bool // it is granted, and has not ended
	seen     bool // somebody has asked for its token
	possible bool // a command without an answer may take the key for its token
}

func (g *owned) Part() *Lease            { return &g.part }
func (g *owned) Key() string             { return key }
func (g *owned) Deadline() clock.Instant { return g.deadline }

// person is a caller of a process.
type person struct {
	stage stage
	want  Want
	in    *Caller
	grant Grant
	own   *owned
	has   *owned // it holds, or gives back
	fence uint64
	wait  queue.Wait
	from  string // of passing: the token that is given up
	order int    // in which it has come
	again int    // how often it is still to come
}

// process is one process.
type process struct {
	kind    Kind
	shard   *shard
	people  []*person
	leases  []*owned
	duties  []string // tokens that are released until an answer says that they have nothing
	asks    []asking // questions without an answer
	fresh   int      // how many tokens it has made
	arrived int
	late    lateness
	robbed  []string // tokens whose key a stranger has deleted, that were detached, or whose process has closed
	closed  bool     // its callers leave, and nobody gets anything any more
}

// lateness is since when a process goes on with the key after its turn, without knowing that another waits.
type lateness struct {
	base   clock.Instant // since when the other waits and the process has the key
	first  clock.Instant // when it went on for the first time after its turn
	second clock.Instant // when it did a turn later, with a command that says who waits
}

// asking is a question that a lease goes on with.
type asking struct {
	number uint32
	line   *Line
	token  string
}

// world is everything.
type world struct {
	*scenario
	now       clock.Instant
	server    server
	processes []*process
	messages  []message
	budget    [faults]int
	calm      bool   // there are no faults any more
	used      uint64 // the largest fence of one who has held the whole key
	err       error
}

// fault is a kind of fault, of which a scenario has a number.
type fault uint8

const (
	loss     fault = iota // of a message
	leaving               // of a caller who has not got the key, by its context or by a panic
	deletion              // of the key by a stranger
	detach                // of a lease
	beat                  // of a place
	extend                // of a lease
	timeout               // of a call that is under way
	slot                  // of another key, whose holder has the next fence
	closing               // of a process
	faults
)

// scenario is what may happen.
type scenario struct {
	name   string
	modes  []Mode // of each process
	people []int  // how many callers each has
	limit  int    // of permits
	want   func(process, person int) Want
	seen   bool // somebody asks for the token of each lease
	turn   int  // ticks
	ticks  int
	again  int // how often each caller comes again
	budget map[fault]int
}

func plain(int, int) Want { return Want{TTL: ttl, Extends: true, Fenced: true} }

func (sc *scenario) begin() *world {
	w := &world{scenario: sc, now: origin, budget: [faults]int{}}
	for f, n := range sc.budget {
		w.budget[f] = n
	}
	for i, mode := range sc.modes {
		p := &process{kind: Kind{Key: key}, shard: newShard(&Lines{turn: time.Duration(sc.turn) * tick})}
		if mode != Whole {
			p.kind = Kind{Key: key, Mode: mode, TTL: ttl, Extends: true}
		}
		if mode == Permits {
			p.kind.Limit, p.kind.Permits = sc.limit, 1
		}
		for n := range sc.people[i] {
			p.people = append(p.people, &person{want: sc.want(i, n), again: sc.again})
		}
		w.processes = append(w.processes, p)
	}
	return w
}

func newShard(lines *Lines) *shard {
	s := &shard{}
	s.init(lines)
	return s
}

func (w *world) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// token makes a token of a process.
func (w *world) token(p int) string {
	w.processes[p].fresh++
	return fmt.Sprintf("%c%d", 'a'+p, w.processes[p].fresh)
}

// processOf returns whose token it is.
func processOf(token string) int { return int(token[0] - 'a') }

// excused reports whether a token may have lost the key without a fault of anybody here.
func (w *world) excused(token string) bool {
	return token != "" && slices.Contains(w.processes[processOf(token)].robbed, token)
}

// copying maps the values of a process to their copies.
type copying struct {
	shard *shard
	owned map[Leased]*owned
	lines map[*Line]*Line
	ins   map[*Caller]*Caller
}

// clone copies a world.
func (w *world) clone() *world {
	v := *w
	v.server.holders, v.server.queue = slices.Clone(w.server.holders), slices.Clone(w.server.queue)
	v.messages = slices.Clone(w.messages)
	v.processes = make([]*process, len(w.processes))
	for i, p := range w.processes {
		v.processes[i] = p.clone()
	}
	return &v
}

func (p *process) clone() *process {
	q := *p
	q.shard = newShard(p.shard.lines)
	q.shard.size, q.shard.lastContended = p.shard.size, p.shard.lastContended
	c := copying{q.shard, map[Leased]*owned{}, map[*Line]*Line{}, map[*Caller]*Caller{}}
	q.leases = make([]*owned, len(p.leases))
	for i, g := range p.leases {
		q.leases[i] = &owned{}
		c.owned[g] = q.leases[i]
	}
	for _, g := range p.leases {
		c.copy(g)
	}
	q.duties, q.asks, q.robbed = slices.Clone(p.duties), slices.Clone(p.asks), slices.Clone(p.robbed)
	q.people = make([]*person, len(p.people))
	for i, o := range p.people {
		q.people[i] = c.person(o)
	}
	for k, g := range p.shard.alone {
		q.shard.alone[k] = c.leased(g)
	}
	for k, l := range p.shard.whole {
		q.shard.whole[k] = c.line(l)
	}
	for k, l := range p.shard.shared {
		q.shard.shared[k] = c.line(l)
	}
	for i := range q.asks {
		q.asks[i].line = c.line(q.asks[i].line)
	}
	return &q
}

func (c *copying) person(o *person) *person {
	n := *o
	n.own, n.has, n.in, n.grant = c.lease(o.own), c.lease(o.has), c.caller(o.in), c.given(o.grant)
	return &n
}

func (c *copying) given(g Grant) Grant {
	g.Lease = c.leased(g.Lease)
	return g
}

func (c *copying) lease(g *owned) *owned {
	if g == nil {
		return nil
	}
	return c.owned[g]
}

// copy fills the copy of a lease.
func (c *copying) copy(g *owned) {
	n := c.owned[g]
	at := &g.part
	n.token, n.deadline, n.fence = g.token, g.deadline, g.fence
	n.ends, n.began, n.owner = g.ends, g.began, g.owner
	n.live, n.seen, n.possible = g.live, g.seen, g.possible
	n.part.line, n.part.until, n.part.users = c.line(at.line), at.until, at.users
	n.part.state, n.part.open, n.part.stands, n.part.madeToWait = at.state, at.open, at.stands, at.madeToWait
	if n.part.shard = nil; at.shard != nil {
		n.part.shard = c.shard
	}
}

func (c *copying) leased(g Leased) Leased {
	if g == nil {
		return nil
	}
	return c.owned[g]
}

func (c *copying) line(l *Line) *Line {
	if l == nil {
		return nil
	}
	if n := c.lines[l]; n != nil {
		return n
	}
	n := *l
	c.lines[l] = &n
	n.lease, n.asker, n.head, n.tail = c.leased(l.lease), c.leased(l.asker), c.caller(l.head), c.caller(l.tail)
	return &n
}

func (c *copying) caller(o *Caller) *Caller {
	if o == nil {
		return nil
	}
	if n := c.ins[o]; n != nil {
		return n
	}
	n := *o
	c.ins[o] = &n
	n.shard, n.line, n.own, n.grant = c.shard, c.line(o.line), c.leased(o.own), c.given(o.grant)
	n.next, n.prev = c.caller(o.next), c.caller(o.prev)
	return &n
}

// state tells worlds apart. Instants count from now.
func (w *world) state() string {
	var b strings.Builder
	at := func(i clock.Instant) int {
		if i == 0 {
			return -99
		}
		return int(max(time.Duration(i-w.now), -9*tick) / (tick / 100))
	}
	fmt.Fprint(&b, w.budget, w.used, w.server.score, w.server.counter, w.server.shared, at(w.server.since))
	for _, h := range w.server.holders {
		fmt.Fprint(&b, h.token, at(h.end), ",")
	}
	for _, q := range w.server.queue {
		fmt.Fprint(&b, q.token, q.score, at(q.since), ";")
	}
	texts := make([]string, len(w.messages))
	for i, m := range w.messages {
		m.sent -= w.now
		texts[i] = fmt.Sprint(m)
	}
	slices.Sort(texts)
	fmt.Fprint(&b, texts)
	for _, p := range w.processes {
		p.state(&b, at)
	}
	return b.String()
}

// index is which lease it is; -1: none.
func (p *process) index(g Leased) int {
	return slices.IndexFunc(p.leases, func(o *owned) bool { return g == Leased(o) })
}

func (p *process) state(b *strings.Builder, at func(clock.Instant) int) {
	fmt.Fprint(b, "|", at(p.late.base), at(p.late.first), at(p.late.second),
		p.fresh, p.duties, p.robbed, len(p.shard.alone), len(p.shard.whole), p.shard.lastContended, p.closed)
	lines := map[*Line]int{}
	line := func(l *Line) int {
		if l == nil {
			return -1
		}
		if _, known := lines[l]; !known {
			lines[l] = len(lines)
			fmt.Fprint(b, "{", p.index(l.lease), p.index(l.asker), l.watching, l.leases, l.asking, l.standing,
				l.places,
				at(l.turn.began), at(l.turn.others), at(l.turn.asked), at(l.turn.late), l.turn.failed, l.turn.fence,
				l.turn.spare, l.number, l.score, at(l.other), l.met, "}")
		}
		return lines[l]
	}
	for _, g := range p.shard.alone {
		fmt.Fprint(b, "-", p.index(g))
	}
	for _, l := range p.shard.whole {
		fmt.Fprint(b, line(l))
	}
	for _, l := range p.shard.shared {
		fmt.Fprint(b, line(l))
	}
	for _, o := range p.people {
		x := &o.wait
		fmt.Fprint(b, "#", o.stage, o.order, o.again, p.index(leasedOf(o.own)), p.index(leasedOf(o.has)), o.fence,
			o.from, x.Phase, x.Token, x.Silent, x.Former, x.Since, x.Score, x.Gone,
			at(x.FirstSend), at(x.Anchor), x.Anchored, x.Repeated)
		if c := o.in; c != nil {
			fmt.Fprint(b, "c", c.role, c.awaits, c.watches, line(c.line))
			grant(b, p, c.grant)
		}
		grant(b, p, o.grant)
	}
	for _, g := range p.leases {
		a := &g.part
		fmt.Fprint(b, "+", g.token, at(g.deadline), at(g.began), g.fence, g.ends, g.live, g.seen, g.possible,
			a.shard != nil, line(a.line), at(a.until), a.users, a.state, a.open, a.stands, a.madeToWait)
	}
	for _, q := range p.asks {
		fmt.Fprint(b, "?", q.number, line(q.line), q.token)
	}
}

func leasedOf(g *owned) Leased {
	if g == nil {
		return nil
	}
	return g
}

func grant(b *strings.Builder, p *process, g Grant) {
	if g.Lease != nil {
		fmt.Fprint(b, "g", p.index(g.Lease), g.Do, g.Fence, g.Reserve, g.Ask, g.Met)
	}
}
