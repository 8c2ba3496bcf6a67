package peers

import "strconv"

// column is one figure of a comparison. Its cell is empty if the run did not measure the figure.
type column struct {
	name string
	cell func(c comparison, o *outcome) string
}

// columns are the figures of a comparison. A figure "to first" is a ratio to the first setting.
var columns = []column{
	{colPerSecond, func(_ comparison, o *outcome) string { return plain(o.median((*sample).rate)) }},
	{"per_second_to_first", func(c comparison, o *outcome) string {
		return ratio(o.ratio(c.outcomes[0], (*sample).rate))
	}},
	{"per_second_to_best_peer", func(c comparison, o *outcome) string {
		if best := c.best(); best != nil {
			return ratio(o.ratio(best, (*sample).rate))
		}
		return ""
	}},
	{"p50_us", latency(0.5)}, {"p50_to_first", latencyRatio(0.5)},
	{"p99_us", latency(0.99)}, {"p99_to_first", latencyRatio(0.99)},
	{"max_us", latency(1)}, {"max_to_first", latencyRatio(1)},
	{"commands_per_op", perOp(func(s *sample) float64 { return float64(s.commands) })},
	{colScripts, perOp(func(s *sample) float64 { return float64(s.scripts) })},
	{colServer, perOp(func(s *sample) float64 { return float64(s.serverCPU.Nanoseconds()) / 1000 })},
	{colClient, perOp(func(s *sample) float64 { return float64(s.clientCPU.Nanoseconds()) / 1000 })},
	{colAllocs, perOp(func(s *sample) float64 { return float64(s.allocs) })},
	{"bytes_per_op", perOp(func(s *sample) float64 { return float64(s.bytes) })},
	{"holders", func(_ comparison, o *outcome) string {
		if n := o.median((*sample).holders); n > 0 {
			return plain(n)
		}
		return ""
	}},
	{colMore, func(_ comparison, o *outcome) string {
		return plain(o.median(func(s *sample) float64 { return float64(s.more) }))
	}},
	{"least_to_most", func(_ comparison, o *outcome) string { return ratio(o.median(leastToMost)) }},
	{"failed", func(_ comparison, o *outcome) string {
		if o.hung() {
			return ""
		}
		return plain(o.median(func(s *sample) float64 { return float64(s.failed) }))
	}},
}

func perOp(total func(*sample) float64) func(comparison, *outcome) string {
	return func(_ comparison, o *outcome) string {
		if o.median(func(s *sample) float64 { return float64(s.ops) }) == 0 {
			return "" // most rounds end before the first acquisition
		}
		return plain(o.median(func(s *sample) float64 { return total(s) / float64(max(s.ops, 1)) }))
	}
}

func quantile(q float64) func(*sample) float64 {
	return func(s *sample) float64 { return float64(s.latency.quantile(q)) }
}

func latency(q float64) func(comparison, *outcome) string {
	return func(_ comparison, o *outcome) string {
		if o.median(quantile(q)) == 0 {
			return ""
		}
		return micros(o.median(quantile(q)))
	}
}

func latencyRatio(q float64) func(comparison, *outcome) string {
	return func(c comparison, o *outcome) string {
		if o.median(quantile(q)) == 0 {
			return ""
		}
		return ratio(o.ratio(c.outcomes[0], quantile(q)))
	}
}

// rows are the outcomes of a comparison.
func (c comparison) rows() (list []row) {
	for _, o := range c.outcomes {
		r := row{colWorkload: c.workload.name, colLevel: strconv.Itoa(c.level), colCounts: c.workload.level,
			colSetting: o.name}
		for _, col := range columns {
			r[col.name] = col.cell(c, o)
		}
		if o.hung() {
			r[colHung] = "in a round"
		}
		list = append(list, r)
	}
	return list
}

func (c comparison) about() (workload, why string) { return c.workload.name, c.workload.why }
