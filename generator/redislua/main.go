package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rlock-go/toolkit/generator/internal/audit"
	"github.com/rlock-go/toolkit/generator/internal/emit"
	"github.com/rlock-go/toolkit/generator/internal/file"
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
		fmt.Fprintln(os.Stderr, "redislua:", err)
		os.Exit(exitFailed)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stdout)
	switch {
	case err != nil:
		return err
	case o.init != "":
		return initialize(o, stdout, stderr)
	case o.watch:
		return watchUntilInterrupted(o, stdout, stderr)
	case o.try != "":
		return tryScripts(o, load(o.scripts), stdout, stderr)
	}
	return once(o, load(o.scripts), stdout, stderr)
}

// once does what the command line says with scripts that were loaded.
func once(o options, s *scriptSet, stdout, stderr io.Writer) error {
	audits, err := s.check(context.Background(), o)
	if err != nil {
		return err
	}
	if len(s.findings) > 0 {
		return s.report(o, stdout, stderr)
	}
	switch {
	case o.json:
		return audit.JSON(stdout, audits)
	case o.audit:
		return audit.Text(stdout, o.caller(), audits)
	}
	return generate(o, s, audits, stdout, stderr)
}

// generate writes the bindings and the audit of scripts without findings, or, with -check,
// reports what it would change.
func generate(o options, s *scriptSet, audits []audit.Script, stdout, stderr io.Writer) error {
	files, err := emit.Package(o.bindings(), s.scripts)
	if err != nil {
		return err
	}
	if err := apart(o.out, s.scripts); err != nil {
		return err
	}
	changes, err := output.Changes(o.out, append(files, audit.Markdown(o.caller(), audits)))
	if err != nil {
		return err
	}
	if o.check {
		return s.drift(o, changes, stdout, stderr)
	}
	if err := output.Apply(o.out, changes); err != nil {
		return err
	}
	if o.verbose {
		progress := stdout
		if !o.forPeople() {
			progress = stderr
		}
		for _, c := range changes {
			fmt.Fprintf(progress, "%s: %s\n", filepath.ToSlash(c.Path), c.Reason())
		}
		fmt.Fprintf(progress, "%d scripts, %d files changed\n", len(s.scripts), len(changes))
	}
	return s.report(o, stdout, stderr)
}

// apart returns an error if the text of a script would be written over the script.
func apart(out string, scripts []*script.Script) error {
	for _, s := range scripts {
		if len(s.Includes) > 0 && file.Same(filepath.Dir(s.Path), out) {
			return fmt.Errorf("%s includes others, and -out is its directory, "+
				"where its whole text would replace it; give another directory", s.Path)
		}
	}
	return nil
}
