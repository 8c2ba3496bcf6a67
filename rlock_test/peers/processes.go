package peers

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

// competitor is the environment variable that makes the test binary one of the
// processes that want a lock: the name of a driver, and the server's address.
const competitor = "RLOCK_PEERS_COMPETE"

// callers of each process.
const callersOfProcess = 4

// compete is the life of such a process: a line on standard input says for how long
// it is to acquire and release the lock, and it prints how often it had it.
func compete(orders string) error {
	name, address, _ := strings.Cut(orders, "@")
	i := slices.IndexFunc(drivers(), func(d driver) bool { return d.name == name })
	if i < 0 {
		return fmt.Errorf("no driver %q", name)
	}
	tb := &program{}
	defer tb.cleanup()
	l := drivers()[i].open(tb, address, lease)
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		d, err := time.ParseDuration(in.Text())
		if err != nil {
			return err
		}
		fmt.Println(competeFor(l, d))
	}
	return in.Err()
}

func competeFor(l locker, d time.Duration) int64 {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var had atomic.Int64
	var callers sync.WaitGroup
	for range callersOfProcess {
		callers.Go(func() {
			var unused latencies
			for ctx.Err() == nil {
				if cycle(ctx, l, "job", 0, &unused) == nil {
					had.Add(1)
				}
			}
		})
	}
	callers.Wait()
	return had.Load()
}

// program stands in for a testing.TB where there is no test.
type program struct {
	testing.TB
	done []func()
}

func (p *program) Helper()          {}
func (p *program) Cleanup(f func()) { p.done = append(p.done, f) }
func (p *program) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(1)
}

func (p *program) cleanup() {
	for _, f := range slices.Backward(p.done) {
		f()
	}
}

// compareProcesses has processes compete for one lock, driver by driver, in rounds that
// alternate.
func compareProcesses(t *testing.T, e bed.Engine, processes int, p plan) comparison {
	c := comparison{workload: workload{name: "processes", level: "processes"}, level: processes}
	server := e.Start(t)
	m := meter{tb: t, server: server}
	crowds := make([][]*bed.Program, 0, len(drivers()))
	for _, d := range drivers() {
		c.outcomes = append(c.outcomes, &outcome{driver: d})
		var crowd []*bed.Program
		for range processes {
			crowd = append(crowd, bed.Reexec(t, competitor+"="+d.name+"@"+server.Addr()))
		}
		for _, program := range crowd {
			if line := program.Line(); line != "ready" {
				t.Fatalf("%s: %s", d.name, line)
			}
		}
		crowds = append(crowds, crowd)
	}
	for round := range p.rounds {
		for i := range crowds {
			n := (i + round) % len(crowds)
			if c.outcomes[n].hung() {
				continue
			}
			server.Do(t, "FLUSHALL")
			c.outcomes[n].samples = append(c.outcomes[n].samples, m.crowd(crowds[n], p.round))
		}
	}
	return c
}

func (m meter) crowd(crowd []*bed.Program, d time.Duration) *sample {
	s := new(sample)
	from := m.read()
	for _, program := range crowd {
		program.Send(d.String())
	}
	watchdog := time.After(d + hungAfter)
	for i, program := range crowd {
		select {
		case line := <-program.Lines():
			n, err := strconv.ParseInt(line, 10, 64)
			if err != nil {
				m.tb.Fatal(err)
			}
			s.ops += n
			if s.most = max(s.most, n); i == 0 || n < s.least {
				s.least = n
			}
		case <-watchdog:
			s.hung = true
			return s
		}
	}
	s.charge(from, m.read())
	s.clientCPU, s.allocs, s.bytes = 0, 0, 0 // those of this process, which does nothing
	return s
}
