package line

import (
	"fmt"
	"slices"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/queue"
)

// What an acquisition does with what its line tells it.

func (w *world) send(m message) {
	m.sent = w.now
	w.messages = append(w.messages, m)
}

// underWay reports whether a command about a token has no answer yet.
func (w *world) underWay(token string) bool {
	return slices.ContainsFunc(w.messages, func(m message) bool {
		return m.kind != push && m.call != question && (m.token == token || m.again == token)
	})
}

// duty has a process release a token until it is sure that it has nothing.
func (w *world) duty(p int, token string) {
	d := &w.processes[p].duties
	if token == "" || slices.Contains(*d, token) {
		return
	}
	*d = append(*d, token)
	w.reap(p, token)
}

func (w *world) reap(p int, token string) {
	w.send(message{call: release, process: p, person: -1, token: token, settled: !w.underWay(token)})
}

// enter has a caller come.
func (w *world) enter(p, i int) {
	pr := w.processes[p]
	o := pr.people[i]
	pr.arrived++
	o.order, o.own = pr.arrived, &owned{}
	o.has, o.grant, o.wait, o.from = nil, Grant{}, queue.Wait{}, ""
	pr.leases = append(pr.leases, o.own)
	var in Entered
	pr.shard.enter(&in, &pr.kind, o.own, &o.want, true, 1, w.now)
	o.stage, o.in = inLine, in.Caller
	if in.Role != Waits {
		w.told(p, i, in.Role, in.Grant)
	}
	if in.Role == Given && w.now >= in.Grant.Lease.(*owned).began.After(time.Duration(w.turn)*tick) {
		w.fail("a caller of process %d joins others whose turn is over", p)
	}
}

// told has a caller do what its line says.
func (w *world) told(p, i int, role Role, g Grant) {
	o := w.processes[p].people[i]
	if role == Given && o.in != nil && !o.in.awaits {
		w.fail("process %d gives a lease to a caller who does something else", p)
	}
	o.in = nil
	switch o.grant = g; role {
	case Asks:
		w.tries(p, i)
	case Given:
		o.stage = given
		w.inTurn(p, o)
	case Gone:
		o.stage = gone
	}
}

// inTurn checks that callers of a process are served in their order, and share what they may.
func (w *world) inTurn(p int, o *person) {
	if g := o.grant.Lease.(*owned); w.modes[p] == Readers && g.seen {
		w.fail("a caller of process %d shares %s, whose token somebody has seen", p, g.token)
	}
	for _, other := range w.processes[p].people {
		if other.stage == inLine && other.order < o.order && other.in.role == Waits && w.modes[p] != Readers {
			w.fail("a caller of process %d is served before one who came earlier", p)
		}
	}
}

// goesOn checks what a process gives to a caller of its own, in place of giving it back.
func (w *world) goesOn(p int, g *owned, o *person) {
	grant := o.in.grant
	switch {
	case grant.Do != GoOn:
	case w.modes[p] == Permits && w.now >= g.began.After(time.Duration(w.turn)*tick):
		w.fail("process %d goes on with permits whose turn is over", p)
	case g.deadline <= w.now:
		w.fail("process %d goes on with a lease that is over", p)
	case g.seen || o.want.Own || o.want.Owner != g.owner:
		w.fail("process %d goes on with a token that is not for the next", p)
	}
}

// staysLate checks that a process which goes on with the key after its turn asks then whether another waits,
// and if it gets no answer within a turn, does not go on again without one.
func (w *world) staysLate(p int, g *owned) {
	goesOn := slices.ContainsFunc(w.processes[p].people, func(o *person) bool {
		return o.in != nil && o.in.grant.Lease == Leased(g) && o.in.grant.Do != PassOn
	})
	if !goesOn || w.modes[p] != Whole {
		return
	}
	i := slices.IndexFunc(w.server.queue, func(q standing) bool { return processOf(q.token) != p })
	if i < 0 {
		return
	}
	late, turn := &w.processes[p].late, time.Duration(w.turn)*tick
	if base := max(w.server.queue[i].since, w.server.since); base != late.base {
		*late = lateness{base: base}
	}
	switch {
	case w.now < late.base.After(turn):
	case late.first == 0:
		late.first = w.now
	case w.now < late.first.After(turn):
	case late.second == 0:
		late.second = w.now
	default:
		w.fail("process %d goes on with the key long after its turn, and another waits", p)
	}
}

// tries asks without a place.
func (w *world) tries(p, i int) {
	o := w.processes[p].people[i]
	if o.own.token == "" {
		o.own.token = w.token(p)
	}
	o.stage = trying
	w.send(message{call: try, process: p, person: i, token: o.own.token})
}

