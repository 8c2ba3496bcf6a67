package chaos

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

const (
	processes = 3 // at a time
	lockers   = 2 // of a process
	workers   = 5 // of a locker

	// recovery is how long a server, a client and a busy machine may take until
	// everything is as before, once a fault has ended.
	recovery = 5 * time.Second
)

// keys are those of all locks: what can be one set stands together. The first are
// wanted most. Nobody waits for those of the last groups, so that it is known of most
// refusals who had the key: a waiter that was refused may have had it at last.
var keys = [][]string{
	{"{a}1", "{a}2", "{a}3"},
	{"{b}1", "{b}2", "{b}3"},
	{"{c}1", "{c}2", "{c}3"},
	{"{d}1", "{d}2", "{d}3"},
	{"{e}1", "{e}2", "{e}3"},
	{"{f}1", "{f}2", "{f}3"},
	{"{g}1", "{g}2", "{g}3"},
}

const unwaited = 2 // of the groups of keys

// sharedKeys are those that are shared too. The last character of a name says how: see limitOf. Nobody
// waits for those of the last group.
var sharedKeys = [][]string{
	{"{r}0", "{r}2", "{r}3"},
	{"{s}0", "{s}2", "{s}3"},
	{"{t}0", "{t}2", "{t}3"},
}

// limitOf returns how many permits there are of a key that is shared; 0: it has readers.
func limitOf(key string) int { return int(key[len(key)-1] - '0') }

// plan is what a round is made of. All else that is random in it comes from the seed.
type plan struct {
	seed     uint64
	number   int // of the round in its run, from 1
	engine   env.Engine
	topology topology
	service  string
	ttls     []time.Duration
	load     time.Duration
	sharing  int           // of a hundred operations, how many are about keys that are shared
	crowd    int           // callers of each locker who call at the same time
	patience time.Duration // longest wait for a key after the faults; 0: the longest lease, and recovery
	errors   io.Writer     // what the processes print to standard error; nil: our own
}

// round is one arrangement of servers and processes, its faults and its history.
type round struct {
	plan
	t      testing.TB
	random *rand.Rand

	// Filled in by the topology.
	addresses [processes][]string
	masterSet string
	servers   func() []*env.Server // those that have data, now
	faults    []func() fault
	once      func() fault  // nil: none; a fault that comes once, in the middle
	clockStep time.Duration // largest step of the server's clock

	resource *env.Server
	members  [processes]*member
	all      []*member // the killed ones too

	disturbances []disturbance
	kills        map[int]span // by the process' number
	calm         instant      // end of the last fault
	findings     []violation  // of the round's end
	lostMany     atomic.Int64 // replies to scripts for many calls
}

// newRound starts what the plan says.
func newRound(t testing.TB, p plan) *round {
	r := &round{plan: p, t: t, random: rand.New(rand.NewPCG(p.seed, uint64(p.number))), kills: map[int]span{}}
	r.topology.start(r)
	r.resource = r.engine.Start(t)
	if r.errors == nil {
		r.errors = os.Stderr
	}
	if r.patience == 0 {
		r.patience = r.longest() + recovery
	}
	for place := range processes {
		r.members[place] = r.startMember(place)
	}
	for _, m := range r.members {
		m.await(t, opened, patience)
	}
	return r
}

// run has the processes work under faults and come to rest. It returns the history. A data race in one of
// them fails the test, whatever the round is to show.
func (r *round) run() *history {
	r.disturb()
	r.settle()
	if found := r.races(); len(found) > 0 {
		r.findings = append(r.findings, found...)
		r.t.Errorf("%d processes had data races; %s", len(found), found[0])
	}
	h := &history{
		keeps: r.topology.keeps, disturbances: r.disturbances, kills: r.kills, calm: r.calm,
	}
	for _, m := range r.all {
		h.events = append(h.events, m.history()...)
	}
	return h
}

// races returns what the race detector has reported of the processes, the killed ones too.
func (r *round) races() (found []violation) {
	for _, m := range r.all {
		if report := m.race(); report != "" {
			found = append(found, violation{"data race", fmt.Sprint("process ", m.number), "\n" + report})
		}
	}
	return found
}

// longest is the longest time that a lock can last which nobody extends.
func (r *round) longest() time.Duration {
	longest := time.Second // of those that are taken at the end
	for _, ttl := range r.ttls {
		longest = max(longest, ttl)
	}
	return longest + r.clockStep
}

func (r *round) startMember(place int) *member {
	number := len(r.all) + 1
	var crowded []string
	if r.crowd > 0 {
		crowded = crowdKeys
	}
	m := startMember(r.t, orders{
		Process: number, Seed: r.random.Uint64(), Service: r.service, Lockers: lockers, Workers: workers,
		Keys: keys, Shared: sharedKeys, Sharing: r.sharing, TTLs: r.ttls, Patience: r.patience,
		Crowd: r.crowd, CrowdKeys: crowded, Addresses: r.addresses[place], MasterSet: r.masterSet,
		Resource: r.resource.Addr(),
	}, r.errors)
	r.all = append(r.all, m)
	return m
}

// replace kills the process in a place, and starts another there.
func (r *round) replace(place int) {
	m := r.members[place]
	from := now()
	m.Kill()
	<-m.ended
	r.kills[m.number] = span{from, now()}
	r.members[place] = r.startMember(place)
}

// disturb begins and ends faults, at most two at a time, for as long as the plan says.
func (r *round) disturb() {
	start := now()
	end, middle := start.add(r.load), start.add(r.load*2/5)
	next := start.add(r.between(100*time.Millisecond, 500*time.Millisecond))
	var on []ongoing
	for now() < end {
		time.Sleep(5 * time.Millisecond)
		on = r.endFaults(on, now())
		switch {
		case r.once != nil && now() > middle && len(on) == 0:
			on = r.beginFault(on, r.once())
			r.once = nil
		case r.once != nil && now() > middle: // it comes alone
		case now() > next && len(on) < 2 && len(r.faults) > 0:
			on = r.beginFault(on, r.faults[r.random.IntN(len(r.faults))]())
			next = now().add(r.pause())
		}
	}
	r.endFaults(on, never)
	r.calm = now()
}

// pause draws the time until the next fault. Some are long: what happens while all
// is well can be checked best.
func (r *round) pause() time.Duration {
	if r.random.IntN(4) == 0 {
		return r.between(1500*time.Millisecond, 2500*time.Millisecond)
	}
	return r.between(20*time.Millisecond, 500*time.Millisecond)
}

// ongoing is a fault that is on.
type ongoing struct {
	fault
	since, until instant
}

func (r *round) beginFault(on []ongoing, f fault) []ongoing {
	for _, other := range on {
		if other.target == f.target {
			return on
		}
	}
	o := ongoing{fault: f, since: now()}
	f.begin()
	o.until = now().add(f.lasts)
	return append(on, o)
}

// endFaults ends those whose time is over at an instant, and returns the others.
func (r *round) endFaults(on []ongoing, at instant) (rest []ongoing) {
	for _, o := range on {
		if o.until > at {
			rest = append(rest, o)
			continue
		}
		if o.end != nil {
			o.end()
		}
		r.disturbances = append(r.disturbances,
			disturbance{span{o.since, now()}, o.kind, o.process, o.late, o.harmless})
	}
	return rest
}
