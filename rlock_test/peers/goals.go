package peers

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// goal is what rlock must reach in comparison with the others, and what it has reached.
type goal struct {
	work     string
	wanted   string
	measured string
	reached  bool
}

// measure is a goal for a ratio at each of several levels. The worst ratio counts.
type measure struct {
	r      *results
	wanted float64
	below  bool // the ratio must not be larger than wanted; else not smaller
}

// of makes a goal of the ratios that f finds at the levels of a workload. f returns 0 where it
// finds no ratio.
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
		parts = append(parts, fmt.Sprintf("%d: %s", c.level, figureOf(ratio)))
	}
	if parts == nil {
		return nil
	}
	g.measured = strings.Join(parts, ", ")
	return g
}

func (r *results) atLeast(ratio float64) measure { return measure{r: r, wanted: ratio} }
func (r *results) atMost(ratio float64) measure  { return measure{r: r, wanted: ratio, below: true} }

// rate returns the ratio of one driver's rate to another driver's rate; see bestOf.
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

// ratio returns the median of the ratios of one driver's figure to another driver's figure. It
// returns 0 if one of the drivers does not take part; see bestOf.
func (c *comparison) ratio(name, other string, figure func(*sample) float64) float64 {
	mine, theirs := c.bestOf(name), c.bestOf(other)
	if mine == nil || theirs == nil {
		return 0
	}
	return mine.ratio(theirs, figure)
}

// bestOf returns the outcome of the driver with the name. If there is none, it returns the fastest
// outcome whose driver's name begins with the name.
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

// fairShare compares the longest waits of a driver with the waits of callers that get the lock in
// turn. It returns the ratio.
func fairShare(name string) func(*comparison) float64 {
	return func(c *comparison) float64 {
		return medianOf(name, func(s *sample) float64 {
			return s.latency.quantile(0.99).Seconds() * s.rate() / float64(c.level)
		})(c)
	}
}

// medianOf returns a figure of a driver, or 0 if the driver does not take part; see bestOf.
func medianOf(name string, figure func(*sample) float64) func(*comparison) float64 {
	return func(c *comparison) float64 {
		if o := c.bestOf(name); o != nil {
			return o.median(figure)
		}
		return 0
	}
}

// Figures of a sample. A figure of an acquisition is an average.
func p50(s *sample) float64         { return float64(s.latency.quantile(0.5)) }
func p99(s *sample) float64         { return float64(s.latency.quantile(0.99)) }
func commands(s *sample) float64    { return float64(s.commands) / float64(max(s.ops, 1)) }
func scripts(s *sample) float64     { return float64(s.scripts) / float64(max(s.ops, 1)) }
func serverTime(s *sample) float64  { return float64(s.serverCPU) / float64(max(s.ops, 1)) }
func allocations(s *sample) float64 { return float64(s.allocs) / float64(max(s.ops, 1)) }

func leastToMost(s *sample) float64 { return float64(s.least) / float64(max(s.most, 1)) }

