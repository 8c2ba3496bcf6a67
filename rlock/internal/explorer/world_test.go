package explorer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/queue"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

const (
	tick     = time.Second // time passes in ticks, and is 0 at every present
	ttl      = 2 * tick
	maxBag   = 12
	maxReap  = 4
	maxOwned = 6 // tokens of one process
)

// process is what one process knows. Its clock reads 0 at every present.
type process struct {
	wait   queue.Wait
	reaped [maxReap]queue.Request // what the reaper releases
	tokens uint8                  // how many it has made
	since  int64                  // score of the place that its last callers have left; 0: none
	wants  uint8                  // how often a caller of it is still to want the lock
	next   string                 // the token that the lock is to have in place of that of its Wait; empty: none
	call   queue.Call             // that gives it that token
	// a copy of the call that took the lock had no answer when next was sent, and may take it once more
	doubt bool
	dead  bool
}

// kind is what a message is.
type kind uint8

const (
	none kind = iota
	request
	answer
	push
)

// message is something on its way: it arrives at any time, in any order, or never.
type message struct {
	kind    kind
	process int
	request queue.Request
	hidden  bool // the client has sent it once more by itself: nobody hears of its answer
	sent    clock.Instant
	answer  queue.Answer
	token   string // of a push; one whose answer grants nothing asks for a heartbeat
	last    bool   // of the reaper's calls: when it was sent, no other call of its token was on its way
}

// fault is a kind of fault, of which a scenario has a number.
type fault uint8

const (
	loss       fault = iota // of a request, an answer or a push
	retry                   // although the first call is still on its way
	cancel                  // all callers of a process go
	breakage                // of a subscription
	crash                   // of a process
	deletion                // of the lock by a stranger
	taking                  // of the free lock by a stranger with SET NX
	failover                // to what the server knew at an earlier time
	extension               // of a lease
	mishearing              // the server does not count a subscriber that hears
	mistype                 // the counter is made to be of another type
	doubling                // of a push
	ticks                   // which pass; a scenario without a number has no end of them
	// of the lock to the next caller of a process, as long as callers of it want the lock
	handing
	trying     // for the lock without a place in the queue
	attachment // of a lock that its holder detaches
	shortening // of a lease
	barging    // a time in which a free lock stays free
	resending  // of a request, by the client itself: the process does not know of it
	stepping   // of the server's clock, a tick ahead or back
	faults
)

// world is the state of everything. Its parts are numbers of a catalogue, so that worlds are
// small and can be compared.
type world struct {
	server    uint32
	processes [maxProcesses]uint32
	bag       [maxBag]uint32 // in their order; 0: no message
	budget    [faults]uint8
	snapshot  uint32 // the server that a failover leads to
	used      int64  // the largest fence of a holder so far
	phase     bool   // it was the fence of those who share the lock
	score     int64  // the largest score so far
	excused   uint32 // the tokens that a stranger or a failover has robbed of the lock
	failed    bool   // there was a failover, after which the clock has jumped
	back      bool   // the server's clock has gone back
}

// catalogue numbers values, from 1.
type catalogue[T comparable] struct {
	numbers map[T]uint32
	values  []T
}

func newCatalogue[T comparable]() *catalogue[T] {
	var zero T
	return &catalogue[T]{numbers: map[T]uint32{}, values: []T{zero}}
}

func (c *catalogue[T]) number(v T) uint32 {
	if n, known := c.numbers[v]; known {
		return n
	}
	n := uint32(len(c.values))
	c.numbers[v], c.values = n, append(c.values, v)
	return n
}

// scenario is what may happen.
type scenario struct {
	name      string
	processes int
	wants     uint8 // how often a caller of each process wants the lock
	more      uint8 // how often one of the last process does beside that
	leaving   bool  // callers go at any time: the next has their place
	apart     bool  // each of these is a wait of its own: no release joins again
	budget    map[fault]uint8
	// whose lock is a set, of which the lock is one key: it stands in the queue while it collects
	sets    [maxProcesses]bool
	shares  [maxProcesses]string // "<limit>:<permits>" that each process wants; empty: the whole lock
	mute    bool                 // nobody may ask who listens
	within  int                  // in how many ticks whoever lives must have had the lock; 0: see mostTicks
	slow    bool                 // the server lets each wait as if it stood far behind the first
	late    bool                 // a process listens only after a while
	endless bool                 // locks have no expiry
	flaw    flaw
}

