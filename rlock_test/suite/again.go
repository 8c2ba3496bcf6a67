package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// most is how often a test runs at most.
const most = 3

// A repetition is what runs again, because it failed while the machine stood still.
type repetition struct {
	pkg   string
	tests []string // none: the whole package, which failed by itself or ended before its tests
	still time.Duration
}

// repetitions returns what runs again of the step, by package.
func (r *report) repetitions() []repetition {
	failed := map[string][]*test{} // by package
	for _, t := range r.order {
		if t.outcome == "fail" && t.name != "" && !strings.Contains(t.name, "/") {
			failed[t.pkg] = append(failed[t.pkg], t)
		}
	}
	var list []repetition
	for _, p := range r.order {
		if p.name != "" || p.outcome != "fail" || r.step.fuzz != "" {
			continue
		}
		again := repetition{pkg: p.pkg}
		if tests := failed[p.pkg]; len(tests) == 0 ||
			slices.ContainsFunc(tests, func(t *test) bool { return t.running }) {
			again.still = r.watch.between(p.began, p.ended)
		} else {
			for _, t := range tests {
				if still := r.watch.between(t.began, t.ended); still > 0 {
					again.tests, again.still = append(again.tests, t.name), max(again.still, still)
				}
			}
		}
		if again.still > 0 {
			list = append(list, again)
		}
	}
	return list
}

// again prepares the report for a repetition. It forgets what the repeated tests have printed.
func (r *report) again(p repetition) {
	what := "all tests"
	if len(p.tests) > 0 {
		what = strings.Join(p.tests, ", ")
	}
	what = fmt.Sprintf("%s: %s %s ran again, as the machine stood still for %.1f s meanwhile", r.step.name,
		p.pkg, what, p.still.Seconds())
	fmt.Fprintln(r.w, what)
	r.repeated = append(r.repeated, what)
	r.order = slices.DeleteFunc(r.order, func(t *test) bool {
		top, _, _ := strings.Cut(t.name, "/")
		gone := t.pkg == p.pkg && (t.name == "" || len(p.tests) == 0 || slices.Contains(p.tests, top))
		if gone {
			delete(r.tests, [2]string{t.pkg, t.name})
		}
		return gone
	})
}

// args returns the arguments of the step for a repetition, which runs alone.
func (p repetition) args(of []string) []string {
	var flags, rest []string
	for i, arg := range of {
		if arg == "-args" {
			rest = of[i:]
			break
		}
		if !strings.HasPrefix(arg, "./") {
			flags = append(flags, arg)
		}
	}
	flags = append(flags, "-p=1", "-parallel=2")
	if len(p.tests) > 0 {
		flags = append(flags, "-run=^("+strings.Join(p.tests, "|")+")$")
	}
	return slices.Concat(flags, []string{p.pkg}, rest)
}
