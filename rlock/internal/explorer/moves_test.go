package explorer

import (
	"cmp"
	"errors"
	"slices"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/queue"
)

// moveKind is what may happen next.
type moveKind uint8

const (
	executes moveKind = iota
	executesUnheard
	delivers
	loses
	doubles
	wants
	overdues
	beats
	leaves
	releases
	triesOnce
	releasesAgain
	extends
	expires
	handsOver
	detaches
	shortens
	asksAgain
	givesUp
	reaps
	crashes
	closes
	breaks
	listens
	mishears
	strangerDeletes
	strangerTakes
	strangerReleases
	remembers
	failsOver
	mistypes
	mends
	opens
	shuts
	jumps
	jumpsBack
	elapses
)

// move is one step of a world.
type move struct {
	kind    moveKind
	process int
	index   int // of a message, or of what the reaper has; of a crash: 1 if the connection stays open
}

var errNotNow = errors.New("this cannot happen now")

// moves calls visit with all that may happen next, and perhaps more.
func (x *explorer) moves(w *world, visit func(move)) {
	for i := range w.load() {
		if i > 0 && w.bag[i] == w.bag[i-1] {
			continue // the same message once more
		}
		if x.in(w, i).kind == request {
			visit(move{kind: executes, index: i})
			if w.budget[loss] > 0 && isRelease(x.in(w, i).request) {
				visit(move{kind: executesUnheard, index: i})
			}
		} else {
			visit(move{kind: delivers, index: i})
		}
		if w.budget[loss] > 0 {
			visit(move{kind: loses, index: i})
		}
		if w.budget[doubling] > 0 || w.budget[resending] > 0 {
			visit(move{kind: doubles, index: i})
		}
	}
	for p := range x.scenario.processes {
		for _, k := range x.ofProcess {
			visit(move{kind: k, process: p})
			switch k {
			case reaps:
				for i := 1; i < maxReap; i++ {
					visit(move{kind: k, process: p, index: i})
				}
			case crashes:
				visit(move{kind: k, process: p, index: 1})
			}
		}
	}
	for _, k := range x.ofServer {
		visit(move{kind: k})
	}
}