// flaw is what a client does wrong.
type flaw struct {
	arrival bool // it counts a pushed lease from its arrival
	reuses  bool // it uses a token twice
	early   bool // the next caller of a process counts the lock as held before it has it
	trusts  bool // it forgets calls of a holder that are late after a hand-over
	drops   bool // it does not release what an unanswered hand-over may have given it
	stays   bool // it leaves the queue without a release
	silent  bool // it never looks for a lost message
	quiet   bool // it does not beat when the server asks for it
	sent    bool // it counts a pushed lease from the last call that it sent, answered or not
	blind   bool // it does not see that its place in the queue is another one
	forgets bool // it trusts the last answer although it has sent a token twice
	strays  bool // it takes a push about the lock that it holds for one about a token that it has given up
	whole   bool // it counts on a whole lease of a lock that it attaches
	long    bool // it counts on the longer lease until a call that shortens it is answered
	scripts func(map[string]string)
}

// effect is what one run of a script does.
type effect struct {
	server  uint32
	answer  queue.Answer
	refused bool
	pushes  []message
}

type cause struct {
	server  uint32
	message uint32
	clock   int64
}

// explorer explores a scenario.
type explorer struct {
	tb testing.TB
	scenario
	settings  queue.Settings
	vm        *vm
	client    rueidis.Client // builds the calls of scripts, and sends nothing
	servers   *catalogue[server]
	processes *catalogue[process]
	messages  *catalogue[message]
	effects   map[cause]effect
	tokens    [maxProcesses][maxOwned]string

	ofProcess, ofServer []moveKind
}

func newExplorer(tb testing.TB, s scenario) *explorer {
	tb.Helper()
	texts := scripts(tb)
	if s.slow {
		const beats = "math.min(500 * math.max(4 + ahead, 8), 60000)"
		for name, text := range texts {
			texts[name] = strings.Replace(text, beats, "6000", 1)
		}
		require.NotContains(tb, texts["wait"], beats)
		require.Contains(tb, texts["wait"], "beat = 6000")
	}
	if s.flaw.scripts != nil {
		s.flaw.scripts(texts)
	}
	x := &explorer{
		tb: tb, scenario: s, settings: queue.Settings{TTL: ttl, Least: 1}, vm: newVM(tb, texts),
		client:  rlocktest.Client(tb),
		servers: newCatalogue[server](), processes: newCatalogue[process](), messages: newCatalogue[message](),
		effects: map[cause]effect{},
	}
	if s.endless {
		x.settings.TTL = clock.NoExpiry
	}
	for p := range x.tokens {
		for i := range x.tokens[p] {
			x.tokens[p][i] = fmt.Sprint(processes[p:p+1], i+1)
			if s.shares[p] != "" {
				x.tokens[p][i] = "rlock:share:" + s.shares[p] + ":" + x.tokens[p][i]
			}
		}
	}
	return x
}

func (x *explorer) start() world {
	var w world
	s := server{mute: x.mute, slow: x.slow}
	for p := range x.scenario.processes {
		if !x.late {
			s.hearing[p] = listening
		}
	}
	w.server = x.servers.number(s)
	for p := range w.processes {
		n := x.wants
		if p == x.scenario.processes-1 {
			n += x.more
		}
		w.processes[p] = x.processes.number(process{wants: n, dead: p >= x.scenario.processes})
	}
	for f, n := range x.budget {
		w.budget[f] = n
	}
	return w
}

func (x *explorer) at(w *world) server             { return x.servers.values[w.server] }
func (x *explorer) of(w *world, p int) process     { return x.processes.values[w.processes[p]] }
func (x *explorer) in(w *world, i int) message     { return x.messages.values[w.bag[i]] }
func (x *explorer) put(w *world, p int, q process) { w.processes[p] = x.processes.number(q) }
func (x *explorer) become(w *world, s server)      { w.server = x.servers.number(s) }

// owner returns whose token it is, or -1 for a stranger's, and its place among all tokens.
func (x *explorer) owner(token string) (p int, bit uint32) {
	token = short(token)
	p = strings.IndexByte(processes, token[0])
	if p < 0 || strings.Contains(token, " ") { // of those who share a lock, the lock has no token
		return -1, 0
	}
	n, err := strconv.Atoi(token[1:])
	require.NoError(x.tb, err)
	return p, 1 << (p*maxOwned + n - 1)
}