// stand begins a place.
func (w *world) stand(p, i int) {
	o := w.processes[p].people[i]
	if o.own.possible {
		w.duty(p, o.own.token)
	}
	o.own.possible, o.own.token, o.stage = false, "", stands
	o.wait = queue.Wait{Since: Handle{o.own}.Score()}
	w.place(p, i, queue.Event{What: queue.Wanted})
}

// place has the place of a caller take a step.
func (w *world) place(p, i int, e queue.Event) {
	pr := w.processes[p]
	o := pr.people[i]
	e.Now, e.Fresh = w.now, fmt.Sprintf("%c%d", 'a'+p, pr.fresh+1)
	before := o.wait.Token
	var do []queue.Action
	o.wait, do = queue.Settings{TTL: ttl, Fenced: true, Least: time.Millisecond}.Step(o.wait, e)
	if o.wait.Token != before && o.wait.Token == e.Fresh {
		pr.fresh++
	}
	for _, a := range do {
		switch r := a.Request; a.Do {
		case queue.Ask:
			m := message{call: join, process: p, person: i, token: r.Token, again: r.Again, since: r.Since}
			switch r.Call {
			case queue.Heartbeat:
				m.call = heartbeat
			case queue.Pass:
				m.call = requeue
			}
			w.send(m)
		case queue.Abandon:
			w.duty(p, r.Token)
		case queue.Hold:
			o.own.token = o.wait.Token
			w.hold(p, i, o.wait.Deadline, uint64(o.wait.Fence))
		}
	}
}

// hold begins a lease that the server has granted to a caller.
func (w *world) hold(p, i int, deadline clock.Instant, fence uint64) {
	o := w.processes[p].people[i]
	g := o.own
	o.wait, o.from = queue.Wait{}, ""
	g.deadline, g.fence = deadline, fence
	if deadline <= w.now {
		w.duty(p, g.token)
		w.fails(p, i)
		return
	}
	g.live, g.seen, g.began, g.owner = true, w.seen, w.now, o.want.Owner
	Handle{g}.Granted(g.seen || g.possible, w.now)
	o.stage, o.has, o.fence = holds, g, fence
	w.takes(p, o)
}

// takes checks the fence of one who begins to hold.
func (w *world) takes(p int, o *person) {
	if !o.want.Fenced || w.excused(o.has.token) || w.modes[p] == Permits {
		return
	}
	if o.fence < w.used || o.fence == w.used && w.modes[p] == Whole {
		w.fail("a caller of process %d has fence %d, and one had %d before", p, o.fence, w.used)
	}
	w.used = max(w.used, o.fence)
}

// fails ends an acquisition without the key.
func (w *world) fails(p, i int) {
	o := w.processes[p].people[i]
	g := o.own
	if o.wait.Phase != queue.Idle {
		Handle{g}.LeaveScore(max(o.wait.Score, o.wait.Since))
		if o.stage == passing {
			w.duty(p, o.wait.Token)
		} else {
			w.place(p, i, queue.Event{What: queue.Left})
		}
		o.wait = queue.Wait{}
	}
	if g.possible {
		w.duty(p, g.token)
	}
	w.passBy(p, o)
	o.stage = gone
	Handle{g}.Failed()
	Handle{g}.Ended()
}

// passBy gives what a caller was given, and does not hold, to the next, or back.
func (w *world) passBy(p int, o *person) {
	if o.grant.Lease == nil {
		return
	}
	g, as := o.grant.Lease.(*owned), o.want
	as.Own = as.Own || o.grant.Do != GoOn
	o.grant = Grant{}
	if w.done(g, as, false) {
		w.givesBack(p, g)
	}
}

// done ends the use of a lease, and reports whether nobody has it.
func (w *world) done(g *owned, as Want, plain bool) (back bool) {
	back, _ = Handle{g}.Done(Event{Now: w.now, Want: as, Sealed: g.seen, Plain: plain || !g.live || g.possible})
	for p, pr := range w.processes {
		for _, o := range pr.people {
			given := o.in != nil && o.in.role == Given && o.in.grant.Lease == Leased(g)
			if given && w.modes[p] != Readers {
				w.goesOn(p, g, o)
			}
		}
	}
	return back
}

// ends notes that a lease has ended in one way.
func (g *owned) end() {
	if g.live {
		g.live = false
		g.ends++
	}
}

// givesBack gives back a lease that nobody has, in the background.
func (w *world) givesBack(p int, g *owned) {
	g.end()
	w.duty(p, g.token)
	Handle{g}.Ended()
}

