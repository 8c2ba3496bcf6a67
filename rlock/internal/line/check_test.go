package line

import (
	"slices"

	"github.com/rlock-go/toolkit/rlock/internal/queue"
)

// check checks what must hold in every world.
func (w *world) check() {
	holders := make([]int, len(w.processes))
	for p, pr := range w.processes {
		holders[p] = w.checkHolders(p)
		w.checkLeases(p)
		for l := range pr.lines() {
			w.checkLine(p, l)
		}
	}
	for p, n := range holders {
		for q, m := range holders {
			both := w.modes[p] == w.modes[q] && w.modes[p] != Whole
			if p != q && n > 0 && m > 0 && !both {
				w.fail("processes %d and %d hold what excludes each other", p, q)
			}
		}
		if w.modes[p] == Permits && sum(holders) > w.limit {
			w.fail("%d permits of %d", sum(holders), w.limit)
		}
	}
}

func sum(all []int) (n int) {
	for _, m := range all {
		n += m
	}
	return n
}

// checkHolders returns how many leases callers of a process hold as far as they know.
func (w *world) checkHolders(p int) int {
	seen := map[*owned]int{}
	for i, o := range w.processes[p].people {
		if o.stage != holds || o.has.deadline <= w.now || w.excused(o.has.token) {
			continue
		}
		if h := w.server.holds(o.has.token); h < 0 || w.server.holders[h].end <= w.now {
			w.fail("caller %c%d holds %s by its own clock, and the server has given it away", 'A'+p, i, o.has.token)
		}
		if seen[o.has]++; seen[o.has] > 1 && w.modes[p] != Readers {
			w.fail("two callers of process %d hold %s", p, o.has.token)
		}
	}
	if w.modes[p] == Whole && len(seen) > 1 {
		w.fail("process %d holds %d leases of one key", p, len(seen))
	}
	return len(seen)
}

// checkLeases checks that a lease is somebody's, and ends once.
func (w *world) checkLeases(p int) {
	pr := w.processes[p]
	for _, g := range pr.leases {
		if g.ends > 1 {
			w.fail("%s ends twice", g.token)
		}
		users := 0
		for _, o := range pr.people {
			inLine := o.in != nil && o.in.grant.Lease == Leased(g)
			if o.stage == holds && o.has == g || o.grant.Lease == Leased(g) || inLine {
				users++
			}
		}
		if g.live && users == 0 {
			w.fail("nobody has %s", g.token)
		}
		if g.live && users != int(g.part.users) {
			w.fail("%s has %d users, and counts %d", g.token, users, g.part.users)
		}
	}
}

// lines are those that a process still has.
func (p *process) lines() map[*Line]bool {
	all := map[*Line]bool{}
	for _, e := range p.shard.whole {
		if e != nil {
			all[e] = true
		}
	}
	for _, l := range p.shard.shared {
		all[l] = true
	}
	return all
}

// checkLine checks that nobody waits for nobody.
func (w *world) checkLine(p int, l *Line) {
	asking, waiting := 0, 0
	for _, o := range w.processes[p].people {
		switch o.stage {
		case trying, rests, stands:
			asking++
		case inLine:
			if o.in.role == Asks {
				asking++
			}
		}
	}
	for c := l.head; c != nil; c = c.next {
		waiting++
	}
	if asking > 1 && l.Mode == Whole {
		w.fail("%d callers of process %d ask", asking, p)
	}
	if waiting > 0 && l.leases == 0 {
		w.fail("%d callers of process %d wait, and nobody asks or has a lease", waiting, p)
	}
}

// settle has the faults stop, and all come to rest: who has something gives it up, who waits gets it, and
// nothing is left.
func (w *world) settle(tell func(string)) error {
	w.budget, w.calm = [faults]int{}, true
	for ticks := range 60 {
		for steps := 0; w.err == nil; steps++ {
			ms := slices.DeleteFunc(w.moves(), func(m move) bool {
				return m.what == "attend" && w.attends(m) || m.what == "watch"
			})
			if len(ms) == 0 {
				break
			}
			m := ms[0]
			if i := slices.IndexFunc(ms, func(m move) bool { return m.what == "deliver" }); i >= 0 {
				m = ms[i]
			}
			if tell != nil {
				tell(w.text(m))
			}
			if w.does(m); steps > 300 {
				w.fail("it never comes to rest")
			}
		}
		if ticks == 0 {
			w.checkServer()
		}
		if w.err != nil || w.rested() {
			return w.err
		}
		if tell != nil {
			tell("tick, and heartbeats")
		}
		w.now = w.now.After(tick)
		w.expires()
		for p, pr := range w.processes {
			for i, o := range pr.people {
				if o.stage == stands && o.wait.Phase == queue.Waiting && !w.underWay(o.wait.Token) {
					w.place(p, i, queue.Event{What: queue.BeatDue, Hears: true})
				}
			}
		}
	}
	w.fail("it is not at rest after a minute without a fault")
	return w.err
}

// checkServer checks that the server has nothing that nobody wants, when all that was under way has arrived.
// A lease that is over here lasts a little longer there.
func (w *world) checkServer() {
	wanted := func(token string) bool {
		pr := w.processes[processOf(token)]
		return w.excused(token) || slices.ContainsFunc(pr.leases, func(g *owned) bool {
			return g.token == token && (g.live || g.deadline <= w.now)
		}) || slices.ContainsFunc(pr.people, func(o *person) bool {
			return o.stage == stands && o.wait.Token == token
		})
	}
	for _, h := range w.server.holders {
		if h.end > w.now && !wanted(h.token) {
			w.fail("%s has the key, and nobody wants it", h.token)
		}
	}
	for _, q := range w.server.queue {
		if !wanted(q.token) {
			w.fail("%s is left in the queue", q.token)
		}
	}
}

// attends reports whether a caller does nothing but wait already.
func (w *world) attends(m move) bool { return w.processes[m.p].people[m.i].in.awaits }

// rested reports whether nobody has or wants anything. What a stranger or a detached lease has goes by
// itself.
func (w *world) rested() bool {
	if len(w.messages)+len(w.server.queue) > 0 {
		return false
	}
	for _, pr := range w.processes {
		for _, o := range pr.people {
			if o.stage != gone {
				return false
			}
		}
		if len(pr.duties)+len(pr.asks)+len(pr.shard.alone)+len(pr.shard.whole)+len(pr.shard.shared) > 0 {
			return false
		}
	}
	return !slices.ContainsFunc(w.server.holders, func(h holder) bool { return !w.excused(h.token) })
}