// short returns the name that a token has in stories.
func short(token string) string { return token[strings.LastIndexByte(token, ':')+1:] }

// send puts a message into the bag, and reports whether there was room.
func (x *explorer) send(w *world, m message) bool {
	i := 0
	for i < maxBag && w.bag[i] != 0 {
		i++
	}
	if i == maxBag {
		return false
	}
	w.bag[i] = x.messages.number(m)
	slices.SortFunc(w.bag[:i+1], func(a, b uint32) int { return int(a) - int(b) })
	return true
}

func (w *world) take(i int) {
	copy(w.bag[i:], w.bag[i+1:])
	w.bag[maxBag-1] = 0
}

func (w *world) load() (n int) {
	for n < maxBag && w.bag[n] != 0 {
		n++
	}
	return n
}

// underWay reports whether a request that is so, or an answer to one, is in the bag.
func (x *explorer) underWay(w *world, p int, answers bool, is func(queue.Request) bool) bool {
	for i := range w.load() {
		m := x.in(w, i)
		known := m.process == p && !m.hidden
		if known && (m.kind == request || answers && m.kind == answer) && is(m.request) {
			return true
		}
	}
	return false
}

// execute runs the script of a request.
func (x *explorer) execute(w *world, i int) (effect, error) { return x.run(w, x.in(w, i)) }

func (x *explorer) run(w *world, m message) (effect, error) {
	now := w.score + 1
	if w.failed {
		now += 65536 // whatever the server has lost, its clock has gone on
	}
	call := message{process: m.process, request: m.request}
	of := cause{w.server, x.messages.number(call), now}
	if e, known := x.effects[of]; known {
		return e, nil
	}
	r := m.request
	run := execution{server: x.servers.values[w.server], clock: epoch*1000 + now}
	params := x.params(m.process, r, run.server.open)
	before := run.server
	var (
		reply   []int64
		refused bool
		err     error
	)
	if wait, waits := params.(gen.WaitParams); waits && r.Call == tries && !isShare(r.Token) {
		reply, refused, err = x.try(&run, wait)
	} else {
		reply, refused, err = x.call(&run, params)
	}
	if err != nil {
		return effect{}, err
	}
	e := effect{server: x.servers.number(run.server), refused: refused}
	if !refused {
		e.answer = answerOf(params, reply)
	}
	for _, p := range run.pushed {
		e.pushes = append(e.pushes, readPush(x.tb, p))
	}
	if err := x.inOrder(before, run.server, r); err != nil {
		return e, err
	}
	x.effects[of] = e
	return e, nil
}

// params are the parameters of the script of a request. While the server is open, a free lock stays free.
func (x *explorer) params(p int, r queue.Request, open bool) any {
	lease, process, barging := x.settings.TTL, processes[p:p+1], time.Duration(0)
	if x.endless {
		lease = 0
	}
	if r.Silent {
		process = ""
	}
	if open {
		barging = 999 * time.Millisecond // of each second, of which the clock has not one behind it
	}
	leased := []string{lockKey}
	if isShare(r.Token) || isShare(r.Again) {
		leased = append(leased, holdersKey)
	}
	wait := func(how gen.WaitHow) gen.WaitParams {
		return gen.WaitParams{
			Lock: lockKey, Queue: queueKey, Waiters: waitersKey, Holders: holdersKey, Grants: grants,
			Counter: []string{counterKey}, Token: r.Token, TTL: lease, Process: process, How: how, Since: r.Since,
			Barging: barging,
		}
	}
	attach := gen.AttachParams{Keys: leased, Token: r.Again, Former: []string{r.Token}}
	switch r.Call {
	case queue.Heartbeat:
		return wait(gen.WaitHowHeartbeat)
	case queue.Pass:
		if r.Again != "" {
			return gen.RequeueParams{
				Lock: lockKey, Queue: queueKey, Waiters: waitersKey, Holders: holdersKey, Grants: grants,
				Counter: []string{counterKey}, Token: r.Token, Again: r.Again, TTL: lease, Process: process,
				Barging: barging,
			}
		}
		return gen.ReleaseParams{
			Lock: lockKey, Queue: queueKey, Waiters: waitersKey, Holders: holdersKey, Grants: grants,
			Counter: []string{counterKey}, Token: r.Token, Barging: barging,
		}
	case extend:
		return gen.ExtendParams{Keys: leased, TTL: lease, Tokens: []string{r.Token}}
	case handOver:
		return gen.HandOverParams{
			Lock: lockKey, Queue: queueKey, Counter: []string{counterKey}, Token: r.Token, Next: r.Again, TTL: lease,
			Fences: 1, Barging: barging,
		}
	case tries:
		if x.sets[p] {
			return gen.AcquireAllParams{
				Keys: []string{lockKey, queueKey, counterKey}, Token: r.Token, TTL: lease, Locks: 1, Queued: true,
			}
		}
		return wait(gen.WaitHowTry)
	case passesAll:
		return gen.ReleaseManyParams{Keys: []string{lockKey, queueKey}, Locks: 1, Tokens: []string{r.Token}}
	case attaches:
		attach.Keep = !isShare(r.Token)
		if isShare(r.Token) {
			attach.TTL = lease
		}
		return attach
	case shortened:
		attach.TTL = x.settings.TTL / 2
		return attach
	}
	return wait(gen.WaitHowJoin)
}

