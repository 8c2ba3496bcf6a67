package peers

import (
	"fmt"
	"strings"
	"time"
)

// column is one figure of a table.
type column struct {
	title string
	cell  func(c comparison, o *outcome) string
}

var columns = []column{
	{"per second", func(_ comparison, o *outcome) string { return short(o.median((*sample).rate)) }},
	{"of the floor", func(c comparison,
		o *outcome) string {
		return ratio(o.ratio(c.outcomes[0], (*sample).rate))
	}},
	{"of the best peer", func(c comparison, o *outcome) string {
		if best := c.best(); best != nil {
			return ratio(o.ratio(best, (*sample).rate))
		}
		return ""
	}},
	{"p50", quantile(0.5)},
	{"p99", quantile(0.99)},
	{"max", quantile(1)},
	{"commands", perOp(func(s *sample) float64 { return float64(s.commands) })},
	{"scripts", perOp(func(s *sample) float64 { return float64(s.scripts) })},
	{"server µs", perOp(func(s *sample) float64 { return float64(s.serverCPU.Nanoseconds()) / 1000 })},
	{"client µs", perOp(func(s *sample) float64 { return float64(s.clientCPU.Nanoseconds()) / 1000 })},
	{"allocations", perOp(func(s *sample) float64 { return float64(s.allocs) })},
	{"bytes", perOp(func(s *sample) float64 { return float64(s.bytes) })},
	{"holders", func(_ comparison, o *outcome) string {
		if n := o.median((*sample).holders); n > 0 {
			return short(n)
		}
		return ""
	}},
	{"goroutines", func(_ comparison, o *outcome) string {
		return short(o.median(func(s *sample) float64 { return float64(s.more) }))
	}},
	{"least/most", func(_ comparison, o *outcome) string {
		return ratio(o.median(func(s *sample) float64 { return float64(s.least) / float64(max(s.most, 1)) }))
	}},
	{"failed", func(_ comparison, o *outcome) string {
		if o.hung() {
			return "**hung**"
		}
		return short(o.median(func(s *sample) float64 { return float64(s.failed) }))
	}},
}

// none is the cell of a figure that was not measured: most rounds have ended before the first acquisition.
const none = "–"

func perOp(total func(*sample) float64) func(comparison, *outcome) string {
	return func(_ comparison, o *outcome) string {
		if o.median(func(s *sample) float64 { return float64(s.ops) }) == 0 {
			return none
		}
		return short(o.median(func(s *sample) float64 { return total(s) / float64(max(s.ops, 1)) }))
	}
}

// quantile is a latency, and its ratio to the floor's.
func quantile(q float64) func(comparison, *outcome) string {
	latency := func(s *sample) float64 { return float64(s.latency.quantile(q)) }
	return func(c comparison, o *outcome) string {
		if o.median(latency) == 0 {
			return none
		}
		text := span(time.Duration(o.median(latency)))
		if o != c.outcomes[0] {
			text += " (" + ratio(o.ratio(c.outcomes[0], latency)) + ")"
		}
		return text
	}
}

// markdown is the table of a comparison.
func (c comparison) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s.\n\n|", c.title(), strings.ToUpper(c.workload.why[:1])+c.workload.why[1:])
	for _, col := range append([]column{{title: "library"}}, columns...) {
		fmt.Fprintf(&b, " %s |", col.title)
	}
	b.WriteString("\n|" + strings.Repeat("---|", len(columns)+1) + "\n")
	for _, o := range c.outcomes {
		fmt.Fprintf(&b, "| %s |", o.name)
		for _, col := range columns {
			fmt.Fprintf(&b, " %s |", col.cell(c, o))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// short writes a number with three digits.
func short(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f >= 1e6:
		return fmt.Sprintf("%.3gM", f/1e6)
	case f >= 1e4:
		return fmt.Sprintf("%.3gk", f/1e3)
	case f >= 100:
		return fmt.Sprintf("%.0f", f)
	}
	return fmt.Sprintf("%.3g", f)
}

func ratio(f float64) string { return fmt.Sprintf("%.2f", f) }

// span writes a duration with three digits.
func span(d time.Duration) string {
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
		if d >= unit {
			return fmt.Sprintf("%.3g %s", float64(d)/float64(unit), strings.TrimPrefix(unit.String(), "1"))
		}
	}
	return fmt.Sprintf("%d ns", d)
}
