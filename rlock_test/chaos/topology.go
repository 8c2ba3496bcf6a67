package chaos

import (
	"slices"
	"strconv"
	"time"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// topology is an arrangement of servers, with the faults that occur in it.
type topology struct {
	name  string
	keeps bool // the data survives all faults, so all promises of rlock must hold

	start func(r *round)
}

var topologies = []topology{
	{name: "server", keeps: true, start: startServer},
	{name: "sentinel", start: startSentinel},
	{name: "cluster", start: startCluster},
	{name: "forgetful server", start: startForgetful},
	{name: "cluster whose slots move", keeps: true, start: startMovingCluster},
}

// startServer starts one server that persists everything before it answers.
func startServer(r *round) {
	s := r.engine.Start(r.t, "--appendonly", "yes", "--appendfsync", "always")
	r.servers = func() []*env.Server { return []*env.Server{s} }
	r.faults = r.serverFaults("server", s)
	var proxies [processes]*env.Proxy
	if r.crowd > 0 {
		r.once = func() fault { return r.loseMany(proxies) }
	}
	for place := range processes {
		proxy := env.NewProxy(r.t, s.Addr())
		proxies[place] = proxy
		r.addresses[place] = []string{proxy.Addr()}
		r.faults = append(r.faults, r.networkFaults(place, proxy)...)
		if r.crowd > 0 {
			many := []func() fault{r.dropManyReplies("network of "+r.processName(place), proxy)}
			r.faults = append(r.faults, r.concerning(place, slices.Repeat(many, 2))...)
		}
		r.faults = append(r.faults, r.processFaults(place)...)
	}
}

// startSentinel starts a primary that dies, and a replica that takes its place.
func startSentinel(r *round) {
	s := r.engine.StartSentinel(r.t)
	primary := s.Primary
	r.servers = func() []*env.Server { return []*env.Server{primary} }
	option := s.Option()
	r.masterSet = option.Sentinel.MasterSet
	r.everybody(option.InitAddress)
	r.once = func() fault {
		return fault{kind: "failover", target: "server", late: true, begin: func() {
			r.sever(s.Primary)
			s.Failover(r.t)
			primary = s.Replica
		}}
	}
}

// sever cuts a primary off from its replica for a moment, so the replica misses what the processes
// do in that moment.
func (r *round) sever(primary *env.Server) {
	primary.Do(r.t, "ACL", "SETUSER", "default", "-psync", "-sync")
	primary.Do(r.t, "CLIENT", "KILL", "TYPE", "replica")
	time.Sleep(r.between(10*time.Millisecond, 300*time.Millisecond))
}

// startCluster starts three primaries. Each primary can die and leave a replica.
func startCluster(r *round) {
	c := r.engine.StartReplicatedCluster(r.t)
	primaries := slices.Clone(c.Nodes)
	r.servers = func() []*env.Server { return primaries }
	r.everybody(c.Addrs())
	r.faults = append(r.faults, r.slotMoves(primaries)...)
	r.once = func() fault {
		i := r.random.IntN(len(c.Nodes))
		return fault{kind: "failover", target: "server", late: true, begin: func() {
			r.sever(c.Nodes[i])
			c.Failover(r.t, i)
			primaries[i] = c.Replicas[i]
		}}
	}
}

// startMovingCluster starts three primaries. Slots move between them all the time. The primaries have
// no other faults.
func startMovingCluster(r *round) {
	c := r.engine.StartCluster(r.t)
	r.servers = func() []*env.Server { return c.Nodes }
	r.everybody(c.Addrs())
	r.faults = append(r.faults, slices.Repeat(r.slotMoves(c.Nodes), 4)...)
}

// startForgetful starts one server that persists nothing. The server is flushed and restarted, or
// its clock is stepped.
func startForgetful(r *round) {
	const farthest = 2 * time.Second
	var s *env.Server
	if r.random.IntN(2) == 0 {
		var clock *env.Clock
		s, clock = r.engine.StartWithClock(r.t)
		r.clockStep = farthest
		step := func(kind string, direction time.Duration) func() fault {
			return func() fault {
				by := direction * r.between(10*time.Millisecond, farthest)
				return fault{kind: kind, target: "server", lasts: r.between(50*time.Millisecond, time.Second),
					begin: func() { clock.Shift(by) }, end: func() { clock.Shift(0) }}
			}
		}
		r.faults = append(r.faults, step("clock ahead", 1), step("clock behind", -1))
	} else {
		s = r.engine.Start(r.t)
		r.faults = append(r.faults, r.flush(s), func() fault {
			return fault{kind: "server forgets", target: "server", late: true,
				lasts: r.between(10*time.Millisecond, 500*time.Millisecond),
				begin: s.Kill, end: func() { s.Restart(r.t) }}
		})
	}
	r.servers = func() []*env.Server { return []*env.Server{s} }
	r.everybody([]string{s.Addr()})
}

func (r *round) flush(s *env.Server) func() fault {
	return func() fault {
		return fault{kind: "FLUSHALL", target: "server", begin: func() { s.Do(r.t, "FLUSHALL") }}
	}
}

// everybody gives all processes the same addresses, and adds the faults of processes.
func (r *round) everybody(addresses []string) {
	for place := range processes {
		r.addresses[place] = addresses
	}
	r.faults = append(r.faults, func() fault {
		faults := r.processFaults(r.random.IntN(processes))
		return faults[r.random.IntN(len(faults))]()
	})
}

func (r *round) processName(place int) string { return "process " + strconv.Itoa(place) }
