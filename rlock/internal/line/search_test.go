package line

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/queue"
)

// move is one thing that happens.
type move struct {
	what string
	p, i int
}

// moves are what may happen next.
func (w *world) moves() (ms []move) {
	for p, pr := range w.processes {
		for i := range pr.people {
			for _, what := range w.mayDo(p, i) {
				ms = append(ms, move{what, p, i})
			}
		}
		for i, g := range pr.leases {
			if g.live && w.excused(g.token) && w.server.holds(g.token) < 0 {
				ms = append(ms, move{"notice", p, i})
			}
		}
		for i, token := range pr.duties {
			if !w.underWay(token) {
				ms = append(ms, move{"reap", p, i})
			}
		}
		for i, a := range pr.asks {
			if !slices.ContainsFunc(w.messages, func(m message) bool {
				return m.call == question && m.process == p && m.number == a.number
			}) {
				ms = append(ms, move{"unheard", p, i})
			}
		}
	}
	for p, pr := range w.processes {
		if w.budget[closing] > 0 && !pr.closed {
			ms = append(ms, move{"close", p, 0})
		}
	}
	for i, m := range w.messages {
		if !w.later(m) {
			ms = append(ms, move{"deliver", m.process, i})
		}
		if w.budget[loss] > 0 {
			ms = append(ms, move{"lose", m.process, i})
		}
	}
	if w.budget[slot] > 0 {
		ms = append(ms, move{"slot", 0, 0})
	}
	if w.budget[deletion] > 0 {
		for i := range w.server.holders {
			ms = append(ms, move{"delete", 0, i})
		}
	}
	if !w.calm && int(time.Duration(w.now-origin)/tick) < w.ticks {
		ms = append(ms, move{"tick", 0, 0})
	}
	return ms
}

// later reports whether a message is read later: a caller that passes a key on waits for the answer first.
func (w *world) later(m message) bool {
	return m.kind == push && slices.ContainsFunc(w.processes[m.process].people, func(o *person) bool {
		return o.stage == passing && o.wait.Token == m.token
	})
}

// mayDo is what a caller may do, or what may happen to it.
func (w *world) mayDo(p, i int) (all []string) {
	pr := w.processes[p]
	o := pr.people[i]
	add := func(when bool, what string) {
		if when {
			all = append(all, what)
		}
	}
	leaves := w.budget[leaving] > 0
	unanswered := func(token string) bool { return !w.underWay(token) }
	late := w.budget[timeout] > 0
	if pr.closed && o.stage != releasing {
		add(o.stage == holds, "end")
		add(o.stage != holds && o.stage != gone, "leave")
		return all
	}
	switch o.stage {
	case away:
		add(i == 0 || pr.people[i-1].stage != away, "enter")
	case gone:
		add(o.again > 0, "enter")
	case inLine:
		add(o.in.role != Waits, "see")
		add(leaves, "leave")
		add(o.in.role == Waits && o.want.Slow, "attend")
		add(o.in.role == Waits && !o.in.watches && w.now > origin, "watch")
	case trying:
		add(unanswered(o.own.token) || late, "unanswered")
		add(leaves, "leave")
	case rests:
		add(true, "stand")
		add(o.own.possible, "try")
		add(leaves, "leave")
	case stands:
		silent := unanswered(o.wait.Token)
		add(o.wait.Phase == queue.Joining && silent, "overdue")
		add(o.wait.Phase == queue.Waiting && silent && w.budget[beat] > 0, "beat")
		add(leaves, "leave")
	case given:
		add(true, "receive")
		add(leaves, "leave")
	case handing:
		add(unanswered(o.own.token) || late, "unanswered")
		add(leaves, "leave")
	case passing:
		add(unanswered(o.wait.Token) || late, "unanswered")
		add(leaves, "leave")
	case holds:
		g := o.has
		add(g.deadline > w.now, "release")
		add(g.deadline <= w.now, "expire")
		add(w.budget[extend] > 0 && unanswered(g.token), "extend")
		add(w.budget[detach] > 0, "detach")
	case releasing:
		add(unanswered(o.has.token) || late, "unanswered")
	}
	return all
}

