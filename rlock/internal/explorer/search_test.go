package explorer

import (
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/queue"
)

// mostCalls is how many calls of one process, or answers to them, may be on their way at once.
const mostCalls = 2

// crowded reports whether there are more.
func (x *explorer) crowded(w *world) bool {
	var calls [maxProcesses]int
	for i := range w.load() {
		m := x.in(w, i)
		if m.kind == push || m.hidden {
			continue
		}
		if calls[m.process]++; calls[m.process] > mostCalls {
			return true
		}
	}
	return false
}

// found is what an exploration has found.
type found struct {
	states, depth int
	complete      bool
	settled, rest int // how many worlds were let settle, and the most ticks that one took
	took          time.Duration
	broken        error
	story         string
}

func (f found) String() string {
	extent := fmt.Sprintf("depth %d", f.depth)
	if f.complete {
		extent = fmt.Sprintf("complete, depth %d", f.depth)
	}
	return fmt.Sprintf("%8d states, %s; %d of them settled, within %d ticks; %.1f s", f.states, extent,
		f.settled, f.rest, f.took.Seconds())
}

// node is a world that was reached, by a move from another.
type node struct {
	from int
	by   move
}

type reached struct {
	world world
	node  int
}

// explore visits worlds, the nearest first, until it has visited so many, or finds a violation.
// Each of every worlds is let settle.
func (x *explorer) explore(most, every int) found {
	began := time.Now()
	x.ofProcess, x.ofServer = x.kinds()
	seed := maphash.MakeSeed()
	first := x.start()
	visited := map[uint64]struct{}{maphash.Comparable(seed, first): {}}
	nodes := []node{{from: -1}}
	front := []reached{{first, 0}}
	f := found{states: 1}
	for len(front) > 0 && f.states < most && f.broken == nil {
		f.depth++
		var next []reached
		for _, at := range front {
			x.moves(&at.world, func(m move) {
				if f.broken != nil || f.states >= most {
					return
				}
				w, err := x.apply(at.world, m, false)
				var v violation
				if err != nil && !errors.As(err, &v) || err == nil && x.crowded(&w) {
					return
				}
				if err == nil {
					hash := maphash.Comparable(seed, w)
					if _, known := visited[hash]; known {
						return
					}
					visited[hash] = struct{}{}
				}
				f.states++
				nodes = append(nodes, node{at.node, m})
				if err == nil && every > 0 && f.states%every == 0 {
					var passed int
					passed, err = x.settle(w, nil)
					f.settled++
					f.rest = max(f.rest, passed)
				}
				if err != nil {
					f.broken = err
					f.story = x.story(nodes, len(nodes)-1, err)
					return
				}
				next = append(next, reached{w, len(nodes) - 1})
			})
		}
		front = next
	}
	f.complete = f.broken == nil && len(front) == 0
	f.took = time.Since(began)
	return f
}

// story tells how a world is reached, and what is wrong with it.
func (x *explorer) story(nodes []node, at int, wrong error) string {
	var path []move
	for ; nodes[at].from >= 0; at = nodes[at].from {
		path = append([]move{nodes[at].by}, path...)
	}
	var b strings.Builder
	w := x.start()
	n, last := 0, ""
	tell := func(before world, m move) {
		line := x.tell(&before, m)
		if line == last || n > 60 {
			return // a tick and another one
		}
		n, last = n+1, line
		fmt.Fprintf(&b, "%3d. %s\n", n, line)
	}
	for _, m := range path {
		before := w
		tell(before, m)
		after, err := x.apply(w, m, false)
		if err != nil {
			fmt.Fprintf(&b, "     So %s.\n", err)
			return b.String()
		}
		w = after
	}
	b.WriteString("     No fault happens from here on, and all messages arrive.\n")
	x.settle(w, tell)
	fmt.Fprintf(&b, "     So %s.\n", wrong)
	return b.String()
}

func name(p int) string { return strings.ToUpper(processes[p : p+1]) }

