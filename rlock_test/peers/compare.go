package peers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// outcome has the results of a driver's rounds at a level.
type outcome struct {
	driver
	samples []*sample
}

// comparison is a workload at one level, by all drivers that can do the workload. The floor is
// first.
type comparison struct {
	workload workload
	level    int
	outcomes []*outcome
}

// compare makes all drivers do a workload at a level, in rounds that alternate.
func compare(t *testing.T, e env.Engine, w workload, level int, p plan) comparison {
	c := comparison{workload: w, level: level}
	server := e.Start(t)
	m := meter{tb: t, server: server}
	address := away(t, server, w.far)
	var lockers []locker
	for _, d := range slices.Concat(drivers(), w.more) {
		l := d.open(t, address, lease)
		if !w.fits(l) {
			continue
		}
		lockers = append(lockers, l)
		c.outcomes = append(c.outcomes, &outcome{driver: d})
	}
	for _, l := range lockers { // the rounds find connections, scripts and pools ready
		w.run(m, l, min(level, 16), p.round/4)
	}
	c.alternate(m, p.rounds, func(n int) *sample { return w.run(m, lockers[n], level, p.round) })
	return c
}

// alternate makes each driver do its rounds, on a server without a key. Each round begins with
// another driver, so no driver always follows the same driver. A driver that hung takes no part
// from then on.
func (c comparison) alternate(m meter, rounds int, do func(n int) *sample) {
	for round := range rounds {
		for i := range c.outcomes {
			n := (i + round) % len(c.outcomes)
			if o := c.outcomes[n]; !o.hung() {
				m.server.Do(m.tb, "FLUSHALL")
				o.samples = append(o.samples, do(n))
			}
		}
	}
}

// away returns the address of a server behind a proxy that adds a delay.
func away(tb testing.TB, server *env.Server, far time.Duration) string {
	if far == 0 {
		return server.Addr()
	}
	proxy := env.NewProxy(tb, server.Addr())
	proxy.Delay(far / 2) // in each direction
	return proxy.Addr()
}

func (o *outcome) hung() bool {
	return slices.ContainsFunc(o.samples, func(s *sample) bool { return s.hung })
}

// median returns the median of a figure over the rounds.
func (o *outcome) median(figure func(*sample) float64) float64 {
	values := make([]float64, 0, len(o.samples))
	for _, s := range o.samples {
		values = append(values, figure(s))
	}
	return median(values)
}

// ratio divides a figure by the same figure of another outcome, round by round. It returns the
// median of these ratios.
func (o *outcome) ratio(other *outcome, figure func(*sample) float64) float64 {
	values := make([]float64, 0, len(o.samples))
	for i := range min(len(o.samples), len(other.samples)) {
		if base := figure(other.samples[i]); base > 0 {
			values = append(values, figure(o.samples[i])/base)
		}
	}
	return median(values)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// best returns the other library with the highest rate, or nil.
func (c comparison) best() *outcome {
	var best *outcome
	for _, o := range c.outcomes {
		if o.peer && !o.hung() && (best == nil || o.median((*sample).rate) > best.median((*sample).rate)) {
			best = o
		}
	}
	return best
}

func (c comparison) title() string {
	return fmt.Sprintf("%s, %d %s", c.workload.name, c.level, c.workload.level)
}
