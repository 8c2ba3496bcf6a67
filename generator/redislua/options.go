package main

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/audit"
	"github.com/rlock-go/toolkit/generator/internal/emit"
	"github.com/rlock-go/toolkit/generator/internal/file"
	"github.com/rlock-go/toolkit/generator/internal/report"
)

type options struct {
	scripts            []string
	out, pkg, redis    string
	init               string // the script that -init names
	try                string // the server that -try names
	seed               uint64
	check, audit, json bool
	watch, verbose     bool
	replicas           bool
	standalone         bool
	client             *emit.Client
	format             report.Format
}

// caller returns what the audit says of the client.
func (o options) caller() audit.Client {
	if o.client == emit.Goredis {
		return audit.Goredis(o.replicas)
	}
	return audit.Rueidis(o.replicas)
}

// bindings returns how the bindings are written.
func (o options) bindings() emit.Options {
	return emit.Options{
		Package: o.pkg, Client: o.client, Comment: !documented(o.out),
		Replicas: o.replicas, Standalone: o.standalone,
	}
}

// forPeople reports whether findings are printed for people. If not, only they go to stdout.
func (o options) forPeople() bool { return o.format == report.Text }

const usage = `Redislua reads Redis Lua scripts with typed headers and writes Go calls for them.

	redislua [-scripts DIR]… [-out DIR] [-package NAME] [-client goredis] [-replicas] [-standalone] [-redis ADDR] [-watch] [-v]
	redislua [-scripts DIR]… [-out DIR] -check [-format github|sarif]
	redislua [-scripts DIR]… -audit [-json]
	redislua [-scripts DIR]… -try redis-server|ADDR|embedded [-seed N] [-format github|sarif]
	redislua -init FILE.lua

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

Then redislua -scripts lua -out bindings writes a package in which

	n, err := bindings.New().Visit(ctx, client, bindings.VisitParams{Visits: "v", Keep: time.Hour})

It exits with 0 if all is well, 1 if there are findings or -check prints a diff, and 2 if
the command line is wrong, or a file or a server failed.

`

// parse reads the command line. For -help, it prints the help and returns flag.ErrHelp.
func parse(args []string, stdout io.Writer) (options, error) {
	o := options{client: emit.Rueidis}
	flags := flag.NewFlagSet("redislua", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Func("scripts", "`directory` of the Lua files; may be given several times (default scripts)",
		func(dir string) error {
			o.scripts = append(o.scripts, dir)
			return nil
		})
	flags.StringVar(&o.out, "out", "gen", "`directory` of the generated files")
	flags.StringVar(&o.pkg, "package", "", "`name` of the generated package (default the last element of -out)")
	flags.StringVar(&o.redis, "redis", "",
		"have the server at this `address` (host:port or redis://…) compile each script")
	flags.StringVar(&o.try, "try", "",
		"run the scripts on the `server` of an address, on one that a program such as redis-server starts, or "+
			"embedded")
	flags.Uint64Var(&o.seed, "seed", 1, "with -try: the `number` that the values depend on which come by chance")
	flags.BoolVar(&o.check, "check", false,
		"write nothing; if generated files are out of date, print a diff and exit with 1")
	flags.BoolVar(&o.audit, "audit", false,
		"write nothing; print what each script is, what it touches, and its ACL rule")
	flags.BoolVar(&o.json, "json", false, "with -audit: as JSON")
	flags.Func("client", "the Redis `client` of the generated calls: rueidis or goredis (default rueidis)",
		func(name string) (err error) {
			o.client, err = emit.ClientOf(name)
			return err
		})
	flags.BoolVar(&o.replicas, "replicas", false,
		"let the client send scripts that only read to replicas, by EVALSHA_RO")
	flags.BoolVar(&o.standalone, "standalone", false,
		"write all that the calls need, so that they import only the client")
	flags.BoolVar(&o.watch, "watch", false, "run again after each change of a script, until Ctrl-C")
	flags.StringVar(&o.init, "init", "", "write a first header for the script in this `file`, which has none")
	flags.StringVar((*string)(&o.format), "format", string(report.Text),
		"print findings as `text, github or sarif`")
	flags.BoolVar(&o.verbose, "v", false,
		"print which files it writes, and why, and behind each finding the name of its rule")
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
	default:
		err = o.contradiction()
	}
	if err == nil && !o.audit && o.init == "" {
		o.pkg, err = packageName(o)
	}
	if err != nil {
		return o, fmt.Errorf("%w; redislua -help shows an example", err)
	}
	if len(o.scripts) == 0 {
		o.scripts = []string{"scripts"}
	}
	return o, nil
}

// contradiction returns an error if flags do not go together.
func (o options) contradiction() error {
	switch {
	case o.check && o.audit:
		return errors.New("-check and -audit exclude each other; run the generator twice")
	case o.json && !o.audit:
		return errors.New("-json goes with -audit; give both, or neither")
	case !slices.Contains(report.Formats, o.format):
		return fmt.Errorf("-format %s is unknown; want text, github or sarif", o.format)
	case !o.forPeople() && o.audit:
		return fmt.Errorf("-format %s and -audit both print to standard output; run the generator twice", o.format)
	case o.init != "" && (o.audit || o.check || o.watch || o.redis != "" || o.client != emit.Rueidis ||
		len(o.scripts) > 0):
		return errors.New("-init writes a header and nothing else; run the generator again for the rest")
	case o.try != "" && (o.audit || o.check || o.watch || o.init != "" || o.redis != "" || o.replicas ||
		o.client != emit.Rueidis):
		return errors.New("-try runs the scripts and writes nothing; run the generator again for the rest")
	case o.seed != 1 && o.try == "":
		return errors.New("-seed goes with -try; give both, or neither")
	case o.watch && (o.check || o.audit):
		return errors.New("-watch writes the bindings, but -check and -audit write nothing; leave one out")
	case o.watch && !o.forPeople():
		return fmt.Errorf("-watch prints for people, but -format %s is for machines; leave one out", o.format)
	}
	return nil
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

// documented reports whether a file of the package that the generator has not written has a
// comment for the package. What cannot be read has none; another step reports it.
func documented(dir string) bool {
	paths, _ := filepath.Glob(filepath.Join(dir, "*.go"))
	return slices.ContainsFunc(paths, func(path string) bool {
		text, err := file.Read(path) // a pipe would never end
		if err != nil {
			return false
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.PackageClauseOnly|parser.ParseComments)
		return err == nil && f.Doc != nil && !ast.IsGenerated(f) && !strings.HasSuffix(path, "_test.go")
	})
}
