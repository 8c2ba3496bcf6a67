package peers

import (
	"fmt"
	"slices"
	"strings"
)

// goal is what rlock is to reach beside the others, and what it has reached.
type goal struct {
	work     string
	wanted   string
	measured string
	reached  bool
}

// measure is a goal for a ratio at each of several levels, of which the worst counts.
type measure struct {
	r      *results
	wanted float64
	below  bool // the ratio is to be no larger than wanted, else no smaller
}

// of makes a goal of the ratios that f finds at the levels of a workload. There f
// returns 0 where it finds none.
func (m measure) of(work, wanted, workload string, f func(c *comparison) float64) *goal {
	g := &goal{work: work, wanted: wanted, reached: true}
	var parts []string
	for _, c := range m.r.all(workload) {
		ratio := f(c)
		if ratio == 0 {
			continue
		}
		if m.below && ratio > m.wanted || !m.below && ratio < m.wanted {
			g.reached = false
		}
		parts = append(parts, fmt.Sprintf("%.3g (%d)", ratio, c.level))
	}
	if parts == nil {
		return nil
	}
	g.measured = strings.Join(parts, ", ")
	return g
}

func (r *results) atLeast(ratio float64) measure { return measure{r: r, wanted: ratio} }
func (r *results) atMost(ratio float64) measure  { return measure{r: r, wanted: ratio, below: true} }

// rate returns the ratio of the rates of one driver to another; see bestOf.
func rate(name, other string) func(*comparison) float64 {
	return func(c *comparison) float64 { return c.ratio(name, other, (*sample).rate) }
}

// onlyAt restricts a ratio to some levels.
func onlyAt(f func(*comparison) float64, levels ...int) func(*comparison) float64 {
	return func(c *comparison) float64 {
		if !slices.Contains(levels, c.level) {
			return 0
		}
		return f(c)
	}
}

// ratio returns the median of the ratios of a figure of one driver to another's, 0 where
// one of them does not take part; see bestOf.
func (c *comparison) ratio(name, other string, figure func(*sample) float64) float64 {
	mine, theirs := c.bestOf(name), c.bestOf(other)
	if mine == nil || theirs == nil {
		return 0
	}
	return mine.ratio(theirs, figure)
}

// bestOf returns the outcome of the driver with that name or, if there is none, of the
// fastest whose name begins so.
func (c *comparison) bestOf(name string) *outcome {
	var best *outcome
	for _, o := range c.outcomes {
		if o.name == name {
			return o
		}
		if strings.HasPrefix(o.name, name) && !o.hung() &&
			(best == nil || o.median((*sample).rate) > best.median((*sample).rate)) {
			best = o
		}
	}
	return best
}

// fairShare returns the ratio of the longest waits of a driver to what they would be if all
// callers had the lock in turn.
func fairShare(name string) func(*comparison) float64 {
	return func(c *comparison) float64 {
		return medianOf(name, func(s *sample) float64 {
			return s.latency.quantile(0.99).Seconds() * s.rate() / float64(c.level)
		})(c)
	}
}

// medianOf returns a figure of a driver, 0 where it does not take part; see bestOf.
func medianOf(name string, figure func(*sample) float64) func(*comparison) float64 {
	return func(c *comparison) float64 {
		if o := c.bestOf(name); o != nil {
			return o.median(figure)
		}
		return 0
	}
}

// Figures of a sample; those of an acquisition are averages.
func p50(s *sample) float64         { return float64(s.latency.quantile(0.5)) }
func p99(s *sample) float64         { return float64(s.latency.quantile(0.99)) }
func commands(s *sample) float64    { return float64(s.commands) / float64(max(s.ops, 1)) }
func scripts(s *sample) float64     { return float64(s.scripts) / float64(max(s.ops, 1)) }
func serverTime(s *sample) float64  { return float64(s.serverCPU) / float64(max(s.ops, 1)) }
func allocations(s *sample) float64 { return float64(s.allocs) / float64(max(s.ops, 1)) }