// call runs a script with the words that the bindings make of its parameters.
func (x *explorer) call(run *execution, params any) (reply []int64, refused bool, err error) {
	words := env.WordsOf(x.tb, x.client, params)
	return x.vm.call(run, scriptNames[words.SHA1], words.Keys, words.Args)
}

// try runs the short script, and then wait.lua if the short one has done nothing. Both are one step: the
// first has changed nothing then, so it makes no difference what happens between them. The reply begins as
// that of wait.lua.
func (x *explorer) try(run *execution, p gen.WaitParams) (reply []int64, refused bool, err error) {
	reply, refused, err = x.call(run, gen.AcquireParams{
		Lock: p.Lock, Queue: p.Queue, Counter: p.Counter, Token: p.Token, TTL: p.TTL,
	})
	switch {
	case refused || err != nil:
		return nil, refused, err
	case reply[0] == 1:
		left := int64(-1)
		if p.TTL > 0 {
			left = p.TTL.Milliseconds()
		}
		return []int64{1, reply[1], left, 0}, false, nil
	case reply[0] == 2:
		return []int64{0, 0, reply[1], 0}, false, nil
	}
	return x.call(run, p)
}

func answerOf(params any, reply []int64) queue.Answer {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	switch params.(type) {
	case gen.ReleaseParams, gen.ReleaseManyParams:
		return queue.Answer{}
	case gen.AcquireAllParams:
		a := queue.Answer{Granted: reply[0] == 1}
		if a.Granted {
			a.Fence = reply[2]
		}
		return a
	case gen.ExtendParams:
		return queue.Answer{Granted: len(reply) == 0}
	case gen.AttachParams:
		return queue.Answer{Granted: reply[0] == 0, Remaining: ms(reply[1])}
	case gen.HandOverParams:
		a := queue.Answer{Granted: reply[0] == 1}
		if a.Granted {
			a.Fence = reply[1]
		}
		return a
	case gen.RequeueParams:
		return queue.Answer{Granted: reply[1] == 1, Fence: reply[2], Remaining: ms(reply[3]), Score: reply[4]}
	}
	a := queue.Answer{Granted: reply[0] == 1, Fence: reply[1], Score: reply[3]}
	if a.Granted { // what is left of another's lease says nothing here
		a.Remaining = ms(reply[2])
	}
	return a
}

func readPush(tb testing.TB, p pushed) message {
	if token, asked := strings.CutPrefix(p.text, "beat "); asked {
		return message{kind: push, process: p.process, token: token}
	}
	words := strings.SplitN(p.text, " ", 6) // the key has no spaces here
	require.Len(tb, words, 6, p.text)
	require.Equal(tb, []string{strconv.Itoa(len(lockKey)), lockKey}, words[3:5], p.text)
	lease, err := strconv.ParseInt(words[0], 10, 64)
	require.NoError(tb, err)
	fence, err := strconv.ParseInt(words[1], 10, 64)
	require.NoError(tb, err)
	return message{kind: push, process: p.process, token: words[5],
		answer: queue.Answer{Granted: true, Fence: fence, Remaining: time.Duration(lease) * time.Millisecond}}
}

