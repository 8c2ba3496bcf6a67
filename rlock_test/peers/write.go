package peers

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// Where the results are written, seen from this directory.
const (
	resultsFile = "RESULTS.md"
	pictureFile = "results.svg"
	chartFile   = "throughput.svg"
	readmeFile  = "../../README.md"
)

// What the figures of the README stand between.
const (
	readmeBegin = "<!-- figures of make bench -->\n"
	readmeEnd   = "<!-- end of them -->\n"
)

// write writes the results into the documentation.
func (r *results) write() error {
	if err := os.WriteFile(resultsFile, []byte(r.document()), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(pictureFile, []byte(r.picture()), 0o644); err != nil {
		return err
	}
	if err := r.writeChart(); err != nil {
		return err
	}
	readme, err := os.ReadFile(readmeFile)
	if err != nil {
		return err
	}
	before, rest, found := bytes.Cut(readme, []byte(readmeBegin))
	_, after, closed := bytes.Cut(rest, []byte(readmeEnd))
	if !found || !closed {
		return fmt.Errorf("%s: there is no place between %q and %q", readmeFile, readmeBegin, readmeEnd)
	}
	text := string(before) + readmeBegin + r.figures() + readmeEnd + string(after)
	return os.WriteFile(readmeFile, []byte(text), 0o644)
}

// writeChart writes the chart of throughput, if enough was measured for it.
func (r *results) writeChart() error {
	chart := r.chart()
	if chart == "" {
		return nil
	}
	return os.WriteFile(chartFile, []byte(chart), 0o644)
}

// document has all results.
func (r *results) document() string {
	var b strings.Builder
	b.WriteString("# Results\n\nWritten by the benchmark itself. What is measured, and how to read it, is in " +
		"[README.md](README.md).\n\n")
	fmt.Fprintf(&b, "%s\n\n![Throughput against callers](%s)\n\n![Throughput beside the floor](%s)\n\n",
		r.provenance(), chartFile, pictureFile)
	b.WriteString(settings() + "\n" + r.goals())
	for _, s := range r.sections {
		b.WriteString("\n" + s.markdown())
	}
	return b.String()
}

// figure is one of the few that the README shows.
type figure struct {
	what     string
	workload string
	level    int
	ours     string // setting of rlock
	others   string // in place of their figures
}

var figuresShown = []figure{
	{"64 callers of one process want one lock: acquisitions a second", workContended, 64, rlockPlain, ""},
	{"8 processes of 4 callers want one lock: acquisitions a second", workProcesses, 8, rlockPlain, ""},
	{"1 caller on a free key, rlock with a fence: cycles a second", workUncontended, 1, rlockPlain, ""},
	{"1,024 callers, each on keys of its own, without fences: cycles a second", workUncontended, 1024,
		rlockUnfenced, ""},
	{"the same with fences: cycles a second", workUncontended, 1024, rlockPlain, "no fences"},
}

// shown are the libraries in the README and the picture; of those with several settings,
// the fastest counts.
var shown = []string{rlockPlain, rueidisLockName, bsmName, redsyncName}

// figures are the table of the README.
func (r *results) figures() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n| | %s |\n|---|%s\n", strings.Join(shown, " | "), strings.Repeat("---|", len(shown)))
	for _, f := range figuresShown {
		c := r.find(f.workload, f.level)
		if c == nil {
			continue
		}
		fmt.Fprintf(&b, "| %s |", f.what)
		for i, name := range shown {
			if i == 0 {
				name = f.ours
			}
			switch o := c.bestOf(name); {
			case i > 0 && f.others != "":
				fmt.Fprintf(&b, " %s |", f.others)
			case o != nil:
				fmt.Fprintf(&b, " %s |", short(o.median((*sample).rate)))
			default:
				b.WriteString(" |")
			}
		}
		b.WriteString("\n")
	}
	b.WriteString(r.idleFigure())
	fmt.Fprintf(&b, "\n%s\n", r.provenance())
	return b.String()
}

// idleFigure is the line of the README about locks that are held.
func (r *results) idleFigure() string {
	for _, s := range r.sections {
		idle, ok := s.(idleness)
		if !ok || len(idle.costs) < 2 {
			continue
		}
		cell := func(c idleCost) string {
			if c.locks < idle.locks {
				return "hung"
			}
			return fmt.Sprintf("%.1f %% and %.1f %%", 100*c.clientCPU, 100*c.serverCPU)
		}
		return fmt.Sprintf("| %d locks held and extended, of 10 s each: share of a core, client and server | %s | "+
			"%s | not done | not done |\n",
			idle.locks, cell(idle.costs[0]), cell(idle.costs[1]))
	}
	return ""
}
