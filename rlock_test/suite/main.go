// Command suite runs the tests of all modules, step by step, and says at the end how many
// ran on which server.
//
//	go run ./rlock_test/suite [-all] [-duration 60s] [-seed 0] [-fuzztime 10s] [-step race]
//
// It is behind make test and make test-all. A step that fails keeps no other from running.
// A test that fails shows at once. A test that is skipped is a failure, unless it says that
// it is left to make test-all (env.Long), and this is make test. So is a server that
// RLOCK_SERVERS names and that no test ran on.
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
	flag.BoolVar(&o.all, "all", false, "everything, as make test-all has it")
	flag.DurationVar(&o.duration, "duration", time.Minute, "how long the histories under faults take")
	flag.Uint64Var(&o.seed, "seed", 0, "what they are drawn from; 0 draws one")
	flag.DurationVar(&o.fuzztime, "fuzztime", 10*time.Second, "how long each fuzzer looks")
	only := flag.String("step", "", "run only the steps whose names begin so")
	flag.Parse()
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
	for _, s := range steps {
		if strings.HasPrefix(s.name, only) {
			r.run(s)
		}
	}
	if only != "" {
		engines = 0 // there may be none in these steps
	}
	return r.summary(engines)
}

// run runs one step.
func (r *report) run(s step) {
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
	fmt.Fprintf(r.w, "== %s: %sgo %s\n", s.name, strings.Join(append(s.env, ""), " "), strings.Join(s.args, " "))
	start := time.Now()
	command := exec.Command("go", append([]string{s.args[0], "-json"}, s.args[1:]...)...)
	command.Dir = s.dir
	command.Env = append(os.Environ(), s.env...)
	command.Stderr = os.Stderr
	r.begin(s)
	output, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err == nil {
		err = r.read(output)
		if ended := command.Wait(); ended != nil {
			err = ended
		}
	}
	r.end(err, time.Since(start))
}
