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
	lockers   = 2 // of each process
	workers   = 5 // of each locker

	// recovery is the time after a fault in which a server, a client and a busy machine must be
	// back to normal.
	recovery = 5 * time.Second
)

// keys are the keys of all locks. The keys of one group can form a set. Workers want the first
// groups most. A refused waiter may have got the key in its last attempt. Nobody waits for the keys
// of the last groups, so the checks know the owner at most refusals there.
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

// sharedKeys are the keys that workers also share. The last character of a name says how; see
// limitOf. Nobody waits for the keys of the last group.
var sharedKeys = [][]string{
	{"{r}0", "{r}2", "{r}3"},
	{"{s}0", "{s}2", "{s}3"},
	{"{t}0", "{t}2", "{t}3"},
}

// limitOf returns the number of permits of a shared key, or 0 if the key has readers.
func limitOf(key string) int { return int(key[len(key)-1] - '0') }

// plan describes a round. The seed decides everything else that is random in the round.
type plan struct {
	seed     uint64
	number   int // of the round in its run, from 1
	engine   env.Engine
	topology topology
	service  string
	ttls     []time.Duration
	load     time.Duration
	sharing  int           // of a hundred operations, how many concern shared keys
	crowd    int           // callers of each locker who call at the same time
	patience time.Duration // longest wait for a key after the faults; 0: the longest lease, and recovery
	errors   io.Writer     // for the processes' standard error; nil: this process's
}

// round is one arrangement of servers and processes, its faults and its history.
type round struct {
	plan
	t      testing.TB
	random *rand.Rand

	// The topology fills in these fields.
	addresses [processes][]string
	masterSet string
	servers   func() []*env.Server // the servers that have data now
	faults    []func() fault
	once      func() fault  // a fault that comes once, in the middle; nil: none
	clockStep time.Duration // largest step of the server's clock

	resource *env.Server
	members  [processes]*member
	all      []*member // also the killed processes

	disturbances []disturbance
	kills        map[int]span // by the number of the process
	calm         instant      // end of the last fault
	findings     []violation  // of the end of the round
	lostMany     atomic.Int64 // lost replies to scripts for many calls
}

// newRound starts the servers and processes of a plan.
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

// run lets the processes work under faults and then come to rest. It returns the history. A data
// race in a process fails the test, whatever the round is meant to show.
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

// races returns the reports of the race detector in all processes, also in the killed ones.
func (r *round) races() (found []violation) {
	for _, m := range r.all {
		if report := m.race(); report != "" {
			found = append(found, violation{"data race", fmt.Sprint("process ", m.number), "\n" + report})
		}
	}
	return found
}

// longest is the longest time that a lock can last without an extension.
func (r *round) longest() time.Duration {
	longest := time.Second // of the locks that the processes take at the end
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

// disturb begins and ends faults, at most two at a time, for the load time of the plan.
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
		case r.once != nil && now() > middle: // the single fault comes alone
		case now() > next && len(on) < 2 && len(r.faults) > 0:
			on = r.beginFault(on, r.faults[r.random.IntN(len(r.faults))]())
			next = now().add(r.pause())
		}
	}
	r.endFaults(on, never)
	r.calm = now()
}

// pause draws the time until the next fault. Some pauses are long, because the checks see most
// where all is well.
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

// endFaults ends the faults whose time is over at an instant, and returns the other faults.
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
