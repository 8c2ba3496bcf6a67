package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/rlock-go/toolkit/generator/internal/audit"
	"github.com/rlock-go/toolkit/generator/internal/check"
	"github.com/rlock-go/toolkit/generator/internal/finding"
	"github.com/rlock-go/toolkit/generator/internal/output"
	"github.com/rlock-go/toolkit/generator/internal/report"
	"github.com/rlock-go/toolkit/generator/internal/servercheck"
	"github.com/rlock-go/toolkit/generator/internal/try"
)

// Rules of findings that no script is to blame for.
var (
	ruleFiles = finding.Rule{Name: "files", Demand: "each file and directory that is named can be read"}
	ruleDrift = finding.Rule{Name: "drift", Demand: "the generated files are those of the scripts"}
)

// rules are all rules that findings may name.
func rules() []finding.Rule {
	return slices.Concat([]finding.Rule{ruleFiles, ruleDrift, servercheck.Rule}, check.Rules, try.Rules)
}

// check judges each script by itself and all of them together. If it has no finding, the
// server that -redis names compiles them too. It returns the audits of the scripts, which are
// complete only if there are no findings.
func (s *scriptSet) check(ctx context.Context, o options) ([]audit.Script, error) {
	var audits []audit.Script
	for _, one := range s.valid {
		report, findings := check.Script(one)
		s.findings = append(s.findings, findings...)
		audits = append(audits, audit.Of(one, report, o.caller()))
	}
	reserved, err := o.bindings().Reserved()
	if err != nil {
		return nil, err
	}
	s.findings = append(s.findings, check.Package(s.scripts, reserved)...)
	if o.redis != "" && len(s.findings) == 0 {
		s.findings, err = servercheck.Run(ctx, o.redis, s.scripts)
	}
	return audits, err
}

// report prints the findings, and returns an error if there are any. For machines it prints
// them to stdout, because what they read may be a file.
func (s *scriptSet) report(o options, stdout, stderr io.Writer) error {
	s.findings = finding.Sort(s.findings)
	to, shown := stdout, s.findings
	if o.forPeople() {
		to, shown = stderr, o.withRules(s.findings)
	}
	if err := report.Findings(to, o.format, shown, rules()); err != nil {
		return err
	}
	switch {
	case s.unreadable:
		return errUnreadable
	case len(s.findings) > 0:
		return errReported
	}
	return nil
}

// withRules adds the names of the rules to the messages, if -v asks for them.
func (o options) withRules(findings []finding.Finding) []finding.Finding {
	if !o.verbose {
		return findings
	}
	named := make([]finding.Finding, len(findings))
	for i, f := range findings {
		if f.Rule != "" {
			f.Message += " [" + f.Rule + "]"
		}
		named[i] = f
	}
	return named
}

// outOfDate says what to do about generated files that are not those of the scripts.
const outOfDate = "run the generator and commit what it writes"

// drift prints the changes that -check has found: as a diff for people, and as findings for
// machines. It returns errReported if there are any.
func (s *scriptSet) drift(o options, changes []output.Change, stdout, stderr io.Writer) error {
	if !o.forPeople() {
		for _, c := range changes {
			s.findings = append(s.findings, finding.Finding{
				Path: c.Path, Line: c.Line(), Column: 1, Rule: ruleDrift.Name, Cause: "drift " + c.Path,
				Message: fmt.Sprintf("the generated file is out of date (%s); %s", c.Reason(), outOfDate),
			})
		}
		return s.report(o, stdout, stderr)
	}
	if len(changes) == 0 {
		return nil
	}
	for _, c := range changes {
		if _, err := stdout.Write(c.Diff()); err != nil {
			return err
		}
	}
	fmt.Fprintf(stderr, "redislua: %d generated files are out of date; %s\n", len(changes), outOfDate)
	return errReported
}