// step lets something happen to the wait of a process, and does what follows from it.
func (x *explorer) step(w *world, p int, e queue.Event) error {
	proc := x.of(w, p)
	if int(proc.tokens) < maxOwned {
		e.Fresh = x.tokens[p][proc.tokens]
	}
	if x.flaw.reuses && proc.tokens > 0 {
		e.Fresh = x.tokens[p][0]
	}
	before := proc.wait
	if x.flaw.arrival && e.What == queue.Told {
		before.Anchored, before.Anchor, before.Repeated = true, 0, false
	}
	if x.flaw.blind {
		before.Score = 0
	}
	if x.flaw.forgets {
		before.Repeated = false
	}
	after, actions := x.settings.Step(before, e)
	if x.flaw.strays && e.What == queue.Told && before.Phase == queue.Held && before.Token == e.Token {
		actions = append(actions, queue.Action{Do: queue.Abandon,
			Request: queue.Request{Call: queue.Pass, Token: e.Token}})
	}
	if after.Phase == queue.Idle {
		after = queue.Wait{}
	}
	if after.Phase != queue.Idle && after.Token == "" {
		return errTokens
	}
	if after.Token != before.Token && after.Token != "" {
		proc.tokens = min(proc.tokens+1, maxOwned)
	}
	proc.wait = after
	var failure error
	for _, a := range actions {
		switch a.Do {
		case queue.Ask:
			if x.flaw.sent && a.Request.Call == queue.Heartbeat {
				proc.wait.Anchored, proc.wait.Anchor = true, 0
			}
			if err := x.ask(w, p, a.Request); err != nil {
				return err
			}
		case queue.Abandon:
			if x.flaw.stays && (e.What == queue.Left || a.Request.Token == before.Former) {
				continue
			}
			if err := x.abandon(w, p, &proc, a.Request); err != nil {
				return err
			}
		case queue.Hold:
			failure = x.rises(w, p, after)
		}
	}
	x.put(w, p, proc)
	return failure
}

// extend is a call of a holder, with scripts/extend.lua. A queue.Wait makes none.
const extend = queue.Pass + 1

// These are calls of a holder too. They give the lock the token Again in place of Token. One that tries
// has no lock, and one token.
const (
	handOver = queue.Pass + 2
	attaches = queue.Pass + 4
	tries    = queue.Pass + 5
)

// shortened is a call of a holder that gives the lock a shorter lease, with scripts/attach.lua, and the
// token Again in place of Token.
const shortened = queue.Pass + 6

// passesAll is the release of a set, with scripts/release_many.lua.
const passesAll = queue.Pass + 7

// isRelease reports whether a call is one of the reaper.
func isRelease(r queue.Request) bool {
	return r.Call == passesAll || r.Call == queue.Pass && r.Again == ""
}

// epoch is when everything happens, in milliseconds: scripts tell ends of leases from other numbers by that.
const epoch = 1_700_000_000_000

func isShare(token string) bool { return strings.HasPrefix(token, "rlock:share:") }

// ask sends a call of a process.
func (x *explorer) ask(w *world, p int, r queue.Request) error {
	if !x.send(w, message{kind: request, process: p, request: r}) {
		return errFull
	}
	return nil
}

// giveUp ends the wait of a process that no longer wants what its tokens have, or may have: its
// holder has released the lock or found it over, or its callers have gone.
func (x *explorer) giveUp(w *world, p int, tokens ...string) error {
	proc := x.of(w, p)
	held := proc.wait.Phase == queue.Held
	proc.wait, proc.call, proc.next, proc.doubt = queue.Wait{}, 0, "", false
	for _, token := range tokens {
		if x.sets[p] && held { // what is below takes back its place, which a late call may make
			if err := x.abandon(w, p, &proc, queue.Request{Call: passesAll, Token: token}); err != nil {
				return err
			}
		}
		if err := x.abandon(w, p, &proc, queue.Request{Call: queue.Pass, Token: token}); err != nil {
			return err
		}
	}
	x.put(w, p, proc)
	return nil
}

