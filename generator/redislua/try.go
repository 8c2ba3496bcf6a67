package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/rlock-go/toolkit/generator/internal/audit"
	"github.com/rlock-go/toolkit/generator/internal/finding"
	"github.com/rlock-go/toolkit/generator/internal/script"
	"github.com/rlock-go/toolkit/generator/internal/try"
)

// tryScripts runs the scripts whose headers can be read, and reports what it finds after what the checks have
// found. Ctrl-C ends it, and leaves nothing on the server.
func tryScripts(o options, s *scriptSet, stdout, stderr io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	audits, err := s.check(ctx, o)
	if err != nil {
		return err
	}
	var subjects []try.Subject
	for i, one := range s.valid {
		subject := try.Subject{Script: one, Rights: audits[i].ACL, Proved: s.proved(one, audits[i])}
		subjects = append(subjects, subject)
	}
	result, failed := try.Run(ctx, try.Options{Server: o.try, Seed: o.seed, Package: o.pkg}, subjects)
	notes := stdout
	if !o.forPeople() {
		notes = stderr
	}
	for _, note := range result.Notes { // as comments, so that what stdout has is a Go file
		fmt.Fprintf(notes, "// %s\n\n", note)
	}
	if o.forPeople() {
		if _, err := stdout.Write(result.Tests); err != nil {
			return err
		}
	}
	s.findings = append(s.findings, result.Findings...)
	return cmp.Or(failed, s.report(o, stdout, stderr)) // the report is printed in any case
}

// proved reports whether a script has neither findings nor waivers, so that it touches nothing but its keys.
func (s *scriptSet) proved(one *script.Script, a audit.Script) bool {
	return a.ACLWhole && !slices.ContainsFunc(s.findings, func(f finding.Finding) bool {
		return f.Path == one.Path || slices.Contains(one.Includes, f.Path)
	})
}