// does a move, and checks what must hold then.
func (w *world) does(m move) {
	pr := w.processes[m.p]
	switch m.what {
	case "deliver", "lose":
		w.transports(m)
	case "tick":
		w.now = w.now.After(tick)
	case "reap":
		w.reap(m.p, pr.duties[m.i])
	case "notice":
		w.lost(m.p, pr.leases[m.i])
	case "unheard":
		a := pr.asks[m.i]
		w.forgets(m.p, message{number: a.number, token: a.token}).Unheard()
	case "slot":
		w.budget[slot]--
		w.server.counter++
	case "delete":
		w.budget[deletion]--
		token := w.server.holders[m.i].token
		w.frees(token)
		robbed := &w.processes[processOf(token)].robbed
		*robbed = append(*robbed, token)
	case "close":
		w.budget[closing]--
		pr.closed = true
		for _, o := range pr.people {
			if o.again = 0; o.stage == away {
				o.stage = gone
			}
		}
	default:
		w.acts(m)
	}
	w.check()
}

func (w *world) transports(m move) {
	x := w.messages[m.i]
	switch m.what {
	case "deliver":
		w.messages = slices.Delete(w.messages, m.i, m.i+1)
		w.arrives(x)
	case "lose":
		w.budget[loss]--
		w.messages = slices.Delete(w.messages, m.i, m.i+1)
	}
}

// acts does a move of a caller.
func (w *world) acts(m move) {
	p, i := m.p, m.i
	o := w.processes[p].people[i]
	switch m.what {
	case "enter":
		if o.stage == gone {
			o.again--
		}
		w.enter(p, i)
	case "see":
		role, g := o.in.role, o.in.grant
		w.told(p, i, role, g)
	case "attend":
		o.in.Attend(!o.in.awaits, w.now)
	case "watch":
		o.in.Watch()
	case "leave":
		if !w.processes[p].closed {
			w.budget[leaving]--
		}
		w.leaves(p, i)
	case "unanswered":
		w.unanswered(p, i)
	case "stand":
		w.stand(p, i)
	case "try":
		w.tries(p, i)
	case "overdue":
		o.own.possible = true
		w.place(p, i, queue.Event{What: queue.Overdue})
	case "beat":
		w.budget[beat]--
		w.place(p, i, queue.Event{What: queue.BeatDue, Hears: true})
	case "receive":
		w.receive(p, i)
	case "release":
		w.release(p, i)
	case "expire":
		w.over(p, o.has)
	case "extend":
		w.budget[extend]--
		w.send(message{call: extension, process: p, person: i, token: o.has.token})
	case "detach":
		w.budget[detach]--
		w.detaches(p, i)
	case "end":
		w.endsByClose(p, i)
	}
}

// leaves has a caller go that has not got the key. A command of it may be under way.
func (w *world) leaves(p, i int) {
	o := w.processes[p].people[i]
	switch o.stage {
	case inLine:
		in := o.in
		s := in.shard
		role, g := in.line.take(&Event{What: Leave, Caller: in}).Role, in.grant
		s.tidy(in.line)
		if w.told(p, i, role, g); role == Given {
			w.fails(p, i)
		}
		return
	case trying, handing:
		o.own.possible = true
	case passing:
		// its token is given up, and what it was given goes to the next
	}
	w.fails(p, i)
}

// unanswered has a caller give up waiting for an answer.
func (w *world) unanswered(p, i int) {
	o := w.processes[p].people[i]
	if token := w.about(o); w.underWay(token) {
		w.budget[timeout]--
	}
	switch o.stage {
	case trying:
		o.own.possible = true
		w.rest(p, i)
	case handing:
		w.handed(p, i, message{}, false)
	case passing:
		w.passed(p, i, message{}, false)
	case releasing:
		w.released(p, i, false)
	}
}

// about is the token that a caller asks about.
func (w *world) about(o *person) string {
	switch o.stage {
	case passing:
		return o.wait.Token
	case releasing:
		return o.has.token
	}
	return o.own.token
}

// text tells a move.
func (w *world) text(m move) string {
	if m.what != "deliver" && m.what != "lose" {
		return fmt.Sprintf("%s %c%d", m.what, 'A'+m.p, m.i)
	}
	x := w.messages[m.i]
	kinds := [...]string{"request", "answer", "grant"}
	calls := [...]string{"try", "join", "heartbeat", "release", "requeue", "hand-over", "question", "extension"}
	text := fmt.Sprintf("%s %s", m.what, kinds[x.kind])
	if x.kind != push {
		text += " of " + calls[x.call]
	}
	text += fmt.Sprintf(" %s %s", x.token, x.again)
	if x.kind == answer {
		text += fmt.Sprintf(" (granted %v, fences %d of %d, score %d, waits %v)",
			x.granted, x.fences, x.fence, x.score, x.waits)
	}
	return text
}

