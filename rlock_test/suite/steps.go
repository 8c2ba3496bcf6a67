package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// step is one call of go test.
type step struct {
	name  string
	dir   string   // relative to the repository's root; "" is the root
	env   []string // further variables
	args  []string // of the go command; the first is "test"
	short bool     // whether the step leaves long tests to make test-all
	less  string   // what the step leaves to a larger set, for the summary
	fuzz  string   // the directory of the step's fuzz test, or ""
	fresh bool     // whether the fuzzer begins with the committed cases alone

	// prepare is a command that runs first. It installs, for example, libraries of another language. If
	// prepare fails, the suite adds unprepared to args, and the summary says so.
	prepare    []string
	unprepared []string
	// needs is a command that fails if the machine cannot run the step. The suite then leaves the step out,
	// and the summary says so.
	needs []string
}

// set names the steps that run. Each set but all has a make target of the same name.
type set string

const (
	quick  set = "quick" // after each edit
	normal set = "test"  // before each commit
	change set = "ci"    // what a change must pass in addition to make test
	all    set = "all"   // make test-all
)

type options struct {
	set      set
	duration time.Duration
	seed     uint64
	fuzztime string // for each fuzzer, as for go test; "": as many cases as fuzzers says
	known    bool
}

// oldest is the oldest Go that rlock promises to build with. It builds all tests and runs the examples.
// oldestTested is a later release of the same Go, and runs the tests.
//
// Go 1.25.0 has a flaw: bubbles of testing/synctest that run at the same time spoil each other's WaitGroups.
// The runtime ties a WaitGroup to its bubble with memory that it allocates without a mutex. Tests in fake
// time then hang, or end with a fatal error. Go 1.25.5 takes the mutex.
const oldest, oldestTested = "go1.25.0", "go1.25.14"

// core are the packages outside rlock_test.
var core = []string{"./gen/...", "./generator/...", "./redislua/...", "./rlock/..."}

// alone are the packages that measure time, memory or commands, or start many processes. No other package
// runs at the same time, because it would take the processor from them.
var alone = []string{cost, crowds}

const (
	cost   = "./rlock_test/cost"
	crowds = "./rlock_test/crowds"
)

// oracle compares what the generator says with servers.
const oracle = "./rlock_test/oracle/..."

// try runs scripts on servers, while a goroutine waits for the end of a server.
const try = "./generator/internal/try"

// platforms builds everything for each platform. It takes minutes with an empty build cache.
const platforms = "./rlock_test/platforms"

// importer builds programs from its own module cache. It takes a minute.
const importer = "./rlock_test/importer"

// explorer explores the queue between processes, and lines explores the callers in each process. The other
// steps limit both to few worlds.
const (
	explorer = "./rlock/internal/explorer"
	lines    = "./rlock/internal/line"
)

// beside are all other packages. Their tests wait for servers and leases more than they compute. So four
// packages run at a time, and sixteen tests of each. The packages that take long come first.
var beside = append([]string{
	"./rlock_test/failure", "./rlock_test/generator", explorer, "./generator/redislua", "./rlock_test/api",
	"./rlock/internal/notify", "./rlock",
	"./rlock_test/observe", "./rlock_test/waiting", "./rlock_test/queue", "./rlock_test/shared",
	"./rlock_test/topology", "./rlock_test/backends", oracle, "./rlock_test/fuzz", try, "./rlock_test/command",
	"./rlock_test/runbook",
	"./rlock_test/corpus/...", "./rlock_test/demo", "./rlock_test/examples/...", "./rlock_test/env",
	importer, platforms, "./rlock_test/suite",
}, core...)

// computing are packages that compute for minutes. Only try starts a goroutine for it. The race detector
// would find nothing in the others, and would double their time.
var computing = []string{"./generator/redislua", "./generator/...", oracle}

