package main

import (
	"context"
	"fmt"
	"io"

	"github.com/rlock-go/toolkit/generator/internal/audit"
	"github.com/rlock-go/toolkit/generator/internal/check"
	"github.com/rlock-go/toolkit/generator/internal/emit"
	"github.com/rlock-go/toolkit/generator/internal/finding"
	"github.com/rlock-go/toolkit/generator/internal/servercheck"
)

// check judges each script by itself and all of them together. If it has no finding, the
// server at address compiles them too, unless address is empty. It returns the audits of
// the scripts, which are complete only if there are no findings.
func (s *scriptSet) check(address string) ([]audit.Script, error) {
	var audits []audit.Script
	for _, one := range s.valid {
		report, findings := check.Script(one)
		s.findings = append(s.findings, findings...)
		audits = append(audits, audit.Of(one, report))
	}
	reserved, err := emit.Reserved()
	if err != nil {
		return nil, err
	}
	s.findings = append(s.findings, check.Package(s.scripts, reserved)...)
	if address != "" && len(s.findings) == 0 {
		s.findings, err = servercheck.Run(context.Background(), address, s.scripts)
	}
	return audits, err
}

// report prints the findings, with the names of their rules if asked to.
func (s *scriptSet) report(stderr io.Writer, rules bool) error {
	for _, f := range finding.Sort(s.findings) {
		if rules && f.Rule != "" {
			fmt.Fprintf(stderr, "%v [%s]\n", f, f.Rule)
			continue
		}
		fmt.Fprintln(stderr, f)
	}
	switch {
	case s.unreadable:
		return errUnreadable
	case len(s.findings) > 0:
		return errReported
	}
	return nil
}