// found is what a search has found.
type found struct {
	states int
	err    error
	story  []string
}

// explore looks at all worlds, those after fewer moves first, and at most at so many. Of each settles-th, it
// checks that all comes to rest.
func (sc *scenario) explore(most, settles int) (f found) {
	type node struct {
		w    *world
		from int
		how  move
	}
	seed := maphash.MakeSeed()
	seen := map[uint64]bool{}
	nodes := []node{{w: sc.begin(), from: -1}}
	story := func(at int, last ...move) (ms []move) {
		for ; nodes[at].from >= 0; at = nodes[at].from {
			ms = append(ms, nodes[at].how)
		}
		slices.Reverse(ms)
		return append(ms, last...)
	}
	for at := 0; at < len(nodes) && len(nodes) < most; at++ {
		w := nodes[at].w
		nodes[at].w = nil
		for _, m := range w.moves() {
			v := w.clone()
			if v.does(m); v.err != nil {
				f.story, f.err = sc.tell(story(at, m))
				return f
			}
			if len(v.messages) > 6 {
				continue
			}
			h := maphash.String(seed, v.state())
			if seen[h] {
				continue
			}
			seen[h] = true
			nodes = append(nodes, node{v, at, m})
			if len(nodes)%settles != 0 {
				continue
			}
			if end := v.clone(); end.settle(nil) != nil {
				f.story, f.err = sc.tell(story(at, m))
				return f
			}
		}
	}
	f.states = len(nodes)
	return f
}

// walk takes walks at random, and makes the story of the first that fails shorter.
func (sc *scenario) walk(walks, steps int, seed uint64) (f found) {
	r := rand.New(rand.NewPCG(seed, 1))
	for range walks {
		w := sc.begin()
		var story []string
		for range steps {
			ms := w.moves()
			if len(ms) == 0 {
				break
			}
			m := ms[r.IntN(len(ms))]
			if hurries := r.IntN(2) == 0; hurries { // or else all are slow all the time
				fast := only(ms, "deliver", "see", "receive", "stand")
				fast = slices.DeleteFunc(fast, func(m move) bool {
					return m.what == "deliver" && w.messages[m.i].call == question
				})
				if len(fast) > 0 {
					m = fast[r.IntN(len(fast))]
				}
			}
			story = append(story, w.text(m))
			f.states++
			if w.does(m); w.err != nil || len(w.messages) > 10 {
				break
			}
		}
		if w.err == nil {
			w.settle(nil)
		}
		if w.err != nil {
			found := w.err
			if f.story, f.err = sc.shrink(story); f.err == nil {
				f.story, f.err = story, fmt.Errorf("%w (which the story does not tell)", found)
			}
			return f
		}
	}
	return f
}

// only returns the moves of some kinds.
func only(ms []move, kinds ...string) []move {
	return slices.DeleteFunc(slices.Clone(ms), func(m move) bool { return !slices.Contains(kinds, m.what) })
}

// tell returns the story of moves that fail, in words.
func (sc *scenario) tell(ms []move) (story []string, err error) {
	w := sc.begin()
	for _, m := range ms {
		story = append(story, w.text(m))
		w.does(m)
	}
	return sc.replay(story)
}

// replay does what a story tells, as far as it may happen, and has all come to rest.
func (sc *scenario) replay(story []string) (done []string, err error) {
	w := sc.begin()
	for _, text := range story {
		ms := w.moves()
		i := slices.IndexFunc(ms, func(m move) bool { return w.text(m) == text })
		if i < 0 {
			continue
		}
		done = append(done, text)
		if w.does(ms[i]); w.err != nil {
			return done, w.err
		}
	}
	w.settle(func(text string) { done = append(done, "  then "+text) })
	return done[:min(len(done), 80)], w.err
}

// shrink leaves out of a story that fails what it does not need.
func (sc *scenario) shrink(story []string) (done []string, err error) {
	for i := len(story) - 1; i >= 0; i-- {
		shorter := slices.Delete(slices.Clone(story), i, i+1)
		if _, err := sc.replay(shorter); err != nil {
			story, i = shorter, len(shorter)
		}
	}
	return sc.replay(story)
}

func (f found) String() string { return fmt.Sprintf("%v\n%s", f.err, strings.Join(f.story, "\n")) }