// quickly are the packages of make quick.
var quickly = append([]string{
	"./rlock_test/failure", explorer, "./generator/redislua", "./rlock_test/api", "./rlock/internal/notify",
	"./rlock",
	"./rlock_test/waiting", "./rlock_test/queue", "./rlock_test/shared",
}, core...)

// slow are the tests in quickly that make quick leaves to make test.
var slow = append([]string{
	// They compute for seconds, or build programs.
	"TestCallsThatAreGivenUp", "TestBarging",
	"TestInit", "TestWatch", "TestWatchWaitsForRest", "TestExitCodes", "TestTypesCompile",
	"TestContributingExample", "FuzzGenerator",
	// They wait for leases, timeouts or failovers: six seconds and more, or often for a few seconds.
	"TestExtendBesideARenewal", "TestRenewalsOfManyKinds", "TestEmbeddedFaultsAreThoseOfServers",
	"TestScriptFlushIsInvisible",
	"TestUnansweredReleaseWithMinHold", "TestAutoExtendOutlastsRefusals", "TestLossIsNoticedByTheExtension",
	"TestGaveUpWhereverTheContextEnds", "TestFailedReleaseAfterALostExtension", "TestAutoExtendOverASlowNetwork",
	"TestShortenedWithoutAnAnswer", "TestCallsOfASilentServer", "TestFailedReleaseIsFinishedInTheBackground",
	"TestExtendKeepsItsTTL",
	"TestClusterFailover", "TestDemotedPrimary", "TestRenewalsOfForbiddenKeys", "TestServerForgetsWhoHolds",
	"TestServerTakesNoWrites",
	"TestBlackHole", "TestQueueUnderEverything", "TestAfterBarging", "TestReadersExtend", "TestListenOnACluster",
	"TestRecheck",
	"TestListenAfterAFailover", "TestInvalidationsThatHearNothing", "TestSilentDeathOfConnections",
	"TestFirstCallAfterASilentDeath",
	"TestCancelledCallsOfASilentServer", "TestObserverEndsACall", "TestReleaseOfAnExpiredLockWithoutAnAnswer",
	"TestLengtheningWithoutAnAnswer", "TestShortenedLeaseIsExtendedAtOnce", "TestNextTermWaitsForASlowLeader",
	"TestOutageEndsWithThePolicy", "TestAnyKeyWorksAndShows", "TestLoneCallEndsWithItsContext",
	"TestReleaseOfVeryMany", "TestHandlesThatExtendDoNotStorm", "TestTokensChangeUnderEverything",
	"TestPlaceAfterAMomentWithoutMemory", "TestSubscriptionComesBack", "TestSetAfterBarging",
}, explored...)

// unraced are packages whose tests check scripts, programs and the tests' own tools. The race detector sees
// little in them, so make ci does not run them again with it.
var unraced = []string{
	platforms, "./gen/...", "./rlock_test/generator", "./rlock_test/corpus/...", "./rlock_test/demo",
	"./rlock_test/examples/...",
	"./rlock_test/env", importer, "./rlock_test/suite",
}

// explored are the tests of explorer and lines that compute for long and start no goroutine.
var explored = []string{"TestExplore", "TestPlantedFlaws", "TestWalksOfProcesses"}

// without returns packages without those in some.
func without(packages, some []string) []string {
	return slices.DeleteFunc(slices.Clone(packages), func(p string) bool { return slices.Contains(some, p) })
}

// prometheus unpacks a real Prometheus. The command fails if there is none. But if the machine must have all
// that the tests unpack, the command succeeds, and the tests run and fail.
const prometheus = `RLOCK_SERVERS= sh ../engines.sh prometheus promtool >/dev/null || test "${RLOCK_ENGINES_REQUIRED:-}" = 1`

// mongodb checks that there is a real MongoDB to test with, in addition to the embedded server of the tests.
const mongodb = `test -n "${RLOCK_MONGODB:-}" || { echo "RLOCK_MONGODB names no MongoDB" >&2; exit 1; }`

