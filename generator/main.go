package main

import (
	"cmp"
	"context"
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
	"github.com/rlock-go/toolkit/generator/internal/live"
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
	scripts            []string
	out, pkg, redis    string
	check, audit, json bool
	verbose            bool
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("generator", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Func("scripts", "`directory` of the Lua files; may be given several times (default scripts)", func(dir string) error {
		o.scripts = append(o.scripts, dir)
		return nil
	})
	flags.StringVar(&o.out, "out", "gen", "`directory` of the generated files")
	flags.StringVar(&o.pkg, "package", "", "`name` of the generated package; the last element of -out when absent")
	flags.StringVar(&o.redis, "redis", "", "have the server at this `address` (host:port or redis://…) compile each script")
	flags.BoolVar(&o.check, "check", false, "write nothing; print a diff and exit 1 where the generated files are out of date")
	flags.BoolVar(&o.audit, "audit", false, "write nothing; print what each script is and touches, and its ACL rule")
	flags.BoolVar(&o.json, "json", false, "with -audit: as JSON")
	flags.BoolVar(&o.verbose, "v", false, "say what is written and why")
	if err := flags.Parse(args); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			err = errReported
		}
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q; scripts are named with -scripts", flags.Arg(0))
	case o.check && o.audit:
		return o, errors.New("-check and -audit exclude each other")
	case o.json && !o.audit:
		return o, errors.New("-json goes with -audit")
	}
	if len(o.scripts) == 0 {
		o.scripts = []string{"scripts"}
	}
	return o, nil
}

func run(args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	scripts, audits, err := read(o, stderr)
	switch {
	case err != nil:
		return err
	case o.json:
		return audit.JSON(stdout, audits)
	case o.audit:
		return audit.Text(stdout, audits)
	}
	pkg, err := packageName(o)
	if err != nil {
		return err
	}
	files, err := emit.Package(pkg, scripts)
	if err != nil {
		return err
	}
	files = append(files, audit.Markdown(audits))
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
		if o.verbose {
			fmt.Fprintf(stdout, "%s: %s\n", filepath.ToSlash(c.Path), c.Reason())
		}
	}
	if o.verbose {
		fmt.Fprintf(stdout, "%d scripts, %d files changed\n", len(scripts), len(changes))
	}
	return nil
}

// read returns the scripts in the order of their file names, with their audits,
// or prints every finding about them.
func read(o options, stderr io.Writer) ([]*script.Script, []audit.Script, error) {
	paths, err := luaFiles(o.scripts)
	if err != nil {
		return nil, nil, err
	}
	var scripts []*script.Script
	var audits []audit.Script
	var findings []finding.Finding
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, err
		}
		s, found := script.Parse(filepath.ToSlash(path), text)
		if len(found) == 0 {
			var report check.Report
			report, found = check.Script(s)
			audits = append(audits, audit.Of(s, report))
		}
		findings = append(findings, found...)
		if s.Name != "" { // else its bytes could not even be read as a header
			scripts = append(scripts, s)
		}
	}
	reserved, err := emit.Reserved()
	if err != nil {
		return nil, nil, err
	}
	findings = append(findings, check.Package(scripts, reserved)...)
	if o.redis != "" && len(findings) == 0 {
		if findings, err = live.Check(context.Background(), o.redis, scripts); err != nil {
			return nil, nil, err
		}
	}
	for _, f := range finding.Sort(findings) {
		fmt.Fprintln(stderr, f)
	}
	if len(findings) > 0 {
		return nil, nil, errReported
	}
	return scripts, audits, nil
}

// luaFiles returns the scripts of the directories, by file name.
func luaFiles(dirs []string) ([]string, error) {
	var paths []string
	for _, dir := range dirs {
		found, err := filepath.Glob(filepath.Join(dir, "*.lua"))
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("no .lua file in %s; name the directory with -scripts", dir)
		}
		paths = append(paths, found...)
	}
	slices.SortFunc(paths, func(a, b string) int {
		return cmp.Or(cmp.Compare(filepath.Base(a), filepath.Base(b)), cmp.Compare(a, b))
	})
	return slices.Compact(paths), nil
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