// abandon has the reaper of a process release a token.
func (x *explorer) abandon(w *world, p int, proc *process, r queue.Request) error {
	if slices.Contains(proc.reaped[:], r) {
		return nil
	}
	free := slices.Index(proc.reaped[:], queue.Request{})
	if free < 0 || !x.release(w, p, r) {
		return errFull
	}
	proc.reaped[free] = r
	return nil
}

// release sends what the reaper repeats. Its answer ends that only if no other call of the token
// could come after it: a call that inserts the token may be late.
func (x *explorer) release(w *world, p int, r queue.Request) bool {
	late := x.underWay(w, p, false, func(other queue.Request) bool {
		return !isRelease(other) && (other.Token == r.Token || other.Again == r.Token)
	})
	return x.send(w, message{kind: request, process: p, request: r, last: !late})
}

// tickTo has the server's clock go on by n ticks, or back.
func (x *explorer) tickTo(w *world, n int64) {
	s := x.at(w)
	s.pass(n * tick.Milliseconds())
	x.become(w, s)
}

// elapse lets a tick go by.
func (x *explorer) elapse(w *world) {
	x.tickTo(w, 1)
	if w.snapshot != 0 {
		old := x.servers.values[w.snapshot]
		old.pass(tick.Milliseconds())
		w.snapshot = x.servers.number(old)
	}
	// What is older than the longest lease is over, however old it is.
	older := func(i clock.Instant) clock.Instant { return max(i-clock.Instant(tick), -clock.Instant(ttl+tick)) }
	for p := range x.scenario.processes {
		proc := x.of(w, p)
		if proc.wait.Phase != queue.Idle {
			proc.wait.FirstSend = older(proc.wait.FirstSend)
			if proc.wait.Anchored {
				proc.wait.Anchor = older(proc.wait.Anchor)
			}
			if proc.wait.Phase == queue.Held && proc.wait.Deadline != clock.Never {
				proc.wait.Deadline = max(older(proc.wait.Deadline), -1)
			}
		}
		x.put(w, p, proc)
	}
	for i := range w.load() {
		m := x.in(w, i)
		if m.kind != push && !m.hidden && !isRelease(m.request) { // nobody asks when those were sent
			m.sent = older(m.sent)
		}
		w.bag[i] = x.messages.number(m)
	}
	x.sort(w)
}

func (x *explorer) sort(w *world) { slices.Sort(w.bag[:w.load()]) }

// renumber replaces scores and fences by their ranks, because scripts only compare them. So
// worlds that differ in nothing else are one.
func (x *explorer) renumber(w *world) {
	var fences, scores [60]int64
	nf, ns := 0, 0
	visit := func(f func(*int64, bool)) {
		for _, n := range []*uint32{&w.server, &w.snapshot} {
			if *n == 0 {
				continue
			}
			s := x.servers.values[*n]
			f(&s.counter, true)
			s.eachPhase(func(v *int64) { f(v, true) })
			for i := range s.members {
				f(&s.queue[i].score, false)
			}
			*n = x.servers.number(s)
		}
		for p := range x.scenario.processes {
			proc := x.of(w, p)
			f(&proc.wait.Fence, true)
			f(&proc.wait.Score, false)
			f(&proc.wait.Since, false)
			f(&proc.since, false)
			x.put(w, p, proc)
		}
		for i := range w.load() {
			m := x.in(w, i)
			f(&m.answer.Fence, true)
			f(&m.answer.Score, false)
			w.bag[i] = x.messages.number(m)
		}
		f(&w.used, true)
	}
	visit(func(v *int64, fence bool) {
		switch {
		case *v == 0:
		case fence:
			fences[nf], nf = *v, nf+1
		default:
			scores[ns], ns = *v, ns+1
		}
	})
	rank := func(all []int64) (sorted []int64, dense bool) {
		slices.Sort(all)
		all = slices.Compact(all)
		return all, len(all) == 0 || all[len(all)-1] == int64(len(all))
	}
	f, denseF := rank(fences[:nf])
	s, denseS := rank(scores[:ns])
	w.score = int64(len(s))
	if denseF && denseS {
		return
	}
	visit(func(v *int64, fence bool) {
		if *v == 0 {
			return
		}
		all := s
		if fence {
			all = f
		}
		n, _ := slices.BinarySearch(all, *v)
		*v = int64(n + 1)
	})
	x.sort(w)
}
