// Command suite runs the tests of all modules, step by step, and says at the end how many
// ran on which server.
//
//	go run ./rlock_test/suite [-set test] [-duration 60s] [-seed 0] [-fuzztime 10m] [-known] [-step race]
//
// It is behind make quick, test, ci and test-all, each of which is a set of steps. A step that fails keeps no
// other from running. A test that fails shows at once. A test that is skipped is a failure, unless it says
// that it is left to make test-all (env.Long), and this is a smaller set. So is a server that RLOCK_SERVERS
// names and that no test ran on. What a set leaves to a larger one stands in the summary.
//
// A test that fails while the machine stands still runs again, at most twice and by itself, and
// the summary names it. Leases end in such a time, as they must, so that the test sees what it
// did not expect. Virtual machines stand still when their host has no processor for them: there,
// half of an hour was lost so, a second and more at a time. A test that fails while the machine
// runs does not run again.
//
// A fuzzer cannot be given a seed, so what it finds is chance. Two things are not: every
// case that was committed runs in the race step, as a test; and make test-all has each
// fuzzer begin with those cases alone. go test would also begin with what earlier runs on
// the same machine have left in the build cache. A change would then fail or pass for
// cases that nobody sees, and the known ones would take the time of the new. Only make
// fuzz, for long runs, goes on from there. A case that fails is printed, because the file
// that has it may be gone with the machine. It is a defect of what is tested or of the
// test, whoever made it: mend that, and commit the case.
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

// engines is the number of servers in a list for RLOCK_SERVERS: at least one.
func engines(list string) int {
	n := 0
	for _, name := range filepath.SplitList(list) {
		if name != "" {
			n++
		}
	}
	return max(n, 1)
}

// run runs the steps one after the other and reports whether all is well.
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
		engines = 0 // there may be none in these steps
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

// test calls go test for the step, and takes in what it prints.
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
