package peers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// competitor is the environment variable that makes the test binary a process that wants a lock.
// Its value has the name of a driver and the server's address.
const competitor = "RLOCK_PEERS_COMPETE"

// callersOfProcess is the number of callers in each process.
const callersOfProcess = 4

// keep is the line that makes a process take the lock and keep it until the process dies. Any other
// line says how long the process acquires and releases locks. It may also name keys, one for each
// caller in turn. Without a name, the key is "job".
const keep = "keep"

// compete is the life of such a process. It does what each line of standard input says. It answers
// with the cost, or with "held".
func compete(orders string) error {
	name, address, _ := strings.Cut(orders, "@")
	all := append(append(drivers(), barging()), sharingDrivers()...)
	i := slices.IndexFunc(all, func(d driver) bool { return d.name == name })
	if i < 0 {
		return fmt.Errorf("no driver %q", name)
	}
	tb := &program{}
	defer tb.cleanup()
	fmt.Println("ready")
	in := bufio.NewScanner(os.Stdin)
	var l locker
	for in.Scan() {
		if in.Text() == keep {
			if _, err := all[i].open(tb, address, shortLease).acquire(context.Background(), "job"); err != nil {
				return err
			}
			fmt.Println("held")
			continue
		}
		words := strings.Fields(in.Text())
		d, err := time.ParseDuration(words[0])
		if err != nil {
			return err
		}
		if l == nil {
			l = all[i].open(tb, address, lease)
		}
		answer, err := json.Marshal(competeFor(l, d, words[1:]))
		if err != nil {
			return err
		}
		fmt.Println(string(answer))
	}
	return in.Err()
}

// share is what a process got in a round, and what the round cost there.
type share struct {
	Ops, Failed   int64
	Latency       latencies
	ClientCPU     time.Duration
	Allocs, Bytes uint64
	More          int
	Read          time.Duration // the longest of the timed reads
}

func competeFor(l locker, d time.Duration, keys []string) share {
	if len(keys) == 0 {
		keys = []string{"job"}
	}
	m, how := meter{tb: &program{}}, crowd{callers: callersOfProcess}
	if s, is := l.(*sharing); is {
		how = s.crowd
	}
	read := func() time.Duration {
		if s, is := l.(*sharing); is {
			return time.Duration(s.longest.Swap(0))
		}
		return 0
	}
	read() // discard the reads of the round before
	s := m.run(d, how.callers, func(ctx context.Context, worker int, latency *latencies) error {
		return cycle(ctx, l, keys[worker%len(keys)], how.hold, latency)
	})
	return share{s.ops, s.failed, s.latency, s.clientCPU, s.allocs, s.bytes, s.more, read()}
}

// program replaces a testing.TB where there is no test.
type program struct {
	testing.TB
	done []func()
}

func (p *program) Helper()                  {}
func (p *program) Context() context.Context { return context.Background() }
func (p *program) Cleanup(f func())         { p.done = append(p.done, f) }
func (p *program) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(1)
}

func (p *program) cleanup() {
	for _, f := range slices.Backward(p.done) {
		f()
	}
}

// recruit starts a process for a driver.
func recruit(t *testing.T, d driver, address string) *env.Program {
	program := env.Reexec(t, competitor+"="+d.name+"@"+address)
	if line := program.Line(); line != "ready" {
		t.Fatalf("%s: %s", d.name, line)
	}
	return program
}

// competing is the workload of processes that compete for one lock.
func competing() workload {
	return workload{
		name: workProcesses,
		why: fmt.Sprintf("the %d callers of each process want one lock and release it at once",
			callersOfProcess),
		level: "processes", more: drivers(),
	}
}

// compareProcesses makes processes compete for one lock, driver by driver, in rounds that
// alternate.
func compareProcesses(t *testing.T, e env.Engine, w workload, processes int, p plan) comparison {
	c := comparison{workload: w, level: processes}
	server := e.Start(t)
	m := meter{tb: t, server: server}
	crowds := make([][]*env.Program, len(w.more))
	for i, d := range w.more {
		c.outcomes = append(c.outcomes, &outcome{driver: d})
		for n := range processes {
			if n > 0 && d.alone {
				break
			}
			crowds[i] = append(crowds[i], recruit(t, d, server.Addr()))
		}
		m.crowd(crowds[i], p.round/8) // the rounds find connections and scripts ready
	}
	// A process gets a few dozen turns in a round.
	c.alternate(m, min(p.rounds, 3), func(n int) *sample { return m.crowd(crowds[n], 4*p.round) })
	return c
}

const workProcesses = "processes"

func (m meter) crowd(crowd []*env.Program, d time.Duration, keys ...string) *sample {
	s := new(sample)
	from := m.read()
	for _, program := range crowd {
		program.Send(strings.Join(append([]string{d.String()}, keys...), " "))
	}
	watchdog := time.After(d + hungAfter)
	for i, program := range crowd {
		select {
		case line := <-program.Lines():
			var had share
			if err := json.Unmarshal([]byte(line), &had); err != nil {
				m.tb.Fatal(err)
			}
			s.join(had)
			if s.most = max(s.most, had.Ops); i == 0 || had.Ops < s.least {
				s.least = had.Ops
			}
		case <-watchdog:
			s.hung = true
			return s
		}
	}
	of := *s // the clients are the processes, so this process's cost does not count
	s.charge(from, m.read())
	s.clientCPU, s.allocs, s.bytes = of.clientCPU, of.allocs, of.bytes
	return s
}

func (s *sample) join(had share) {
	s.ops += had.Ops
	s.read = max(s.read, had.Read)
	s.failed += had.Failed
	s.latency.merge(&had.Latency)
	s.clientCPU += had.ClientCPU
	s.allocs += had.Allocs
	s.bytes += had.Bytes
	s.more += had.More
}
