package peers

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// there marks a driver on a cluster of three. The run compares it with the same driver on one
// server.
const there = ", on a cluster"

// places starts one server and one cluster for each driver in turn. Each meter reads all nodes of
// its place. The node that has the key "job" comes first.
func places(t *testing.T, e env.Engine, drivers ...driver) (outcomes []*outcome, meters []meter) {
	if drivers == nil {
		drivers = []driver{{name: rlockPlain, open: openRlock()}}
	}
	one, nodes := e.Start(t), e.StartCluster(t).Nodes
	first := int(redislua.Slot("job")) * len(nodes) / (1 << 14)
	all := slices.Concat(nodes[first:], nodes[:first])
	for _, d := range drivers {
		outcomes = append(outcomes, &outcome{driver: d},
			&outcome{driver: driver{name: d.name + there, open: d.open}})
		meters = append(meters, meter{tb: t, server: one}, meter{tb: t, server: all[0], others: all[1:]})
	}
	return outcomes, meters
}

// alternateAt runs the rounds of each outcome at its place in turn, on servers without a key.
func (c comparison) alternateAt(meters []meter, rounds int, do func(n int) *sample) {
	for round := range rounds {
		for i := range meters {
			n := (i + round) % len(meters)
			if o := c.outcomes[n]; !o.hung() {
				for _, server := range append(meters[n].others, meters[n].server) {
					server.Do(meters[n].tb, "FLUSHALL")
				}
				o.samples = append(o.samples, do(n))
			}
		}
	}
}

const workProcessesThere = "processes, on a cluster of three"

// compareClusters makes processes compete for one lock, on one server and on a cluster.
func compareClusters(t *testing.T, e env.Engine, processes int, p plan) comparison {
	w := competing()
	c := comparison{workload: workload{name: workProcessesThere, why: w.why, level: w.level}, level: processes}
	var meters []meter
	c.outcomes, meters = places(t, e)
	crowds := make([][]*env.Program, len(meters))
	for i, m := range meters {
		for range processes {
			crowds[i] = append(crowds[i], recruit(t, driver{name: rlockPlain}, m.server.Addr()))
		}
		m.crowd(crowds[i], p.round/8)
	}
	c.alternateAt(meters, min(p.rounds, 3), func(n int) *sample { return meters[n].crowd(crowds[n], 4*p.round) })
	return c
}

const (
	workWakeUpThere    = "wake-up after a remote release, on a cluster of three"
	workContendedThere = "contended, no hold, on a cluster of three"
	workAloneThere     = "uncontended, on a cluster of three"
	workDeathThere     = "wake-up after a holder's death, on a cluster of three"
)

// compareWakeUpsThere is compareWakeUps on one server and on a cluster.
func compareWakeUpsThere(t *testing.T, e env.Engine, p plan) comparison {
	c := comparison{workload: workload{name: workWakeUpThere,
		why:   "the latency is the time from the release on one client to the acquisition on another",
		level: wakeUpLevel}, level: idleBefore[1]}
	var meters []meter
	c.outcomes, meters = places(t, e)
	var pairs []pair
	for _, m := range meters {
		pairs = append(pairs, pair{openRlock()(t, m.server.Addr(), lease), openRlock()(t, m.server.Addr(), lease)})
	}
	c.alternateAt(meters, p.rounds, func(n int) *sample {
		return meters[n].run(p.round, 1, func(ctx context.Context, _ int, l *latencies) error {
			return pairs[n].wakeUp(ctx, time.Duration(c.level)*time.Millisecond, l)
		})
	})
	return c
}

// compareDeathsThere is compareDeaths on one server and on a cluster.
func compareDeathsThere(t *testing.T, e env.Engine, p plan) comparison {
	c := comparison{workload: workload{name: workDeathThere,
		why: "the latency is the time from the end of the " +
			"dead holder's lease until a waiter has the lock", level: "waiter"}, level: 1}
	var meters []meter
	c.outcomes, meters = places(t, e)
	var waiters []locker
	for _, m := range meters {
		waiters = append(waiters, openRlock()(t, m.server.Addr(), shortLease))
	}
	c.alternateAt(meters, p.rounds, func(n int) *sample {
		holder := recruit(t, driver{name: rlockPlain}, meters[n].server.Addr())
		holder.Send(keep)
		if line := holder.Line(); line != "held" {
			t.Fatal(line)
		}
		return meters[n].outlive(holder, waiters[n])
	})
	return c
}

// compareCallersThere makes callers of one process take locks on one server, and on a cluster.
func compareCallersThere(t *testing.T, e env.Engine, name string, w workload, callers int, p plan,
	drivers ...driver) comparison {
	c := comparison{workload: workload{name: name, why: w.why, level: w.level}, level: callers}
	var meters []meter
	c.outcomes, meters = places(t, e, drivers...)
	var lockers []locker
	for i, m := range meters {
		lockers = append(lockers, c.outcomes[i].open(t, m.server.Addr(), lease))
	}
	c.alternateAt(meters, p.rounds,
		func(n int) *sample { return w.run(meters[n], lockers[n], callers, p.round) })
	return c
}

func (r *results) clusterGoals() (list []*goal) {
	slower := func(c *comparison) float64 { return c.ratio(rlockPlain, rlockPlain+there, (*sample).rate) }
	later := func(c *comparison) float64 {
		return c.ratio(rlockPlain+there, rlockPlain,
			func(s *sample) float64 { return float64(s.latency.quantile(0.5)) })
	}
	m := r.atMost(1.3)
	for _, name := range []string{workProcessesThere, workContendedThere, workAloneThere} {
		list = append(list, m.of(name, "rate of one server ≤ 1.3 × the cluster", name, slower))
	}
	list = append(list, r.atMost(1.1).of(workAloneThere, "loss ≤ 1.1 × the loss of the floor in scripts",
		workAloneThere, func(c *comparison) float64 {
			bare := c.ratio(floorInScripts, floorInScripts+there, (*sample).rate)
			if bare == 0 {
				return 0
			}
			return slower(c) / bare
		}))
	return append(list,
		m.of(workWakeUpThere, "p50 ≤ 1.3 × one server", workWakeUpThere, later),
		m.of(workDeathThere, "p50 ≤ 1.3 × one server", workDeathThere, later))
}

// aloneThere are the floors and rlock, to show what a cluster costs their callers. Each node's
// share of the calls needs writes and reads of its own.
func aloneThere() []driver {
	return slices.DeleteFunc(drivers(), func(d driver) bool {
		return !slices.Contains([]string{floorName, floorInScripts, rlockPlain}, d.name)
	})
}
