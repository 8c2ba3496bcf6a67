package peers

import "fmt"

// uncontendedGoals are the goals for callers who each want locks of their own. rlock sends the
// calls of these callers together. rlock must beat the floors that send each call separately. The
// combining floor shows what rlock can reach.
func (r *results) uncontendedGoals() (list []*goal) {
	add := func(g *goal) { list = append(list, g) }
	for _, setting := range []struct {
		work, name                           string
		many                                 [4]float64 // of the floor, at 64, 256, 1,024 and 4,096 callers
		combined, few, fewLatency            float64
		manyWanted, combinedWanted           string
		fewWanted, fewLatencyWanted, farther string
	}{
		{"free keys, no fence", rlockUnfenced, [4]float64{1.3, 2.2, 2.5, 2}, 0.8, 0.95, 1.05,
			"rate ≥ 1.3, 2.2, 2.5, 2 × the floor", "rate ≥ 0.8 × the combining floor",
			"rate ≥ 0.95 × the floor in scripts", "p50 ≤ 1.05 × the floor in scripts", "p50 ≤ 1.05 × the floor"},
		{"free keys, with a fence", rlockPlain, [4]float64{1.1, 1.7, 1.8, 1.3}, 0.65, 0.9, 1.15,
			"rate ≥ 1.1, 1.7, 1.8, 1.3 × the floor", "rate ≥ 0.65 × the combining floor",
			"rate ≥ 0.9 × the floor in scripts", "p50 ≤ 1.15 × the floor in scripts", "p50 ≤ 1.05 × the floor"},
	} {
		ratioTo := func(other string, figure func(*sample) float64) func(*comparison) float64 {
			return func(c *comparison) float64 { return c.ratio(setting.name, other, figure) }
		}
		add(r.atLeastEach(setting.many, setting.work, setting.manyWanted, rate(setting.name, floorName)))
		add(r.atLeast(setting.combined).of(setting.work, setting.combinedWanted, workUncontended,
			onlyAt(rate(setting.name, floorCombining), manyCallers[:]...)))
		add(r.atLeast(setting.few).of(setting.work, setting.fewWanted, workUncontended,
			onlyAt(rate(setting.name, floorInScripts), 1, 16)))
		add(r.atMost(setting.fewLatency).of(setting.work, setting.fewLatencyWanted, workUncontended,
			onlyAt(ratioTo(floorInScripts, p50), 1, 16)))
		add(r.atMost(1).of(setting.work, "p99 ≤ 1 × the floor", workUncontended, ratioTo(floorName, p99)))
		for _, far := range distances {
			work := workUncontended + ", " + far.String() + " away"
			add(r.atMost(1.05).of(fmt.Sprintf("%s, %v away", setting.work, far), setting.farther, work,
				ratioTo(floorName, p50)))
		}
	}
	add(r.atLeast(4).of("free keys, no fence", "rate ≥ 4 × rueidislock", workUncontended,
		onlyAt(rate(rlockUnfenced, rueidisLockName), 1024)))
	add(r.atLeast(4).of("free keys, no fence", "rate ≥ 4 × bsm/redislock", workUncontended,
		onlyAt(rate(rlockUnfenced, bsmName), 1024)))
	add(r.atMost(4).of("free keys, with a fence", "≤ 4 allocations", workUncontended,
		medianOf(rlockPlain, allocations)))
	add(r.atMost(0.6).of("free keys, with a fence", "server time ≤ 0.6 × the floor",
		workUncontended, onlyAt(func(c *comparison) float64 { return c.ratio(rlockPlain, floorName, serverTime) },
			256)))
	return list
}

// manyCallers are the levels at which rlock sends calls together.
var manyCallers = [4]int{64, 256, 1024, 4096}

// atLeastEach makes a goal with a different ratio at 64, 256, 1,024 and 4,096 callers.
func (r *results) atLeastEach(each [4]float64, work, wanted string, f func(*comparison) float64) *goal {
	g := r.atLeast(0).of(work, wanted, workUncontended, onlyAt(f, manyCallers[:]...))
	if g == nil {
		return nil
	}
	for i, level := range manyCallers {
		if r.atLeast(each[i]).of(work, wanted, workUncontended, onlyAt(f, level)) != nil {
			g.reached = g.reached && r.atLeast(each[i]).of(work, wanted, workUncontended, onlyAt(f, level)).reached
		}
	}
	return g
}
