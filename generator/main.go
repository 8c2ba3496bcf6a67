package main

import (
	"errors"
	"flag"
	"fmt"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/rlock-go/toolkit/generator/internal/audit"
	"github.com/rlock-go/toolkit/generator/internal/check"
	"github.com/rlock-go/toolkit/generator/internal/emit"
	"github.com/rlock-go/toolkit/generator/internal/finding"
	"github.com/rlock-go/toolkit/generator/internal/output"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

func main() {
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errReported):
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "generator:", err)
		os.Exit(1)
	}
}

// errReported ends a run whose reason has been printed.
var errReported = errors.New("findings reported")

type options struct {
	scripts, out, pkg string
	check, audit      bool
}

func run(args []string, stdout, stderr io.Writer) error {
	var o options
	flags := flag.NewFlagSet("generator", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.scripts, "scripts", "scripts", "`directory` of the Lua files")
	flags.StringVar(&o.out, "out", "gen", "`directory` of the generated Go files")
	flags.StringVar(&o.pkg, "package", "", "`name` of the generated package; the last element of -out when absent")
	flags.BoolVar(&o.check, "check", false, "write nothing; print a diff and exit 1 where the generated files are out of date")
	flags.BoolVar(&o.audit, "audit", false, "write nothing; print what each script is")
	if err := flags.Parse(args); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			err = errReported
		}
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q; scripts are named with -scripts", flags.Arg(0))
	}

	scripts, err := read(o.scripts, stderr)
	if err != nil {
		return err
	}
	if o.audit {
		return audit.Write(stdout, scripts)
	}
	pkg, err := packageName(o)
	if err != nil {
		return err
	}
	files, err := emit.Package(pkg, scripts)
	if err != nil {
		return err
	}
	changes, err := output.Changes(o.out, files)
	if err != nil {
		return err
	}
	if o.check {
		return drift(changes, stdout, stderr)
	}
	for _, c := range changes {
		if err := c.Apply(); err != nil {
			return err
		}
	}
	return nil
}

// read returns the scripts of a directory in the order of their file names, or
// prints every finding about them.
func read(dir string, stderr io.Writer) ([]*script.Script, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.lua"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no .lua file in %s; name the directory with -scripts", dir)
	}
	slices.Sort(paths)
	var scripts []*script.Script
	var findings []finding.Finding
	for _, path := range paths {
		source, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		s, found := script.Parse(filepath.ToSlash(path), source)
		if len(found) == 0 {
			_, found = check.Script(s)
		}
		findings = append(findings, found...)
		if s.Name != "" { // else its bytes could not even be read as a header
			scripts = append(scripts, s)
		}
	}
	findings = append(findings, emit.Conflicts(scripts)...)
	for _, f := range finding.Sort(findings) {
		fmt.Fprintln(stderr, f)
	}
	if len(findings) > 0 {
		return nil, errReported
	}
	return scripts, nil
}

func packageName(o options) (string, error) {
	name := o.pkg
	if name == "" {
		abs, err := filepath.Abs(o.out)
		if err != nil {
			return "", err
		}
		name = filepath.Base(abs)
	}
	if !token.IsIdentifier(name) || name == "_" {
		return "", fmt.Errorf("%q is not a Go package name; give one with -package", name)
	}
	return name, nil
}

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
