package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// noServer is the name for tests that need no server.
const noServer = "no server"

// event is a line that go test -json prints, see go doc test2json.
type event struct {
	Time       time.Time
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64
	Key, Value string
}

// test is one test or subtest. With an empty name it is a package.
type test struct {
	pkg, name string
	outcome   string // "pass", "fail", "skip", or "" while the test runs
	began     time.Time
	ended     time.Time
	engines   map[string]bool
	output    strings.Builder
	fuzzed    string // the last progress line of a fuzzer
	parent    bool   // of subtests
	blamed    bool   // one of its subtests has failed
	running   bool   // when its package ended
	cut       bool   // its package ended before the test could print anything
}

// counts count the tests without subtests.
type counts struct{ passed, failed, skipped int }

// stepResult is the result of a step.
type stepResult struct {
	name string
	took time.Duration
	counts
}

// report gathers what the tests print.
type report struct {
	w     io.Writer
	watch *watch

	step  step
	tests map[[2]string]*test // of the step, by package and name
	order []*test             // in the order in which they began

	results  []stepResult
	byEngine map[string]*counts
	total    counts
	skipped  []string // tests and their reasons
	leftOut  []string // what the machine cannot run, and why
	repeated []string // tests that ran again
	failed   []string
}

func newReport(w io.Writer) *report {
	return &report{w: w, watch: newWatch(), byEngine: map[string]*counts{}}
}

func (r *report) begin(s step) {
	r.step, r.tests, r.order = s, map[[2]string]*test{}, nil
	r.results = append(r.results, stepResult{name: s.name})
}

// read reads the events of the step.
func (r *report) read(output io.Reader) error {
	in := bufio.NewReader(output)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprintf(r.w, "%s", line) // a message of go itself
			} else {
				r.take(e)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (r *report) take(e event) {
	if e.Action == "build-output" {
		fmt.Fprint(r.w, e.Output)
	}
	if e.Package == "" {
		return
	}
	t := r.find(e.Package, e.Test)
	if t.began.IsZero() {
		t.began = e.Time
	}
	t.ended = e.Time
	switch e.Action {
	case "attr":
		if e.Key == env.EngineAttr {
			t.engines[e.Value] = true
		}
	case "output":
		switch {
		case strings.HasPrefix(e.Output, "=== "): // RUN, PAUSE, CONT, ATTR …
		case strings.HasPrefix(e.Output, "fuzz: elapsed: "):
			t.fuzzed = e.Output
		// such as a panic, which go test attributes to the test that it has named last
		case t.outcome != "" && t.name != "":
			r.find(e.Package, "").output.WriteString(e.Output)
		default:
			t.output.WriteString(e.Output)
		}
	case "pass", "fail", "skip":
		t.outcome = e.Action
		r.endFuzzer(t)
		if t.name == "" {
			r.endPackage(t, e.Elapsed)
		} else if e.Action == "fail" {
			r.show(t)
		}
		if e.Action == "pass" {
			if t.name != "" {
				r.find(e.Package, "").output.WriteString(t.afterResult())
			}
			t.output.Reset()
		}
	}
}

func (r *report) find(pkg, name string) *test {
	key := [2]string{pkg, name}
	t := r.tests[key]
	if t == nil {
		t = &test{pkg: pkg, name: name, engines: map[string]bool{}}
		r.tests[key] = t
		r.order = append(r.order, t)
		if p := r.above(t); p != nil {
			p.parent = true
		}
	}
	return t
}

// above returns the test that t is a subtest of, or nil. The last part of a name may itself contain slashes.
func (r *report) above(t *test) *test {
	for name := t.name; ; {
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			return nil
		}
		name = name[:i]
		if p := r.tests[[2]string{t.pkg, name}]; p != nil {
			return p
		}
	}
}

// afterResult returns the output behind the line that says that the test has passed. go test attributes this
// output to that test, because go test has named no other test since. When the time of a package is over, all
// its last output may be there. That output comes before the event that the test has passed.
func (t *test) afterResult() string {
	_, rest, _ := strings.Cut(t.output.String(), "--- PASS: "+t.name+" (")
	_, rest, _ = strings.Cut(rest, "\n")
	return rest
}

func (r *report) show(t *test) {
	fmt.Fprintf(r.w, "FAIL %s %s\n%s", t.pkg, t.name, t.output.String())
}

// endPackage reports a package that has ended. A test that had not ended was running when the package
// panicked or ran out of time.
func (r *report) endPackage(p *test, seconds float64) {
	if p.outcome == "skip" {
		return // no test files
	}
	word := "ok  "
	if p.outcome == "fail" {
		word = "FAIL"
		for _, t := range r.order {
			if t.pkg == p.pkg && t.name != "" && t.outcome == "" {
				t.outcome, t.running, t.cut, t.ended = "fail", true, t.output.Len() == 0, p.ended
				if !t.cut {
					r.show(t)
				}
			}
		}
		for line := range strings.Lines(p.output.String()) {
			if !strings.HasPrefix(line, "FAIL") { // the code below says so
				fmt.Fprint(r.w, line)
			}
		}
	}
	fmt.Fprintf(r.w, "%s %s %.1fs\n", word, p.pkg, seconds)
}