// tell says what a move does.
func (x *explorer) tell(w *world, m move) string {
	who := name(m.process)
	proc := x.of(w, m.process)
	switch m.kind {
	case executes, executesUnheard, delivers, loses, doubles:
		return x.tellMessage(w, m)
	case triesOnce:
		return fmt.Sprintf("A caller of %s tries to get the lock, and would not wait.", who)
	case detaches:
		return fmt.Sprintf("%s detaches %s, and attaches it again.", who, short(proc.wait.Token))
	case shortens:
		return fmt.Sprintf("%s shortens the lease of %s by half.", who, short(proc.wait.Token))
	case wants:
		return fmt.Sprintf("A caller of %s wants the lock: %s joins.", who, who)
	case overdues:
		return fmt.Sprintf("%s sends its call about %s again.", who, short(proc.wait.Token))
	case beats:
		return fmt.Sprintf("%s sends a heartbeat of %s.", who, short(proc.wait.Token))
	case leaves:
		return fmt.Sprintf("The callers of %s give up while it waits as %s.", who, short(proc.wait.Token))
	case releases:
		return fmt.Sprintf("%s releases %s.", who, short(proc.wait.Token))
	case releasesAgain:
		return fmt.Sprintf("%s releases %s, and joins again.", who, short(proc.wait.Token))
	case extends:
		return fmt.Sprintf("%s extends the lease of %s.", who, short(proc.wait.Token))
	case expires:
		return fmt.Sprintf("%s notices that the lease of %s is over.", who, short(proc.wait.Token))
	case handsOver:
		return fmt.Sprintf("The holder of %s hands %s over to the next caller of %s.", who, short(proc.wait.Token),
			who)
	case asksAgain:
		return fmt.Sprintf("%s has no answer, and asks once more for %s.", who, short(proc.next))
	case givesUp:
		return fmt.Sprintf("%s has no answer, and gives up %s and %s.", who, short(proc.wait.Token),
			short(proc.next))
	case reaps:
		return fmt.Sprintf("The reaper of %s releases %s once more.", who, short(proc.reaped[m.index].Token))
	case crashes:
		return fmt.Sprintf("%s dies%s.", who, map[int]string{1: ", and its connection stays open"}[m.index])
	case closes:
		return fmt.Sprintf("The server closes the connection of %s.", who)
	case breaks:
		return fmt.Sprintf("The subscription of %s breaks.", who)
	case listens:
		return fmt.Sprintf("%s subscribes again.", who)
	case mishears:
		return fmt.Sprintf("%s hears from now on where the server does not count it.", who)
	}
	return map[moveKind]string{
		strangerDeletes: "A stranger deletes the lock.", strangerTakes: "A stranger takes the lock with SET NX.",
		strangerReleases: "The stranger releases the lock.",
		remembers:        "From here on the replica lags behind.", failsOver: "The replica takes over.",
		mistypes: "A stranger makes the fence counter a text.", mends: "The fence counter is mended.",
		jumps:     "The server's clock goes ahead by a tick.",
		jumpsBack: "The server's clock goes back by a tick.",
		opens:     "A free lock stays free from here on.",
		shuts:     "A free lock goes to the first in the queue again.",
		elapses:   "A tick passes, which is half a lease.",
	}[m.kind]
}

func (x *explorer) tellMessage(w *world, m move) string {
	msg := x.in(w, m.index)
	who := name(msg.process)
	what := map[queue.Call]string{
		queue.Join: "join", queue.Heartbeat: "heartbeat", queue.Pass: "release", extend: "extension",
		handOver: "hand-over", attaches: "attach", shortened: "call that shortens the lease", tries: "try",
		passesAll: "release of the set",
	}[msg.request.Call] + " of " + short(msg.request.Token)
	if msg.request.Again != "" && msg.request.Call != tries {
		what += " that has " + short(msg.request.Again) + " join"
	}
	switch {
	case m.kind == loses:
		return fmt.Sprintf("Lost: %s's message about the %s%s.", who, what, short(msg.token))
	case m.kind == doubles && msg.kind == request:
		return fmt.Sprintf("The client of %s sends the %s once more by itself.", who, what)
	case m.kind == doubles:
		return fmt.Sprintf("%s will be told twice that %s has been granted the lock.", who, short(msg.token))
	case msg.kind == push && !msg.answer.Granted:
		return fmt.Sprintf("%s is asked for a heartbeat of %s.", who, short(msg.token))
	case msg.kind == push:
		return fmt.Sprintf("%s is told that %s has been granted the lock, with fence %d.", who, short(msg.token),
			msg.answer.Fence)
	case m.kind == delivers:
		said := "it is nowhere"
		switch {
		case msg.answer.Granted:
			said = "granted"
		case msg.answer.Score != 0:
			said = "queued"
		case msg.request.Call == queue.Pass && msg.request.Again == "":
			said = "done"
		}
		return fmt.Sprintf("%s gets the answer to its %s: %s.", who, what, said)
	}
	e, err := x.execute(w, m.index)
	if err != nil {
		return fmt.Sprintf("The server executes %s's %s.", who, what)
	}
	after := x.servers.values[e.server]
	text := fmt.Sprintf("The server executes %s's %s: %s", who, what, has(&after))
	if after.members > 0 {
		text += ", and in the queue"
		for _, m := range after.queue[:after.members] {
			text += " " + short(m.token)
		}
	}
	for _, p := range e.pushes {
		text += fmt.Sprintf("; it tells %s of %s", name(p.process), short(p.token))
	}
	if m.kind == executesUnheard {
		text += "; the answer is lost"
	}
	return text + "."
}

// describe says what is left of a world that does not come to rest.
func (x *explorer) describe(w *world) string {
	s := x.at(w)
	text := has(&s)
	for _, m := range s.queue[:s.members] {
		text += ", " + short(m.token) + " is in the queue"
	}
	for p := range x.scenario.processes {
		proc := x.of(w, p)
		if proc.wait.Phase != queue.Idle {
			text += fmt.Sprintf(", %s is %s as %s", name(p),
				[...]string{"idle", "joining", "waiting", "passing", "holding"}[proc.wait.Phase], short(proc.wait.Token))
		}
	}
	return text
}