// fuzzer is a fuzz test.
type fuzzer struct {
	name, pkg string

	// cases is how many cases the fuzzer tries in make test-all: about ten seconds of work for two cores. It
	// is a number and not a time, because of a flaw of Go before 1.27. When the time is over, go test
	// sometimes reports "context deadline exceeded" as a failure (go.dev/issue/75804).
	cases int
}

var fuzzers = []fuzzer{
	{"FuzzParse", "./generator/internal/script", 40_000},
	{"FuzzDecode", "./redislua/luaimpl", 15_000},
	{"FuzzGenerator", "./generator/redislua", 700},
	{"FuzzSlot", "./rlock_test/fuzz", 50_000},
	{"FuzzReply", "./rlock_test/fuzz", 6_000},
	{"FuzzOptions", "./rlock_test/fuzz", 7_000},
	{"FuzzOperations", "./rlock_test/fuzz", 2_000},
	{"FuzzHandoff", "./rlock_test/fuzz", 50_000},
	{"FuzzReadGrant", "./rlock/internal/notify", 50_000},
}

func steps(o options) []step {
	switch o.set {
	case quick:
		return quickSteps()
	case normal:
		return []step{
			{name: "tests", short: true,
				args: append([]string{"test", "-short", "-count=1", "-p=4", "-parallel=16"}, beside...)},
			{name: "cost", short: true, args: []string{"test", "-short", "-count=1", cost}},
			{name: "crowds", short: true, args: []string{"test", "-short", "-count=1", crowds}},
		}
	case change:
		return changeSteps(o)
	default:
		return allSteps(o)
	}
}

// quickSteps are the steps to run after each edit.
func quickSteps() []step {
	return []step{{name: "quick", short: true,
		args: append([]string{"test", "-short", "-count=1", "-p=4", "-parallel=24",
			"-skip=^(" + strings.Join(slow, "|") + ")$"}, quickly...),
		less: fmt.Sprintf("make quick, for make test: the packages %s, and the tests %s",
			strings.Join(append(without(beside, quickly), alone...), " "), strings.Join(slow, ", "))}}
}

// changeSteps are the steps that make test has not run, as far as the time before a merge allows.
func changeSteps(o options) []step {
	steps := []step{{name: "race", short: true,
		args: append([]string{"test", "-race", "-short", "-count=1", "-parallel=8", "-timeout=20m",
			"-skip=^(" + strings.Join(explored, "|") + ")$"},
			without(beside, slices.Concat(computing, unraced))...)}}
	steps = append(steps, moduleSteps()...)
	steps = append(steps, chaosStep(time.Second, o.seed)) // each topology once
	var less []string
	for _, s := range allSteps(o) {
		if !slices.ContainsFunc(steps, func(has step) bool { return has.name == s.name }) {
			less = append(less, s.name)
		}
	}
	steps[0].less = "make ci, for make test-all: the race detector on the other servers, and the steps " +
		strings.Join(less, ", ")
	return steps
}

