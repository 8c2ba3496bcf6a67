package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rlock-go/toolkit/generator/internal/audit"
	"github.com/rlock-go/toolkit/generator/internal/emit"
	"github.com/rlock-go/toolkit/generator/internal/output"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// Exit codes.
const (
	exitReported = 1 // there are findings, or generated files are out of date
	exitFailed   = 2 // the command line is wrong, or a file or a server failed
)

// Errors that end a run after it has printed the reason.
var (
	errReported   = errors.New("findings reported")
	errUnreadable = errors.New("files that cannot be read reported")
)

func main() {
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errReported):
		os.Exit(exitReported)
	case errors.Is(err, errUnreadable):
		os.Exit(exitFailed)
	default:
		fmt.Fprintln(os.Stderr, "generator:", err)
		os.Exit(exitFailed)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stdout)
	if err != nil {
		return err
	}
	s := load(o.scripts)
	audits, err := s.check(o.redis)
	if err != nil {
		return err
	}
	if err := s.report(stderr, o.verbose); err != nil {
		return err
	}
	switch {
	case o.json:
		return audit.JSON(stdout, audits)
	case o.audit:
		return audit.Text(stdout, audits)
	}
	return generate(o, s.scripts, audits, stdout, stderr)
}

// generate writes the bindings and the audit of scripts without findings, or, with -check,
// prints what it would change.
func generate(o options, scripts []*script.Script, audits []audit.Script, stdout, stderr io.Writer) error {
	pkg, err := packageName(o)
	if err != nil {
		return err
	}
	files, err := emit.Package(pkg, scripts)
	if err != nil {
		return err
	}
	changes, err := output.Changes(o.out, append(files, audit.Markdown(audits)))
	if err != nil {
		return err
	}
	if o.check {
		return drift(changes, stdout, stderr)
	}
	if err := output.Apply(o.out, changes); err != nil {
		return err
	}
	if o.verbose {
		for _, c := range changes {
			fmt.Fprintf(stdout, "%s: %s\n", filepath.ToSlash(c.Path), c.Reason())
		}
		fmt.Fprintf(stdout, "%d scripts, %d files changed\n", len(scripts), len(changes))
	}
	return nil
}

// drift prints the changes as a diff, and returns errReported if there are any.
func drift(changes []output.Change, stdout, stderr io.Writer) error {
	if len(changes) == 0 {
		return nil
	}
	for _, c := range changes {
		if _, err := stdout.Write(c.Diff()); err != nil {
			return err
		}
	}
	fmt.Fprintf(stderr, "generator: %d generated files are out of date; run the generator and commit what it writes\n", len(changes))
	return errReported
}