// receive has a caller go on with what it was given.
func (w *world) receive(p, i int) {
	o := w.processes[p].people[i]
	g, grant := o.grant.Lease.(*owned), o.grant
	switch grant.Do {
	case GoOn:
		if grant.Ask != 0 {
			w.asks(p, i, g, grant)
		}
		switch {
		case g.live && g.deadline <= w.now:
			w.passBy(p, o)
			o.stage = gone
			return
		case !g.live: // lost on its way: it learns that at once
			o.grant, o.stage = Grant{}, gone
			w.done(g, o.want, true)
			return
		}
		o.stage, o.has, o.grant, o.fence = holds, g, Grant{}, grant.Fence
		if w.modes[p] != Whole {
			o.fence = g.fence
		}
		w.takes(p, o)
	case HandOver:
		o.own.token, o.stage = w.token(p), handing
		n := 0
		if o.want.Fenced {
			n = grant.Reserve
		}
		w.send(message{call: handOver, process: p, person: i, token: g.token, again: o.own.token, reserve: n})
	case PassOn:
		o.stage, o.from = passing, g.token
		o.wait = queue.Wait{Phase: queue.Held, Token: g.token, Deadline: clock.Never}
		w.place(p, i, queue.Event{What: queue.Released})
	}
}

// asks has the server asked while a caller goes on.
func (w *world) asks(p, i int, g *owned, grant Grant) {
	pr := w.processes[p]
	pr.asks = append(pr.asks, asking{grant.Ask, g.part.line, g.token})
	w.send(message{
		call: question, process: p, person: i, token: g.token, reserve: grant.Reserve, number: grant.Ask,
	})
}

// handed ends a hand-over, by its answer or without one.
func (w *world) handed(p, i int, m message, answered bool) {
	o := w.processes[p].people[i]
	g := o.own
	from := o.grant.Lease.(*owned)
	g.possible = !answered
	if !m.granted {
		w.asksInPlaceOf(p, i, from)
		w.givesBack(p, from)
		w.rest(p, i)
		return
	}
	Handle{g}.HandedOver(Handle{from}, m.fence, m.fences, m.waits, m.sent)
	from.end()
	o.grant = Grant{}
	w.hold(p, i, clock.LeaseEnd(m.sent, m.left), m.fence)
}

// asksInPlaceOf has a caller ask the server.
func (w *world) asksInPlaceOf(p, i int, from *owned) {
	o := w.processes[p].people[i]
	Handle{o.own}.PassedOn(Handle{from}, w.now)
	o.grant = Grant{}
}

// rest has a caller that asks do so again.
func (w *world) rest(p, i int) { w.processes[p].people[i].stage = rests }

// passed ends a pass to another process, by its answer or without one.
func (w *world) passed(p, i int, m message, answered bool) {
	o := w.processes[p].people[i]
	from := o.grant.Lease.(*owned)
	if !answered || m.fences == 0 {
		w.duty(p, o.wait.Token)
		o.wait, o.own.token = queue.Wait{}, ""
		w.asksInPlaceOf(p, i, from)
		w.givesBack(p, from)
		w.rest(p, i)
		return
	}
	w.asksInPlaceOf(p, i, from)
	from.end()
	o.stage = stands
	r := queue.Request{Call: queue.Pass, Token: m.token, Again: m.again}
	w.place(p, i, queue.Event{What: queue.Answered, Request: r, Sent: m.sent, Answer: answerOf(m)})
}

func answerOf(m message) queue.Answer {
	return queue.Answer{Granted: m.granted, Fence: int64(m.fence), Remaining: m.left, Score: m.score}
}

// release gives up what a caller holds.
func (w *world) release(p, i int) {
	o := w.processes[p].people[i]
	g := o.has
	if g.live && g.deadline <= w.now {
		w.over(p, g)
		return
	}
	if !w.done(g, o.want, false) {
		o.stage, o.has = gone, nil
		w.staysLate(p, g)
		return
	}
	g.end()
	o.stage = releasing
	w.send(message{call: release, process: p, person: i, token: g.token, settled: !w.underWay(g.token)})
}

// released ends a release, by its answer or without one.
func (w *world) released(p, i int, settled bool) {
	o := w.processes[p].people[i]
	g := o.has
	if !settled || g.possible {
		w.duty(p, g.token)
	}
	Handle{g}.Ended()
	o.stage, o.has = gone, nil
}

// over ends the users of a lease whose time is over.
func (w *world) over(p int, g *owned) {
	for _, o := range w.processes[p].people {
		if o.stage == holds && o.has == g {
			o.stage, o.has = gone, nil
			if w.done(g, o.want, true) {
				w.duty(p, g.token)
				g.end()
				Handle{g}.Ended()
			}
		}
	}
}

