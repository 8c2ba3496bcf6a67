// Package try runs the scripts on a server, with values from their headers, and reports what no analysis
// proves. It does not know what a script is for. So it reports only what is wrong for every script.
package try

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rlock-go/toolkit/generator/internal/analyze"
	"github.com/rlock-go/toolkit/generator/internal/finding"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// Bounds of a run.
const (
	byChance = 50               // inputs of a script with random values
	mostTime = 10 * time.Second // time limit of a script
)

// Options say where the scripts run, and with which values.
type Options struct {
	Server  string // embedded, an address, or a program to start
	Seed    uint64 // of the random values
	Package string // of the bindings, for the tests

	Limit time.Duration // for each script; 0: ten seconds
}

// Subject is a script to run.
type Subject struct {
	Script *script.Script
	Rights []string // words of ACL SETUSER, from the audit
	Proved bool     // no findings and no waivers, so the script uses only its keys
}

// Result is what the runs showed.
type Result struct {
	Findings []finding.Finding
	Tests    []byte   // a Go file with a test for each finding; nil: there are none
	Notes    []string // what the run tried, what it left out, and why
}

// Run runs the scripts. On a server that it did not start, it changes only keys that start with prefix and
// the user redislua-try. It removes both.
func Run(ctx context.Context, o Options, subjects []Subject) (result Result, err error) {
	s, err := open(ctx, o.Server)
	if err != nil {
		return result, fmt.Errorf("-try: %w", err)
	}
	defer func() {
		if left := s.close(); left != nil {
			err = errors.Join(err, fmt.Errorf("-try: the user %s may still be on the server: %w", user, left))
		}
	}()
	if !s.rights {
		result.Notes = append(result.Notes, "the embedded server has no users, so the rights are not tried")
	}
	var all []scriptFault
	ran, inputs := 0, 0
	for _, subject := range subjects {
		if !s.own && !subject.Proved {
			result.Notes = append(result.Notes, subject.Script.Path+" is not run, because it has findings or waivers "+
				"and may touch any key; name a program such as redis-server, which is started for the run")
			continue
		}
		r := newRunner(s, subject)
		faults, note, err := r.try(ctx, o)
		ran, inputs = ran+1, inputs+r.tried
		if err != nil {
			return result, fmt.Errorf("-try: %s: %w", subject.Script.Path, err)
		}
		if note != "" {
			result.Notes = append(result.Notes, subject.Script.Path+": "+note)
		}
		for _, f := range faults {
			found := subject.Script.Findf(f.pos, "%s%s", f.text, f.in)
			found.Rule = f.rule
			result.Findings = append(result.Findings, found)
			all = append(all, scriptFault{f, r})
		}
	}
	result.Notes = append(result.Notes,
		fmt.Sprintf("scripts that were run: %d, on %d inputs in all", ran, inputs))
	result.Tests, err = tests(o.Package, all)
	return result, err
}

func newRunner(s *server, subject Subject) *runner {
	h := hintsOf(subject.Script, analyze.Analyze(subject.Script))
	return &runner{
		server: s, script: subject.Script, hints: h, granted: ruleFor(subject),
		space: spaceOf(subject.Script, h, s.program != nil),
	}
}

// try runs the script. It returns the faults with the smallest inputs that show them, and what it left out.
func (r *runner) try(ctx context.Context, o Options) (faults []fault, note string, err error) {
	if err := r.begin(ctx); errors.Is(err, errUnknown) {
		return nil, "it is not run, because " + err.Error(), nil
	} else if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, r.clear()) }()
	started, limit := time.Now(), cmp.Or(o.Limit, mostTime)
	var record record
	for n, c := range r.space.choices(o.Seed, byChance) {
		in := r.space.input(c)
		switch {
		case time.Since(started) > limit:
			note = fmt.Sprintf("%d inputs were tried in %v, which is as long as a script may take", n, limit)
			return faults, note, nil
		case note != "" && in.large():
			continue
		}
		r.tried++
		found, seen, err := r.faults(ctx, in)
		switch {
		case errors.Is(err, errHung):
			note = "with some arguments it does not end within " + longest.String()
			continue
		case errors.Is(err, errCrashed):
			crash := fault{rule: ruleRaise, pos: top, in: in}
			crashes := crash.says("the server crashes; see its log, and do without what makes it")
			return append(faults, crashes...), note, nil
		case err != nil:
			return faults, note, err
		}
		record.add(in, seen)
		for _, f := range found {
			if !slices.ContainsFunc(faults, f.same) {
				faults = append(faults, r.shrink(ctx, c, f))
			}
		}
	}
	if len(faults) == 0 {
		faults = record.faults(r)
	}
	if len(faults) == 0 {
		faults, err = r.refused(ctx)
	}
	return faults, note, err
}
