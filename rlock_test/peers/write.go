package peers

import (
	"fmt"
	"os"
	"strings"
)

// Paths of the results, from this directory.
const (
	resultsFile = "results.csv"
	pictureFile = "../../docs/results.svg"
	chartFile   = "../../docs/throughput.svg"
	goalsFile   = "goals.csv"
	readmeFile  = "../../README.md"
)

// Marks around the figures of the README.
const (
	readmeBegin = "<!-- figures of make bench -->\n"
	writtenEnd  = "<!-- end of them -->\n"
)

// write writes the results as data. From the data it writes the figures of the documentation.
func (r *results) write() error {
	s := r.sheet(r.provenance())
	if err := os.WriteFile(resultsFile, []byte(s.csv()), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(pictureFile, []byte(s.picture()), 0o644); err != nil {
		return err
	}
	if err := r.writeChart(); err != nil {
		return err
	}
	if err := os.WriteFile(goalsFile, []byte(goalTable(r.goalList())), 0o644); err != nil {
		return err
	}
	return replaceIn(readmeFile, readmeBegin, s.figures())
}

// writeChart writes the chart of throughput, if the run measured enough for it.
func (r *results) writeChart() error {
	chart := r.chart()
	if chart == "" {
		return nil
	}
	return os.WriteFile(chartFile, []byte(chart), 0o644)
}

// replaceIn replaces the text of a file between begin and writtenEnd.
func replaceIn(file, begin, text string) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, _, after, err := cut(string(page), begin)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, []byte(before+begin+text+writtenEnd+after), 0o644)
}

// cut returns the parts of a page before begin, between begin and writtenEnd, and after writtenEnd.
func cut(page, begin string) (before, between, after string, err error) {
	before, rest, found := strings.Cut(page, begin)
	between, after, closed := strings.Cut(rest, writtenEnd)
	if !found || !closed {
		return "", "", "", fmt.Errorf("there is no place between %q and %q", begin, writtenEnd)
	}
	return before, between, after, nil
}

// figure is one of the few figures that the README shows.
type figure struct {
	what     string
	workload string
	level    int
}

// figuresShown begin with the figures in which another library is faster.
var figuresShown = []figure{
	{"16 callers, each takes its own free key", workUncontended, 16},
	{"1 caller takes sets of 128 keys", workSets, 128},
	{"1 caller takes a free key", workUncontended, 1},
	{"1,024 callers, each takes its own free key", workUncontended, 1024},
	{"64 callers of one process hold one key, 1 ms each", workHeld, 64},
	{"64 callers of one process want one key", workContended, 64},
	{"8 processes of 4 callers want one key", workProcesses, 8},
}

// shown are the libraries in the README and the picture. If a library has several settings, the
// fastest counts.
var shown = []string{rlockPlain, rueidisLockName, bsmName, redsyncName}

// figures are the table of the README.
func (s sheet) figures() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n| taken and released a second | %s |\n|---|%s\n", strings.Join(shown, " | "),
		strings.Repeat("---|", len(shown)))
	for _, f := range figuresShown {
		cells, found := make([]string, len(shown)), false
		for i, name := range shown {
			cells[i] = "no figure"
			if f.workload == workSets {
				cells[i] = "no sets"
			}
			if r := s.find(f.workload, f.level, name); r != nil && r[colPerSecond] != "" {
				cells[i], found = thousands(r.number(colPerSecond)), true
			}
		}
		if found {
			fmt.Fprintf(&b, "| %s | %s |\n", f.what, strings.Join(cells, " | "))
		}
	}
	fmt.Fprintf(&b, "\nrlock gives each lock a fence. The three other libraries have no fences.\n\n%s\n",
		wrap(s.comments[0]))
	return b.String()
}

// wrap breaks a text into lines of 110 columns at most.
func wrap(text string) string {
	const most = 110
	var b strings.Builder
	width := 0
	for i, word := range strings.Fields(text) {
		switch n := len([]rune(word)); {
		case i == 0:
			width = n
		case width+1+n > most:
			b.WriteString("\n")
			width = n
		default:
			b.WriteString(" ")
			width += 1 + n
		}
		b.WriteString(word)
	}
	return b.String()
}
