// Command suite runs the tests of all modules, step by step. At the end it says how many tests ran on which
// server.
//
//	go run ./rlock_test/suite [-set test] [-duration 60s] [-seed 0] [-fuzztime 10m] [-known] [-step race]
//
// The commands make quick, test, ci and test-all each run a set of steps.
//
//   - After a step that fails, the other steps still run.
//   - A test that fails shows at once.
//   - A skipped test is a failure. The exception is a test that a smaller set leaves to make test-all, with
//     env.Long.
//   - A server in RLOCK_SERVERS that no test ran on is a failure.
//   - The summary names what a set leaves to a larger set.
//
// If a test fails while the machine stands still, the suite runs the test again, alone and at most twice. The
// summary names the test. Leases end while the machine stands still, as they must, so the test sees what it
// did not expect. Virtual machines stand still when their host has no processor for them. They have lost half
// of an hour in this way, a second and more at a time. A test that fails while the machine runs does not run
// again.
//
// A fuzzer takes no seed, so its findings are chance. Two things are not chance:
//
//   - Every committed case runs in the race step, as a test.
//   - In make test-all, each fuzzer begins with the committed cases alone.
//
// By itself, go test would also begin with the cases that earlier runs have left in the build cache. A change
// would then fail or pass for cases that the repository does not have. The cached cases would take the time
// of new cases. Only make fuzz, for long runs, uses the cache.
//
// The suite prints a case that fails, because the file of the case may vanish with the machine. The case
// shows a defect of the tested code or of the test, whichever change caused it. Fix the defect, and commit
// the case.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	var o options
	flag.StringVar((*string)(&o.set), "set", string(normal), "what to run: quick, test, ci or all")
	flag.DurationVar(&o.duration, "duration", time.Minute, "how long the histories under faults take")
	flag.Uint64Var(&o.seed, "seed", 0, "what they are drawn from; 0 draws one")
	flag.StringVar(&o.fuzztime, "fuzztime", "",
		"how long each fuzzer looks, such as 10m, or at how many cases, such as 5000x; each has a number of its "+
			"own without it")
	flag.BoolVar(&o.known, "known", false,
		"fuzzers begin with what earlier runs left in the build cache too, as make fuzz has it")
	only := flag.String("step", "", "run only the steps whose names begin so")
	flag.Parse()
	if !slices.Contains([]set{quick, normal, change, all}, o.set) {
		fmt.Fprintf(os.Stderr, "there is no set %q, only quick, test, ci and all\n", o.set)
		os.Exit(2)
	}
	if !run(os.Stdout, steps(o), *only, engines(os.Getenv("RLOCK_SERVERS"))) {
		os.Exit(1)
	}
}

// engines returns the number of servers in a list for RLOCK_SERVERS, at least one.
func engines(list string) int {
	n := 0
	for _, name := range filepath.SplitList(list) {
		if name != "" {
			n++
		}
	}
	return max(n, 1)
}

// run runs the steps one after the other, and reports whether all of them passed.
func run(w io.Writer, steps []step, only string, engines int) bool {
	r := newReport(w)
	go r.watch.run()
	defer r.watch.end()
	ran := false
	for _, s := range steps {
		if strings.HasPrefix(s.name, only) {
			ran = true
			r.run(s)
		}
	}
	if !ran {
		fmt.Fprintf(w, "no step's name begins with %q\n", only)
		return false
	}
	if only != "" {
		engines = 0 // these steps may need no server
	}
	return r.summary(engines)
}

// run runs one step.
func (r *report) run(s step) {
	if len(s.needs) > 0 {
		needs := exec.Command(s.needs[0], s.needs[1:]...)
		needs.Dir, needs.Env = s.dir, append(os.Environ(), s.env...)
		needs.Stdout, needs.Stderr = r.w, r.w
		if err := needs.Run(); err != nil {
			r.leftOut = append(r.leftOut,
				fmt.Sprintf("the suite: the step %s, because of %s: %v", s.name, strings.Join(s.needs, " "), err))
			return
		}
	}
	if len(s.prepare) > 0 {
		prepare := exec.Command(s.prepare[0], s.prepare[1:]...)
		prepare.Dir = s.dir
		prepare.Stdout, prepare.Stderr = r.w, r.w
		if err := prepare.Run(); err != nil {
			s.args = slices.Concat(s.args, s.unprepared)
			r.leftOut = append(r.leftOut, fmt.Sprintf("%s: run with %s, because of %s: %v",
				s.name, strings.Join(s.unprepared, " "), strings.Join(s.prepare, " "), err))
		}
	}
	if s.less != "" {
		r.leftOut = append(r.leftOut, s.less)
	}
	args := s.args
	if s.fresh {
		cases, err := os.MkdirTemp("", "fuzz")
		if err != nil {
			r.begin(s)
			r.end(err, 0)
			return
		}
		defer os.RemoveAll(cases)
		args = slices.Concat(args, []string{"-args", "-test.fuzzcachedir=" + cases})
	}
	fmt.Fprintf(r.w, "== %s: %sgo %s\n", s.name, strings.Join(append(s.env, ""), " "), strings.Join(args, " "))
	start := time.Now()
	r.begin(s)
	err := r.test(s, args)
	for range most - 1 {
		list := r.repetitions()
		if len(list) > 0 {
			err = nil
		}
		for _, p := range list {
			r.again(p)
			if failed := r.test(s, p.args(args)); failed != nil {
				err = failed
			}
		}
	}
	r.end(err, time.Since(start))
}

// test calls go test for the step, and reads its output.
func (r *report) test(s step, args []string) error {
	command := exec.Command("go", append([]string{args[0], "-json"}, args[1:]...)...)
	command.Dir = s.dir
	command.Env = append(os.Environ(), s.env...)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	err = r.read(output)
	if ended := command.Wait(); ended != nil {
		err = ended
	}
	return err
}