func (r *results) goalList() []*goal {
	list := append(r.uncontendedGoals(),
		r.atLeast(20).of("local contention, auto-extended", "≥ 20 × rueidislock's hand-overs", workContended,
			rate(rlockExtended, rueidisLockName)),
		r.atMost(2).of("local contention, auto-extended, 1 ms hold", "p99 of waiting ≤ 2 × the fair share",
			workHeld, fairShare(rlockExtended)),
		r.atMost(2).of("local contention, auto-extended, no hold", "p99 of waiting ≤ 2 × the fair share",
			workContended, fairShare(rlockExtended)),
		r.atMost(1).of("local contention, fixed lease, no hold",
			"p99 of waiting, in fair shares, ≤ that of a semaphore without a server", workContended,
			func(c *comparison) float64 {
				theirs := fairShare(syncName)(c)
				if theirs == 0 {
					return 0
				}
				return fairShare(rlockPlain)(c) / theirs
			}),
		r.atLeast(800_000).of("local contention, fixed lease, no hold", "≥ 800,000 a second with 64 callers",
			workContended, onlyAt(medianOf(rlockPlain, (*sample).rate), 64)),
		r.atMost(4).of("local contention, fixed lease, no hold", "≤ 4 allocations", workContended,
			medianOf(rlockPlain, allocations)),
		r.atLeast(2.5).of("local contention, fixed lease", "≥ 2.5 × rueidislock's hand-overs", workContended,
			rate(rlockPlain, rueidisLockName)),
		r.atLeast(2).of("8 processes", "≥ 2 × rueidislock, the only other that is pushed", workProcesses,
			onlyAt(rate(rlockPlain, rueidisLockName), 8)),
		r.atLeast(0.5).of("8 processes", "the least lucky ≥ half of the luckiest", workProcesses,
			onlyAt(medianOf(rlockPlain, func(s *sample) float64 { return float64(s.least) / float64(max(s.most, 1)) }),
				8)),
		r.atMost(1.0/3).of("8 processes", "commands per acquisition ≤ a third of rueidislock's", workProcesses,
			onlyAt(func(c *comparison) float64 { return c.ratio(rlockPlain, rueidisLockName, commands) }, 8)),
		r.atLeast(500_000).of("8 processes", "≥ 500,000 a second", workProcesses,
			onlyAt(medianOf(rlockPlain, (*sample).rate), 8)),
		r.atMost(1).of(workWakeUp, "p50 ≤ two bare round trips", workWakeUp,
			func(c *comparison) float64 { return c.ratio(rlockPlain, floorName, p50) }),
		r.atMost(1.3).of("check from the cache", "p50 ≤ 1.3 × a bare DoCache hit", workCached,
			func(c *comparison) float64 { return c.ratio(rlockPlain, floorName, p50) }),
		r.atLeast(100).of("check from the cache", "≥ 100 × faster than asking the server, by one caller",
			workCached, func(c *comparison) float64 {
				asked, cached := r.find(workAsked, c.level), medianOf(rlockPlain, p50)(c)
				if asked == nil || cached == 0 || c.level != 1 {
					return 0
				}
				return medianOf(rlockPlain, p50)(asked) / cached
			}),
		r.atLeast(1).of("sets, one caller", "≥ bsm/redislock at every size it survives", workSets,
			rate(rlockPlain, bsmName)),
		r.atLeast(1).of("sets, 16 callers", "≥ bsm/redislock at every size it survives", workManySets,
			rate(rlockPlain, bsmName)),
		r.atLeast(1).of("sets of 10,000", "work: so many a second", workSets,
			onlyAt(medianOf(rlockPlain, (*sample).rate), 10_000)),
		r.atLeast(500_000).of("readers of one process", "≥ 500,000 a second with 1,024 callers", workReaders,
			onlyAt(medianOf(workReaders+", rlock", (*sample).rate), 1024)),
		r.atMost(0.05).of("readers of one process", "≤ 0.05 scripts each with 1,024 callers", workReaders,
			onlyAt(medianOf(workReaders+", rlock", scripts), 1024)),
		r.atLeast(1).of("8 processes of readers", "≥ the floor", workReaders+", "+workProcesses,
			rate(workReaders+", rlock", workReaders+", floor")),
		r.atMost(1).of("a writer among saturating readers of 8 processes",
			"the longest wait ≤ 1 × (the longest read + 3 round trips + 10 ms)", workWriter,
			medianOf(workReaders+", rlock",
				func(s *sample) float64 { return s.latency.most.Seconds() / mostWait(s).Seconds() })),
		r.atLeast(0.9).of("10 permits, 128 callers, 1 ms hold",
			"≥ 0.9 of the permits in use that are with a semaphore without a server", workPermits, permitsInUse),
		r.atLeast(0.9).of("10 permits, 8 processes of 16 callers, 1 ms hold",
			"≥ 0.9 of the permits in use that are with a semaphore of one process", workPermits+", "+workProcesses,
			permitsInUse),
		r.atLeast(0.9).of("10 permits, 8 processes of 16 callers, 1 ms hold",
			"≥ 0.9 of the rate of a semaphore of one process", workPermits+", "+workProcesses,
			rate(workPermits+", rlock", workPermits+", x/sync")),
		r.atMost(0.05).of("a permit whose holder died", "p50 ≤ 50 ms after the end of the lease",
			workOnePermit+", "+workDeath,
			medianOf(workOnePermit+", rlock", func(s *sample) float64 { return s.latency.quantile(0.5).Seconds() })),
		r.atLeast(10).of("batch of 100", "≥ 10 × one by one", workBatches, rate(rlockPlain, oneByOne)),
	)
	for _, far := range distances {
		work := fmt.Sprintf("%s, %v away", workWakeUp, far)
		list = append(list, r.atMost(0.6).of(work, "p50 ≤ 0.6 × two bare round trips", work,
			func(c *comparison) float64 { return c.ratio(rlockPlain, floorName, p50) }))
	}
	list = append(append(append(list, r.clusterGoals()...), r.guestGoals()...), r.idleGoals()...)
	return slices.DeleteFunc(list, func(g *goal) bool { return g == nil })
}

// permitsInUse compares rlock with a semaphore without a server.
func permitsInUse(c *comparison) float64 {
	return c.ratio(workPermits+", rlock", workPermits+", x/sync", (*sample).holders)
}

func (r *results) idleGoals() (list []*goal) {
	for _, s := range r.sections {
		idle, ok := s.(idleness)
		if !ok || len(idle.costs) < 2 {
			continue
		}
		ours, theirs := idle.costs[0], idle.costs[1]
		work := fmt.Sprintf("%d locks held idle", idle.locks)
		list = append(list,
			&goal{work, "≤ 1 % of a client's core",
				fmt.Sprintf("%.2f %% (%s: %.2f %%)", 100*ours.clientCPU, theirs.name, 100*theirs.clientCPU),
				ours.clientCPU <= 0.01},
			&goal{work, "≤ 1 % of the server's core",
				fmt.Sprintf("%.2f %% (%s: %.2f %%)", 100*ours.serverCPU, theirs.name, 100*theirs.serverCPU),
				ours.serverCPU <= 0.01},
		)
	}
	return list
}

// goals is the table of them.
func (r *results) goals() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### Goals\n\n| work | goal | measured (at level) | |\n|---|---|---|---|\n")
	for _, g := range r.goalList() {
		mark := "reached"
		if !g.reached {
			mark = "**not reached**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", g.work, g.wanted, g.measured, mark)
	}
	return b.String()
}
