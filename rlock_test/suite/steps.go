package main

import (
	"fmt"
	"slices"
	"time"
)

// step is one call of go test.
type step struct {
	name  string
	dir   string   // where to run it, seen from the repository's root; "" is the root
	env   []string // further variables
	args  []string // of the go command; the first is "test"
	short bool     // whether tests may be left to make test-all
	fuzz  string   // the directory of the fuzz test that it runs, if it does
	fresh bool     // whether that fuzzer begins with the cases that are committed, and no others

	// prepare is a command to run before, such as one that installs libraries of another
	// language. Where it fails, unprepared is added to args, and the summary says so.
	prepare    []string
	unprepared []string
}

type options struct {
	all      bool
	duration time.Duration
	seed     uint64
	fuzztime time.Duration
	known    bool
}

// oldest is the oldest Go that rlock promises to build with.
const oldest = "go1.25.0"

// core are the packages that need no server beside themselves.
var core = []string{"./gen/...", "./generator/...", "./rlock/..."}

// alone has the tests that measure time, memory or commands. They run beside no other
// package, which would take the processor from them.
const alone = "./rlock_test/cost"

// oracle holds what the generator says against servers.
const oracle = "./rlock_test/oracle/..."

// beside are all other packages, whose tests run two packages at a time: those that take
// long first.
var beside = append([]string{
	"./rlock_test/generator", "./rlock_test/failure", "./rlock_test/api", "./rlock_test/observe",
	"./rlock_test/waiting", "./rlock_test/topology", oracle, "./rlock_test/fuzz",
	"./rlock_test/corpus/...", "./rlock_test/demo", "./rlock_test/env", "./rlock_test/importer", "./rlock_test/suite",
}, core...)

// without returns the packages but one.
func without(packages []string, one string) []string {
	return slices.DeleteFunc(slices.Clone(packages), func(p string) bool { return p == one })
}

// fuzzers are the fuzz tests and their packages.
var fuzzers = [][2]string{
	{"FuzzParse", "./generator/internal/script"},
	{"FuzzDecode", "./generator/internal/emit/runtime"},
	{"FuzzGenerator", "./generator"},
	{"FuzzSlot", "./rlock_test/fuzz"},
	{"FuzzReply", "./rlock_test/fuzz"},
	{"FuzzOptions", "./rlock_test/fuzz"},
	{"FuzzOperations", "./rlock_test/fuzz"},
	{"FuzzHandoff", "./rlock_test/fuzz"},
}

func steps(o options) []step {
	if !o.all {
		return []step{
			{name: "tests", short: true, args: append([]string{"test", "-short", "-count=1", "-parallel=8"}, beside...)},
			{name: "cost", short: true, args: []string{"test", "-short", "-count=1", alone}},
		}
	}
	all := []step{
		{name: "race", args: append([]string{"test", "-race", "-count=1", "-parallel=8", "-timeout=20m"}, without(beside, oracle)...)},
		{name: "race, cost", args: []string{"test", "-race", "-count=1", "-timeout=20m", alone}},
		// What is counted in allocations and milliseconds is not itself under the race detector.
		{name: "budgets", args: []string{"test", "-count=1", "-p=1", "-run=Budget|Schedules|TestLoad$", "./rlock/...", alone}},
		{name: "386", env: []string{"GOARCH=386", "CGO_ENABLED=0"}, args: append([]string{"test", "-count=1"}, core...)},
		{name: "oldest Go", env: []string{"GOTOOLCHAIN=" + oldest, "GOFLAGS=-trimpath"}, args: []string{"test", "-count=1", "./rlock/...", "./rlock_test/importer"}},
		// It computes for minutes, of which the race detector would make twice as many.
		{name: "oracle", args: []string{"test", "-count=1", "-timeout=40m", oracle}},
		{name: "fencing", dir: "rlock_test/fencing", args: []string{"test", "-count=1", "./..."}},
		{name: "interop", dir: "rlock_test/interop", args: []string{"test", "-count=1"},
			prepare: []string{"npm", "ci"}, unprepared: []string{"-skip=//npm|TestTable/npm"}},
		{name: "peers", dir: "rlock_test/peers", args: []string{"test", "-count=1"}},
		{name: "chaos", dir: "rlock_test/chaos", args: []string{"test", "-race", "-count=1", "-timeout=0", "./...",
			"-args", "-duration=" + o.duration.String(), fmt.Sprint("-seed=", o.seed)}},
	}
	for _, f := range fuzzers {
		all = append(all, step{name: f[0], fuzz: f[1], fresh: !o.known, args: []string{"test", "-run=^$", "-fuzz=" + f[0] + "$",
			"-fuzztime=" + o.fuzztime.String(), "-fuzzminimizetime=10x", f[1]}})
	}
	return all
}