func (r *results) goalList() []*goal {
	const oneKey, oneKeyRenewed, eightProcesses = "one key", "one key, automatic renewal",
		"one key, 8 processes"
	list := append(r.uncontendedGoals(),
		r.atLeast(20).of(oneKeyRenewed, "rate ≥ 20 × rueidislock", workContended, rate(rlockExtended,
			rueidisLockName)),
		r.atMost(2).of(oneKeyRenewed+", 1 ms hold", "p99 ≤ 2 × the fair share", workHeld,
			fairShare(rlockExtended)),
		r.atMost(2).of(oneKeyRenewed, "p99 ≤ 2 × the fair share", workContended, fairShare(rlockExtended)),
		r.atMost(1).of(oneKey, "p99, in fair shares, ≤ 1 × x/sync", workContended,
			func(c *comparison) float64 {
				theirs := fairShare(syncName)(c)
				if theirs == 0 {
					return 0
				}
				return fairShare(rlockPlain)(c) / theirs
			}),
		r.atLeast(800_000).of(oneKey, "≥ 800,000 a second", workContended,
			onlyAt(medianOf(rlockPlain, (*sample).rate), 64)),
		r.atMost(4).of(oneKey, "≤ 4 allocations", workContended, medianOf(rlockPlain, allocations)),
		r.atLeast(2.5).of(oneKey, "rate ≥ 2.5 × rueidislock", workContended, rate(rlockPlain, rueidisLockName)),
		r.atLeast(2).of(eightProcesses, "rate ≥ 2 × rueidislock", workProcesses,
			onlyAt(rate(rlockPlain, rueidisLockName), 8)),
		r.atLeast(0.5).of(eightProcesses, "unluckiest process ≥ 0.5 × the luckiest", workProcesses,
			onlyAt(medianOf(rlockPlain, leastToMost), 8)),
		r.atMost(1.0/3).of(eightProcesses, "commands ≤ 1/3 × rueidislock", workProcesses,
			onlyAt(func(c *comparison) float64 { return c.ratio(rlockPlain, rueidisLockName, commands) }, 8)),
		r.atLeast(500_000).of(eightProcesses, "≥ 500,000 a second", workProcesses,
			onlyAt(medianOf(rlockPlain, (*sample).rate), 8)),
		r.atMost(1).of(workWakeUp, "p50 ≤ 1 × two bare round trips", workWakeUp,
			func(c *comparison) float64 { return c.ratio(rlockPlain, floorName, p50) }),
		r.atMost(1.3).of(workCached, "p50 ≤ 1.3 × a bare DoCache hit", workCached,
			func(c *comparison) float64 { return c.ratio(rlockPlain, floorName, p50) }),
		r.atLeast(100).of(workCached, "p50 100 × shorter than from the server", workCached,
			func(c *comparison) float64 {
				asked, cached := r.find(workAsked, c.level), medianOf(rlockPlain, p50)(c)
				if asked == nil || cached == 0 || c.level != 1 {
					return 0
				}
				return medianOf(rlockPlain, p50)(asked) / cached
			}),
		r.atLeast(1).of(workSets, "rate ≥ 1 × bsm/redislock", workSets, rate(rlockPlain, bsmName)),
		r.atLeast(1).of("sets, 16 callers", "rate ≥ 1 × bsm/redislock", workManySets, rate(rlockPlain, bsmName)),
		r.atLeast(1).of(workSets, "≥ 1 set a second", workSets, onlyAt(medianOf(rlockPlain, (*sample).rate),
			10_000)),
		r.atLeast(500_000).of(workReaders, "≥ 500,000 a second", workReaders,
			onlyAt(medianOf(workReaders+", rlock", (*sample).rate), 1024)),
		r.atMost(0.05).of(workReaders, "≤ 0.05 scripts for each", workReaders,
			onlyAt(medianOf(workReaders+", rlock", scripts), 1024)),
		r.atLeast(1).of("readers, 8 processes", "rate ≥ 1 × the floor", workReaders+", "+workProcesses,
			rate(workReaders+", rlock", workReaders+", floor")),
		r.atMost(1).of(workWriter, "longest wait ≤ 1 × (longest read + 3 round trips + 10 ms)", workWriter,
			medianOf(workReaders+", rlock",
				func(s *sample) float64 { return s.latency.most.Seconds() / mostWait(s).Seconds() })),
		r.atLeast(0.9).of("10 permits, 128 callers, 1 ms hold", "permits in use ≥ 0.9 × x/sync", workPermits,
			permitsInUse),
		r.atLeast(0.9).of("10 permits, 8 processes, 1 ms hold", "permits in use ≥ 0.9 × x/sync",
			workPermits+", "+workProcesses, permitsInUse),
		r.atLeast(0.9).of("10 permits, 8 processes, 1 ms hold", "rate ≥ 0.9 × x/sync",
			workPermits+", "+workProcesses,
			rate(workPermits+", rlock", workPermits+", x/sync")),
		r.atMost(0.05).of("a permit whose holder died", "p50 ≤ 0.05 s after the end of the lease",
			workOnePermit+", "+workDeath,
			medianOf(workOnePermit+", rlock", func(s *sample) float64 { return s.latency.quantile(0.5).Seconds() })),
		r.atLeast(10).of(workBatches, "rate ≥ 10 × one by one", workBatches, rate(rlockPlain, oneByOne)),
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
		work := fmt.Sprintf("%s locks held, automatic renewal", thousands(float64(idle.locks)))
		list = append(list,
			&goal{work, "client: ≤ 1 % of a core",
				fmt.Sprintf("%.2f %% (%s: %.2f %%)", 100*ours.clientCPU, theirs.name, 100*theirs.clientCPU),
				ours.clientCPU <= 0.01},
			&goal{work, "server: ≤ 1 % of a core",
				fmt.Sprintf("%.2f %% (%s: %.2f %%)", 100*ours.serverCPU, theirs.name, 100*theirs.serverCPU),
				ours.serverCPU <= 0.01},
		)
	}
	return list
}

// goalTable has a row for each goal. The row says whether rlock reaches the goal.
func goalTable(goals []*goal) string {
	rows := [][]string{{"work", "goal", "measured_by_level", "reached"}}
	for _, g := range goals {
		reached := "no"
		if g.reached {
			reached = "yes"
		}
		rows = append(rows, []string{g.work, g.wanted, g.measured, reached})
	}
	var b strings.Builder
	_ = csv.NewWriter(&b).WriteAll(rows) // a Builder returns no error
	return b.String()
}

// figureOf writes the measured figure of a goal.
func figureOf(f float64) string {
	if f >= 1e4 {
		rounded, _ := strconv.ParseFloat(plain(f), 64)
		return thousands(rounded)
	}
	return plain(f)
}