// lost ends a lease whose key is another's.
func (w *world) lost(p int, g *owned) {
	g.end()
	Handle{g}.Ended()
	for _, o := range w.processes[p].people {
		if o.stage == holds && o.has == g {
			o.stage, o.has = gone, nil
			w.done(g, o.want, true)
		}
	}
}

// detaches a lease that one caller has.
func (w *world) detaches(p, i int) {
	o := w.processes[p].people[i]
	g := o.has
	if !(Handle{g}).SealIfAlone() {
		return
	}
	for _, other := range w.processes[p].people {
		if other != o && other.stage == holds && other.has == g {
			w.fail("%s is detached, and another has it", g.token)
		}
	}
	w.processes[p].robbed = append(w.processes[p].robbed, g.token)
	o.stage, o.has = gone, nil
	w.done(g, o.want, true)
	g.end()
	Handle{g}.Ended()
}

// endsByClose ends what a caller has because its process has closed. The server keeps it for the lease.
func (w *world) endsByClose(p, i int) {
	o := w.processes[p].people[i]
	g := o.has
	w.processes[p].robbed = append(w.processes[p].robbed, g.token)
	o.stage, o.has = gone, nil
	if w.done(g, o.want, true) {
		g.end()
		Handle{g}.Ended()
	}
}

// arrives delivers a message.
func (w *world) arrives(m message) {
	if m.kind == request {
		w.messages = append(w.messages, w.executes(m))
		return
	}
	p, pr := m.process, w.processes[m.process]
	if m.kind == push {
		for i, o := range pr.people {
			if o.stage == stands && o.wait.Token == m.token {
				w.place(p, i, queue.Event{What: queue.Told, Token: m.token, Answer: answerOf(m)})
				return
			}
		}
		w.stray(p, m.token)
		return
	}
	if m.person < 0 {
		if i := slices.Index(pr.duties, m.token); i >= 0 && m.settled {
			pr.duties = slices.Delete(pr.duties, i, i+1)
		}
		return
	}
	w.answered(p, m.person, m)
}

// stray gives back what the server has given to a token that nobody has.
func (w *world) stray(p int, token string) {
	for _, g := range w.processes[p].leases {
		if g.token == token && (g.live || w.excused(token)) {
			return
		}
	}
	for _, o := range w.processes[p].people {
		if o.own != nil && o.own.token == token && (o.stage == handing || o.stage == trying) {
			return
		}
	}
	w.duty(p, token)
}

// answered takes an answer to what a caller has asked. One that does not wait for it any more reads it never.
func (w *world) answered(p, i int, m message) {
	o := w.processes[p].people[i]
	switch m.call {
	case try:
		if o.stage != trying || o.own.token != m.token {
			return
		}
		if m.granted {
			w.hold(p, i, clock.LeaseEnd(m.sent, m.left), m.fence)
			return
		}
		w.blocked(p, i)
		w.rest(p, i)
	case join, heartbeat:
		r := queue.Request{Call: queue.Join, Token: m.token, Since: m.since}
		if m.call == heartbeat {
			r.Call = queue.Heartbeat
		}
		if o.stage != stands {
			return
		}
		w.place(p, i, queue.Event{What: queue.Answered, Request: r, Sent: m.sent, Answer: answerOf(m)})
		if o.stage == stands && !m.granted {
			w.blocked(p, i)
		}
	case requeue:
		if o.stage == passing && o.wait.Token == m.again {
			w.passed(p, i, m, true)
		}
	case handOver:
		if o.stage == handing && o.own.token == m.again {
			w.handed(p, i, m, true)
		}
	case question:
		if at := w.forgets(p, m); at != nil && m.granted {
			at.Heard(m.fence, m.fences, m.waits, m.sent)
		} else if at != nil {
			at.Unheard()
		}
	case release:
		if o.stage == releasing && o.has.token == m.token {
			w.released(p, i, m.settled)
		}
	case extension:
		for _, g := range w.processes[p].leases {
			if g.token == m.token && g.live && m.granted {
				g.deadline = max(g.deadline, clock.LeaseEnd(m.sent, ttl))
			}
		}
	}
}

func (w *world) blocked(p, i int) {
	left := ttl
	if len(w.server.holders) > 0 {
		left = time.Duration(w.server.holders[0].end - w.now)
	}
	Handle{w.processes[p].people[i].own}.Told(max(left, 0), w.now)
}

// forgets returns the question that a message is an answer to, which is one no more.
func (w *world) forgets(p int, m message) *Question {
	pr := w.processes[p]
	for i, a := range pr.asks {
		if a.number == m.number && a.token == m.token {
			pr.asks = slices.Delete(pr.asks, i, i+1)
			return &Question{pr.shard, a.line, a.number}
		}
	}
	return nil
}