// kinds returns the moves that a scenario has.
func (s scenario) kinds() (ofProcess, ofServer []moveKind) {
	ofProcess = []moveKind{wants, overdues, beats, releases, expires, reaps}
	ofServer = []moveKind{elapses}
	add := func(kinds []moveKind, more ...moveKind) []moveKind {
		for _, k := range more {
			if !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
		return kinds
	}
	if s.wants+s.more > 1 && !s.apart {
		ofProcess = append(ofProcess, releasesAgain)
	}
	if s.leaving {
		ofProcess = append(ofProcess, leaves)
	}
	for f := range faults {
		if s.budget[f] == 0 {
			continue
		}
		ofProcess = add(ofProcess, map[fault][]moveKind{cancel: {leaves}, breakage: {breaks, listens},
			crash:     {crashes, closes},
			extension: {extends}, handing: {handsOver, givesUp}, attachment: {detaches, asksAgain},
			shortening: {shortens, asksAgain, givesUp}, trying: {triesOnce, asksAgain, givesUp},
			mishearing: {mishears}, failover: {listens}}[f]...)
		ofServer = add(ofServer, map[fault][]moveKind{
			deletion: {strangerDeletes}, taking: {strangerTakes, strangerReleases},
			failover: {remembers, failsOver}, mistype: {mistypes, mends}, barging: {opens, shuts},
			stepping: {jumps, jumpsBack},
		}[f]...)
	}
	return ofProcess, ofServer
}

// apply returns what becomes of a world. In calm nothing is repeated without need, and no fault
// happens. It returns errNotNow if the move cannot be, and a violation if a promise is broken.
func (x *explorer) apply(w world, m move, calm bool) (world, error) {
	err := x.happen(&w, m, calm)
	var v violation
	if err != nil && !errors.As(err, &v) {
		return w, err
	}
	x.renumber(&w)
	if err == nil {
		err = x.exclusive(&w)
	}
	if err == nil {
		err = x.stands(&w)
	}
	return w, err
}

// spend takes one from a budget.
func (w *world) spend(f fault, possible bool) error {
	if !possible || w.budget[f] == 0 {
		return errNotNow
	}
	w.budget[f]--
	return nil
}

func must(possible bool) error {
	if !possible {
		return errNotNow
	}
	return nil
}

func (x *explorer) happen(w *world, m move, calm bool) error {
	switch m.kind {
	case executes, executesUnheard, delivers, loses:
		return x.arrive(w, m)
	case doubles:
		twin, of := x.in(w, m.index), doubling
		if twin.kind == request {
			of, twin.hidden, twin.sent = resending, true, 0
		}
		if err := w.spend(of, twin.kind != answer && !x.in(w, m.index).hidden); err != nil {
			return err
		}
		if !x.send(w, twin) {
			return errFull
		}
		return nil
	case elapses:
		if x.budget[ticks] > 0 && !calm {
			if err := w.spend(ticks, true); err != nil {
				return err
			}
		}
		x.elapse(w)
		return nil
	case strangerDeletes, strangerTakes, strangerReleases, remembers, failsOver, mistypes, mends, opens, shuts,
		jumps, jumpsBack:
		return x.disturb(w, m)
	case crashes, closes, breaks, listens, mishears:
		return x.connect(w, m)
	}
	p := m.process
	proc := x.of(w, p)
	if proc.dead {
		return errNotNow
	}
	wait := proc.wait
	event := queue.Event{}
	if (m.kind == givesUp || m.kind == asksAgain) != (proc.next != "") && m.kind != reaps {
		return errNotNow
	}
	switch m.kind {
	case wants:
		if wait.Phase != queue.Idle || proc.wants == 0 || !x.late && x.at(w).hearing[p] == deaf {
			return errNotNow
		}
		// Processes differ in their names only, so they may be named in the order in which they
		// first want the lock.
		if p > 0 && x.more == 0 && x.shares[p] == x.shares[p-1] && proc.tokens == 0 && x.of(w, p-1).tokens == 0 &&
			!x.of(w, p-1).dead {
			return errNotNow
		}
		proc.wants--
		proc.wait.Since, proc.since = proc.since, 0
		proc.wait.Silent = x.at(w).hearing[p] == deaf
		x.put(w, p, proc)
		event.What = queue.Wanted
	case triesOnce:
		if wait.Phase != queue.Idle || proc.wants == 0 {
			return errNotNow
		}
		if err := w.spend(trying, true); err != nil {
			return err
		}
		proc.wants--
		return x.replaces(w, p, proc, tries)
	case overdues:
		if wait.Phase != queue.Joining && wait.Phase != queue.Passing {
			return errNotNow
		}
		pending := x.underWay(w, p, true, func(r queue.Request) bool {
			return r.Call == queue.Join && r.Token == wait.Token || r.Call == queue.Pass && r.Again == wait.Token
		})
		if err := x.again(w, pending, calm); err != nil {
			return err
		}
		// place.PassOn gives it up, but the script promises that it may be repeated
		if wait.Phase == queue.Passing {
			return x.ask(w, p, queue.Request{Call: queue.Pass, Token: wait.Former, Again: wait.Token,
				Silent: wait.Silent})
		}
		event.What = queue.Overdue
	case beats:
		if wait.Phase != queue.Waiting || x.flaw.silent || !wait.Silent && x.at(w).hearing[p] == deaf {
			return errNotNow
		}
		pending := x.underWay(w, p, true,
			func(r queue.Request) bool { return r.Call == queue.Heartbeat && r.Token == wait.Token })
		if err := x.again(w, pending, calm); err != nil {
			return err
		}
		event.What, event.Hears = queue.BeatDue, x.at(w).hearing[p] != deaf
	case leaves:
		if err := must(wait.Phase != queue.Idle && wait.Phase != queue.Held); err != nil {
			return err
		}
		if !x.leaving {
			if err := w.spend(cancel, true); err != nil {
				return err
			}
		}
		if wait.Phase == queue.Passing {
			return x.giveUp(w, p, wait.Former, wait.Token)
		}
		x.leavesPlace(w, p)
		event.What = queue.Left
	case releases:
		if wait.Phase != queue.Held || wait.Deadline <= 0 {
			return errNotNow
		}
		return x.giveUp(w, p, wait.Token)
	case releasesAgain:
		// A call of the token that has got no answer may come after this release, and then another one must follow:
		// so the process releases without joining again.
		if wait.Phase != queue.Held || wait.Deadline <= 0 || proc.wants == 0 || wait.Repeated {
			return errNotNow
		}
		proc.wants--
		proc.wait.Silent = x.at(w).hearing[p] == deaf
		x.put(w, p, proc)
		event.What = queue.Released
	case handsOver:
		if wait.Phase != queue.Held || wait.Deadline <= 0 || proc.wants == 0 || isShare(wait.Token) {
			return errNotNow
		}
		if err := w.spend(handing, true); err != nil {
			return err
		}
		proc.wants--
		return x.replaces(w, p, proc, handOver)
	case detaches:
		if err := w.spend(attachment, wait.Phase == queue.Held && wait.Deadline > 0); err != nil {
			return err
		}
		return x.replaces(w, p, proc, attaches)
	case shortens: // the lease counts as the shorter one from now on, and the holder goes on with it
		if err := w.spend(shortening, wait.Phase == queue.Held && wait.Deadline > 0); err != nil {
			return err
		}
		if !x.flaw.long {
			proc.wait.Deadline = min(proc.wait.Deadline, clock.LeaseEnd(0, x.settings.TTL/2))
		}
		return x.replaces(w, p, proc, shortened)
	case asksAgain: // the call has no answer so far; a hand-over is sent once
		if proc.call == handOver {
			return errNotNow
		}
		if err := x.again(w, x.replacing(w, p), calm); err != nil {
			return err
		}
		return x.ask(w, p, proc.replacement())
	case givesUp:
		if proc.call == attaches { // who attaches a lock asks until there is an answer, or until its lease is over
			return errNotNow
		}
		if err := x.again(w, x.replacing(w, p), calm); err != nil {
			return err
		}
		switch {
		case proc.call == tries:
			return x.giveUp(w, p, proc.next)
		case x.flaw.drops:
			return x.giveUp(w, p, wait.Token)
		}
		return x.giveUp(w, p, wait.Token, proc.next)
	case extends:
		if err := w.spend(extension, wait.Phase == queue.Held); err != nil {
			return err
		}
		return x.ask(w, p, queue.Request{Call: extend, Token: wait.Token})
	case expires:
		if wait.Phase != queue.Held || wait.Deadline > 0 {
			return errNotNow
		}
		return x.giveUp(w, p, wait.Token)
	case reaps:
		r := proc.reaped[m.index]
		if r == (queue.Request{}) {
			return errNotNow
		}
		if err := x.again(w, x.underWay(w, p, true, func(other queue.Request) bool { return other == r }),
			calm); err != nil {
			return err
		}
		if !x.release(w, p, r) {
			return errFull
		}
		return nil
	}
	return x.step(w, p, event)
}

// again spends a retry if the call that would be repeated is still on its way.
func (x *explorer) again(w *world, pending, calm bool) error {
	switch {
	case !pending:
		return nil
	case calm:
		return errNotNow
	}
	return w.spend(retry, true)
}

// runs has the server run a script, and send what it pushes.
func (x *explorer) runs(w *world, m message) (effect, error) {
	e, err := x.run(w, m)
	var v violation
	if err != nil && !errors.As(err, &v) {
		x.tb.Fatal(err)
	}
	w.server = e.server
	for _, p := range e.pushes {
		if !x.of(w, p.process).dead && !x.send(w, p) {
			return e, errFull
		}
	}
	return e, err
}

// arrive executes, delivers or loses a message.
func (x *explorer) arrive(w *world, m move) error {
	msg := x.in(w, m.index)
	if m.kind == loses {
		w.take(m.index)
		return w.spend(loss, true)
	}
	if m.kind == executesUnheard {
		if err := w.spend(loss, isRelease(msg.request) && !x.of(w, msg.process).dead); err != nil {
			return err
		}
	}
	if m.kind != delivers {
		w.take(m.index)
		e, err := x.runs(w, msg)
		if errors.Is(err, errFull) {
			return err
		}
		if err == nil && !e.refused && !msg.hidden && !x.of(w, msg.process).dead {
			// The answer to a call of the reaper changes nothing but whether it calls again, and
			// it may call as late as it likes, so nothing is lost if the answer arrives at once.
			switch {
			case isRelease(msg.request):
				if m.kind != executes {
					return nil
				}
				if msg.last {
					x.reaped(w, msg.process, msg.request)
				}
				return nil
			}
			msg.kind, msg.answer = answer, e.answer
			if !x.send(w, msg) {
				return errFull
			}
		}
		return err
	}
	w.take(m.index)
	if x.of(w, msg.process).dead {
		return nil
	}
	switch {
	case msg.kind == push:
	case msg.request.Call == extend:
		return x.extended(w, msg)
	case msg.request.Call > extend:
		return x.replaced(w, msg)
	}
	event := queue.Event{What: queue.Answered, Request: msg.request, Sent: msg.sent, Answer: msg.answer,
		Token: msg.token}
	if msg.kind == push {
		event.What = queue.Told
		if !msg.answer.Granted { // the server asks for a heartbeat
			if x.of(w, msg.process).wait.Token != msg.token || x.flaw.quiet {
				return nil
			}
			event = queue.Event{What: queue.BeatDue, Hears: x.at(w).hearing[msg.process] != deaf}
		}
	}
	return x.step(w, msg.process, event)
}

// replacement is the call of a holder that gives the lock another token.
func (proc *process) replacement() queue.Request {
	r := queue.Request{Call: proc.call, Token: proc.wait.Token, Again: proc.next}
	switch proc.call {
	case tries:
		r.Token = proc.next
	}
	return r
}

// replacing reports whether such a call, or an answer to it, is on its way.
func (x *explorer) replacing(w *world, p int) bool {
	next := x.of(w, p).next
	return x.underWay(w, p, true, func(r queue.Request) bool { return r.Call > extend && r.Again == next })
}

// replaces has the holder send a call that gives the lock another token. Nobody holds the lock until that
// is answered.
func (x *explorer) replaces(w *world, p int, proc process, call queue.Call) error {
	if int(proc.tokens) >= maxOwned {
		return errTokens
	}
	proc.call, proc.next = call, x.tokens[p][proc.tokens]
	r := proc.replacement()
	unanswered := func(o queue.Request) bool { return o.Token == r.Token || o.Again == r.Token }
	proc.doubt = x.underWay(w, p, true, unanswered)
	proc.tokens++
	x.put(w, p, proc)
	return x.ask(w, p, r)
}

// replaced takes the answer to such a call.
func (x *explorer) replaced(w *world, msg message) error {
	p, r := msg.process, msg.request
	proc := x.of(w, p)
	switch {
	case proc.next != r.Again: // it was given up
		return nil
	case !msg.answer.Granted &&
		(r.Call == attaches && !proc.doubt || r.Call == tries && !x.replacing(w, p)):
		return x.giveUp(w, p) // the server has none of the tokens
	case !msg.answer.Granted && r.Call == attaches:
		return x.giveUp(w, p, r.Token)
	case !msg.answer.Granted && r.Call == tries:
		return x.giveUp(w, p, r.Again)
	case !msg.answer.Granted:
		return x.giveUp(w, p, r.Token, r.Again)
	}
	if proc.doubt && !x.flaw.trusts {
		if err := x.abandon(w, p, &proc, queue.Request{Call: queue.Pass, Token: r.Token}); err != nil {
			return err
		}
	}
	proc.doubt = false
	proc.call, proc.next, proc.wait.Token = 0, "", r.Again
	deadline := clock.LeaseEnd(msg.sent, x.settings.TTL)
	switch {
	case r.Call == shortened: // the deadline is that of the shorter lease already
		deadline = proc.wait.Deadline
	case r.Call != attaches:
		proc.wait.Fence = msg.answer.Fence
	case !isShare(r.Again) && !x.endless && !x.flaw.whole:
		deadline = clock.LeaseEnd(msg.sent, msg.answer.Remaining)
	}
	proc.wait.Phase, proc.wait.Deadline = queue.Held, deadline
	x.put(w, p, proc)
	switch {
	case proc.wait.Deadline <= 0: // the lock is over before its holder begins
		return x.giveUp(w, p, r.Again)
	case r.Call == attaches || r.Call == shortened:
		return nil // it goes on with its fence
	}
	return x.rises(w, p, proc.wait)
}

// leavesPlace notes the place in the queue that callers leave to the next caller of their process.
func (x *explorer) leavesPlace(w *world, p int) {
	proc := x.of(w, p)
	if proc.wants == 0 {
		return
	}
	proc.since = proc.wait.Score
	if x.shares[p] != "" { // who has left before the server has said a score leaves the place that it was left
		proc.since = cmp.Or(proc.since, proc.wait.Since)
	}
	x.put(w, p, proc)
}

// extended takes the answer to an extension. A lock that is over does not come back.
func (x *explorer) extended(w *world, msg message) error {
	proc := x.of(w, msg.process)
	switch held := proc.wait.Phase == queue.Held && proc.wait.Token == msg.request.Token && proc.next == ""; {
	case !held:
	case !msg.answer.Granted:
		return x.giveUp(w, msg.process, proc.wait.Token)
	case proc.wait.Deadline > 0:
		proc.wait.Deadline = max(proc.wait.Deadline, clock.LeaseEnd(msg.sent, x.settings.TTL))
		x.put(w, msg.process, proc)
	}
	return nil
}

// reaped ends what the reaper does for a token.
func (x *explorer) reaped(w *world, p int, r queue.Request) {
	proc := x.of(w, p)
	for i, other := range proc.reaped {
		if other == r {
			copy(proc.reaped[i:], proc.reaped[i+1:])
			proc.reaped[maxReap-1] = queue.Request{}
			break
		}
	}
	x.put(w, p, proc)
}

// connect changes what a process hears, or whether it lives.
func (x *explorer) connect(w *world, m move) error {
	p := m.process
	s, proc := x.at(w), x.of(w, p)
	lost := func(is func(message) bool) {
		for i := w.load() - 1; i >= 0; i-- {
			if msg := x.in(w, i); msg.process == p && is(msg) {
				w.take(i)
			}
		}
	}
	switch m.kind {
	case crashes:
		if err := w.spend(crash, !proc.dead); err != nil {
			return err
		}
		x.put(w, p, process{dead: true})
		lost(func(msg message) bool { return msg.kind != request })
		if m.index == 0 {
			s.hearing[p] = deaf
		}
	case closes:
		if !proc.dead || s.hearing[p] == deaf {
			return errNotNow
		}
		s.hearing[p] = deaf
	case breaks:
		if err := w.spend(breakage, !proc.dead && s.hearing[p] != deaf); err != nil {
			return err
		}
		s.hearing[p] = deaf
		lost(func(msg message) bool { return msg.kind == push })
	case listens:
		if proc.dead || s.hearing[p] != deaf {
			return errNotNow
		}
		s.hearing[p] = listening
		x.become(w, s)
		if proc.wait.Phase == queue.Waiting && !x.flaw.silent {
			return x.step(w, p, queue.Event{What: queue.BeatDue, Hears: true})
		}
		return nil
	case mishears:
		if err := w.spend(mishearing, !proc.dead && s.hearing[p] == listening); err != nil {
			return err
		}
		s.hearing[p] = uncounted
	}
	x.become(w, s)
	return nil
}

// excuse notes that the server may have lost what any token has that was made so far.
func (x *explorer) excuse(w *world) {
	for p := range x.scenario.processes {
		for i := range x.of(w, p).tokens {
			_, bit := x.owner(x.tokens[p][i])
			w.excused |= bit
		}
	}
}

const stranger = "x"

// disturb does what no process of ours does.
func (x *explorer) disturb(w *world, m move) error {
	s := x.at(w)
	err := error(nil)
	switch m.kind {
	case strangerDeletes:
		err = w.spend(deletion, s.lock != "" && s.lock != stranger)
		if err == nil {
			for _, token := range s.holders() {
				_, bit := x.owner(token)
				w.excused |= bit
			}
			s.lock, s.left = "", 0
		}
	case strangerTakes:
		err = w.spend(taking, s.lock == "")
		s.lock, s.left = stranger, ttl.Milliseconds()
	case strangerReleases:
		err = must(s.lock == stranger)
		s.lock, s.left = "", 0
	case remembers:
		err = must(w.budget[failover] > 0 && w.snapshot == 0)
		w.snapshot = w.server
		return err
	case failsOver:
		if err = w.spend(failover, w.snapshot != 0); err != nil {
			return err
		}
		s = x.servers.values[w.snapshot]
		s.hearing, w.snapshot, w.failed = [maxProcesses]hearing{}, 0, true
		x.excuse(w)
	case mistypes:
		err = w.spend(mistype, !s.broken)
		s.broken = true
	case mends:
		err = must(s.broken)
		s.broken = false
	case opens:
		err = w.spend(barging, !s.open)
		s.open = true
	case shuts:
		err = must(s.open)
		s.open = false
	case jumps: // whatever has a lease loses of it
		err = w.spend(stepping, true)
		x.tickTo(w, 1)
		x.excuse(w)
		return err
	case jumpsBack:
		err = w.spend(stepping, true)
		x.tickTo(w, -1)
		w.back = true
		return err
	}
	x.become(w, s)
	return err
}