// moduleSteps test the modules beside the main module. They also test all modules as a stranger gets them.
func moduleSteps() []step {
	return []step{
		{name: "stranger", args: []string{"test", "-count=1", importer}},
		{name: "redislua/goredis", dir: "redislua/goredis", args: []string{"test", "-race", "-count=1", "./..."}},
		{name: "rlockprom", dir: "rlock/rlockprom", args: []string{"test", "-race", "-count=1", "./..."}},
		{name: "rlockotel", dir: "rlock/rlockotel", args: []string{"test", "-race", "-count=1", "./..."}},
		{name: "rlockmongo", dir: "rlock/rlockmongo", args: []string{"test", "-race", "-count=1", "./..."}},
		{name: "mongo", dir: "rlock_test/mongo",
			args:    []string{"test", "-race", "-count=1", "-timeout=20m", "./..."},
			prepare: []string{"sh", "-c", mongodb}, unprepared: []string{"-skip=TestBackend/MongoDB"}},
		{name: "metrics", dir: "rlock_test/metrics", args: []string{"test", "-count=1", "./..."},
			prepare: []string{"sh", "-c", prometheus}, unprepared: []string{"-skip=TestPrometheus"}},
		{name: "fencing", dir: "rlock_test/fencing", args: []string{"test", "-count=1", "./..."}},
		{name: "interop", dir: "rlock_test/interop", args: []string{"test", "-count=1"},
			prepare: []string{"npm", "ci"}, unprepared: []string{"-skip=//npm|TestTable/npm"}},
		{name: "goredis", dir: "rlock_test/goredis", args: []string{"test", "-race", "-count=1", "./..."}},
		{name: "gocron", dir: "rlock_test/examples/gocron", args: []string{"test", "-race", "-count=1", "./..."}},
		{name: "certmagic", dir: "rlock_test/examples/certmagic",
			args: []string{"test", "-race", "-count=1", "./..."}},
		{name: "peers", dir: "rlock_test/peers", args: []string{"test", "-count=1"}},
	}
}

// chaosStep runs histories under faults.
func chaosStep(duration time.Duration, seed uint64) step {
	return step{name: "chaos", dir: "rlock_test/chaos",
		args: []string{"test", "-race", "-count=1", "-timeout=0", "./...",
			"-args", "-duration=" + duration.String(), fmt.Sprint("-seed=", seed)}}
}

func allSteps(o options) []step {
	steps := []step{
		{name: "race", args: append([]string{"test", "-race", "-count=1", "-parallel=8", "-timeout=20m"},
			without(beside, slices.Concat(computing, []string{importer, platforms}))...)},
		{name: "race, cost", args: []string{"test", "-race", "-count=1", "-timeout=20m", cost}},
		{name: "race, crowds", args: []string{"test", "-race", "-count=1", "-timeout=20m", crowds}},
		// Counts of allocations and milliseconds change under the race detector.
		{
			name: "budgets",
			args: []string{"test", "-count=1", "-p=1", "-run=Budget|Schedules|TestLoad$", "./rlock/...", cost},
		},
		// Some kernels run no programs of 32 bits. The step platforms builds and vets for 386 there too.
		{name: "386", env: []string{"GOARCH=386", "CGO_ENABLED=0"},
			args:  append([]string{"test", "-count=1"}, core...),
			needs: []string{"go", "test", "-run=^$", "errors"}},
		{name: "oldest Go, examples", env: []string{"GOTOOLCHAIN=" + oldest},
			args: append([]string{"test", "-count=1", "-run=^Example"}, core...)},
		{name: "oldest Go", env: []string{"GOTOOLCHAIN=" + oldestTested, "GOFLAGS=-trimpath"},
			args: []string{"test", "-count=1", "./rlock/...", importer}},
		{name: "generator", args: append([]string{"test", "-count=1", "-timeout=40m"}, computing...)},
		// The explorer tries every order of events in the queue between processes, in more than a million
		// worlds.
		{name: "explorer", args: []string{"test", "-count=1", "-timeout=30m", explorer, "-args", "-states=50000"}},
		{name: "lines", args: []string{
			"test", "-count=1", "-timeout=30m", lines, "-args", "-states=50000", "-walks=5000",
		}},
		{name: "platforms", args: []string{"test", "-count=1", "-timeout=90m", platforms}},
	}
	steps = append(steps, moduleSteps()...)
	steps = append(steps, chaosStep(o.duration, o.seed))
	for _, f := range fuzzers {
		steps = append(steps, step{name: f.name, fuzz: f.pkg, fresh: !o.known,
			args: []string{"test", "-run=^$", "-fuzz=" + f.name + "$",
				"-fuzztime=" + cmp.Or(o.fuzztime, fmt.Sprint(f.cases, "x")), "-fuzzminimizetime=10x", f.pkg}})
	}
	return steps
}
