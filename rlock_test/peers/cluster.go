package peers

import (
	"context"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// onCluster is rlock on a cluster of three, beside rlock on one server.
const onCluster = "rlock, on a cluster"

// places are one server and a cluster, each with the meter of the node that has the key "job".
func places(t *testing.T, e env.Engine) ([]*outcome, []meter) {
	cluster := e.StartCluster(t)
	return []*outcome{
			{driver: driver{name: rlockPlain, open: openRlock()}},
			{driver: driver{name: onCluster, open: openRlock()}},
		}, []meter{
			{tb: t, server: e.Start(t)},
			{tb: t, server: cluster.Nodes[int(gen.Slot("job"))*len(cluster.Nodes)/(1<<14)]},
		}
}

// alternateAt has rlock do its rounds at each place in turn.
func (c comparison) alternateAt(meters []meter, rounds int, do func(n int) *sample) {
	for round := range rounds {
		for i := range meters {
			n := (i + round) % len(meters)
			if o := c.outcomes[n]; !o.hung() {
				o.samples = append(o.samples, do(n))
			}
		}
	}
}

const workProcessesThere = "processes, on a cluster of three"

// compareClusters has processes compete for one lock of one server, and of a cluster.
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

// compareWakeUpsThere is compareWakeUps of one server and of a cluster.
func compareWakeUpsThere(t *testing.T, e env.Engine, p plan) comparison {
	c := comparison{workload: workload{name: workWakeUpThere, why: "a waiter on one client, a holder on another", level: wakeUpLevel}, level: idleBefore[1]}
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

// compareDeathsThere is compareDeaths of one server and of a cluster.
func compareDeathsThere(t *testing.T, e env.Engine, p plan) comparison {
	c := comparison{workload: workload{name: workDeathThere, why: "from the end of the dead holder's lease until a waiter has the lock", level: "waiter"}, level: 1}
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

// compareCallersThere has callers of one process take locks of one server, and of a cluster.
func compareCallersThere(t *testing.T, e env.Engine, name string, w workload, callers int, p plan) comparison {
	c := comparison{workload: workload{name: name, why: w.why, level: w.level}, level: callers}
	var meters []meter
	c.outcomes, meters = places(t, e)
	var lockers []locker
	for _, m := range meters {
		lockers = append(lockers, openRlock()(t, m.server.Addr(), lease))
	}
	c.alternateAt(meters, p.rounds, func(n int) *sample { return w.run(meters[n], lockers[n], callers, p.round) })
	return c
}

func (r *results) clusterGoals() (list []*goal) {
	slower := func(c *comparison) float64 { return c.ratio(rlockPlain, onCluster, (*sample).rate) }
	later := func(c *comparison) float64 {
		return c.ratio(onCluster, rlockPlain, func(s *sample) float64 { return float64(s.latency.quantile(0.5)) })
	}
	m := r.atMost(1.3)
	for _, name := range []string{workProcessesThere, workContendedThere, workAloneThere} {
		list = append(list, m.of(name, "one server is ≤ 1.3 × as fast", name, slower))
	}
	return append(list,
		m.of(workWakeUpThere, "p50 ≤ 1.3 × that of one server", workWakeUpThere, later),
		m.of(workDeathThere, "p50 ≤ 1.3 × that of one server", workDeathThere, later))
}