// end counts the tests of the step, which ended with err.
func (r *report) end(err error, took time.Duration) {
	result := &r.results[len(r.results)-1]
	result.took = took
	for _, t := range r.order {
		if t.outcome == "fail" {
			for p := r.above(t); p != nil; p = r.above(p) {
				p.blamed = true
			}
			if t.name != "" {
				r.find(t.pkg, "").blamed = true
			}
		}
	}
	cut := map[string]int{} // tests by package
	for _, t := range r.order {
		switch {
		case t.cut && !t.blamed:
			r.count(result, t, func(c *counts) { c.failed++ })
			cut[t.pkg]++
		case t.outcome == "fail" && !t.blamed:
			r.fail(result, t, strings.TrimSpace(t.pkg+" "+t.name))
		case t.name == "" || t.parent:
		case t.outcome == "pass":
			r.count(result, t, func(c *counts) { c.passed++ })
		case t.outcome == "skip":
			what := t.pkg + " " + t.name + reason(t.output.String())
			if r.step.short && strings.Contains(t.output.String(), env.LongReason) {
				r.count(result, t, func(c *counts) { c.skipped++ })
				r.skipped = append(r.skipped, what)
			} else {
				r.fail(result, t, what+", which must run")
			}
		}
	}
	for pkg, n := range cut {
		r.failed = append(r.failed, fmt.Sprintf("%s: %s: %d tests had not run when it ended", r.step.name, pkg, n))
	}
	switch {
	case err != nil && result.failed == 0:
		r.fail(result, &test{}, err.Error())
	case result.passed == 0 && result.failed == 0:
		r.fail(result, &test{}, "no test ran")
	}
}

func (r *report) fail(result *stepResult, t *test, what string) {
	r.count(result, t, func(c *counts) { c.failed++ })
	r.failed = append(r.failed, r.step.name+": "+what)
}

// count counts t once in the total, and once for each server that t ran on.
func (r *report) count(result *stepResult, t *test, add func(*counts)) {
	add(&result.counts)
	add(&r.total)
	on := maps.Clone(t.engines)
	if on == nil {
		on = map[string]bool{}
	}
	for p := r.above(t); p != nil; p = r.above(p) {
		maps.Copy(on, p.engines)
	}
	if len(on) == 0 {
		on[noServer] = true
	}
	for engine := range on {
		if r.byEngine[engine] == nil {
			r.byEngine[engine] = &counts{}
		}
		add(r.byEngine[engine])
	}
}

// reason returns why a test was skipped: the line behind the test's place in the source.
func reason(output string) string {
	for line := range strings.Lines(output) {
		if place, why, ok := strings.Cut(strings.TrimSpace(line), ": "); ok && strings.Contains(place, ".go:") {
			return ": " + why
		}
	}
	return ""
}

// summary prints the counts. It reports whether nothing failed, and at least this many servers were tested.
func (r *report) summary(engines int) bool {
	servers := 0
	for name := range r.byEngine {
		if name != noServer {
			servers++
		}
	}
	if servers < engines {
		r.total.failed++
		r.failed = append(r.failed, fmt.Sprintf("tests ran on %d servers, and there are %d to test with", servers,
			engines))
	}
	fmt.Fprintln(r.w)
	for _, what := range r.skipped {
		fmt.Fprintln(r.w, "skipped", what)
	}
	for _, what := range r.leftOut {
		fmt.Fprintln(r.w, "left out of", what)
	}
	for _, what := range r.repeated {
		fmt.Fprintln(r.w, "repeated", what)
	}
	for _, what := range r.failed {
		fmt.Fprintln(r.w, "failed", what)
	}
	table := tabwriter.NewWriter(r.w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, c counts, more string) {
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%s\t\n", name, c.passed, c.failed, c.skipped, more)
	}
	fmt.Fprint(table, "step\tpassed\tfailed\tskipped\tseconds\t\n")
	for _, s := range r.results {
		row(s.name, s.counts, fmt.Sprintf("%.0f", s.took.Seconds()))
	}
	fmt.Fprint(table, "server\tpassed\tfailed\tskipped\t\t\n")
	names := slices.SortedFunc(maps.Keys(r.byEngine), func(a, b string) int {
		if (a == noServer) != (b == noServer) {
			return cmp.Compare(fmt.Sprint(a == noServer), fmt.Sprint(b == noServer))
		}
		return cmp.Compare(a, b)
	})
	for _, name := range names {
		row(name, *r.byEngine[name], "")
	}
	if err := table.Flush(); err != nil {
		return false
	}
	fmt.Fprintf(r.w, "\n%d passed, %d failed", r.total.passed, r.total.failed)
	if r.total.skipped > 0 {
		fmt.Fprintf(r.w, ", %d skipped", r.total.skipped)
	}
	fmt.Fprintln(r.w)
	return r.total.failed == 0
}
