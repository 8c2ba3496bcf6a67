package main

import (
	"errors"
	"flag"
	"fmt"
	"go/token"
	"io"
	"path/filepath"
)

type options struct {
	scripts            []string
	out, pkg, redis    string
	check, audit, json bool
	verbose            bool
}

const usage = `Generator reads Redis Lua scripts with typed headers and writes Go calls for them.

	generator [-scripts DIR]… [-out DIR] [-package NAME] [-redis ADDR] [-v]
	generator [-scripts DIR]… [-out DIR] -check
	generator [-scripts DIR]… -audit [-json]

An example: lua/visit.lua is

	-- Counts a visit and forgets old ones.
	--
	-- mode: write
	-- KEYS[1] visits key
	-- ARGV[1] keep   duration  forgotten after this time without a visit
	-- returns: int
	local total = redis.call('INCR', KEYS[1])
	redis.call('PEXPIRE', KEYS[1], ARGV[1])
	return total

Then generator -scripts lua -out bindings writes a package in which

	n, err := bindings.New().Visit(ctx, client, bindings.VisitParams{Visits: "v", Keep: time.Hour})

It exits with 0 if all is well, 1 if there are findings or -check prints a diff, and 2 if
the command line is wrong, or a file or a server failed.

`

// parse reads the command line. For -help, it prints the help and returns flag.ErrHelp.
func parse(args []string, stdout io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("generator", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Func("scripts", "`directory` of the Lua files; may be given several times (default scripts)", func(dir string) error {
		o.scripts = append(o.scripts, dir)
		return nil
	})
	flags.StringVar(&o.out, "out", "gen", "`directory` of the generated files")
	flags.StringVar(&o.pkg, "package", "", "`name` of the generated package (default the last element of -out)")
	flags.StringVar(&o.redis, "redis", "", "have the server at this `address` (host:port or redis://…) compile each script")
	flags.BoolVar(&o.check, "check", false, "write nothing; if generated files are out of date, print a diff and exit with 1")
	flags.BoolVar(&o.audit, "audit", false, "write nothing; print what each script is, what it touches, and its ACL rule")
	flags.BoolVar(&o.json, "json", false, "with -audit: as JSON")
	flags.BoolVar(&o.verbose, "v", false, "print which files it writes, and why, and behind each finding the name of its rule")
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return o, err
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q; scripts are named with -scripts", flags.Arg(0))
	case o.check && o.audit:
		err = errors.New("-check and -audit exclude each other")
	case o.json && !o.audit:
		err = errors.New("-json goes with -audit")
	}
	if err != nil {
		return o, fmt.Errorf("%w; generator -help shows an example", err)
	}
	if len(o.scripts) == 0 {
		o.scripts = []string{"scripts"}
	}
	return o, nil
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
