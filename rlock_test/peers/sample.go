package peers

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// sample is the cost of one round of a workload.
type sample struct {
	ops       int64
	elapsed   time.Duration
	latency   latencies // of acquisitions
	commands  int64     // commands that the server ran, also inside scripts
	scripts   int64
	serverCPU time.Duration
	clientCPU time.Duration
	allocs    uint64
	bytes     uint64
	more      int   // goroutines in the middle of the round, beyond those before the round
	least     int64 // operations of the unluckiest worker
	most      int64 // operations of the luckiest worker
	failed    int64
	hung      bool // the watchdog ended the round

	// Only of a writer among readers.
	read      time.Duration // the longest read of all readers
	roundTrip time.Duration // median round trip of the PINGs meanwhile
}

func (s *sample) rate() float64 { return float64(s.ops) / s.elapsed.Seconds() }

// holders is the average number of workers that held what they had acquired.
func (s *sample) holders() float64 { return s.latency.held.Seconds() / s.elapsed.Seconds() }

// meter reads the cost of a round, in the client and on the server.
type meter struct {
	tb     testing.TB
	server *env.Server
	others []*env.Server // the other nodes of a cluster
}

type reading struct {
	at        time.Time
	stats     map[string]int64
	serverCPU time.Duration
	clientCPU time.Duration
	memory    runtime.MemStats
}

func (m meter) read() reading {
	var r reading
	if m.server != nil { // else another process reads the server
		r.stats, r.serverCPU = m.server.CommandStats(m.tb), m.serverCPU(m.server)
	}
	for _, other := range m.others {
		for name, n := range other.CommandStats(m.tb) {
			r.stats[name] += n
		}
		r.serverCPU += m.serverCPU(other)
	}
	runtime.ReadMemStats(&r.memory)
	r.clientCPU = clientCPU(m.tb)
	r.at = time.Now()
	return r
}

// charge writes the difference between two readings into s.
func (s *sample) charge(from, to reading) {
	s.elapsed = to.at.Sub(from.at)
	s.serverCPU = to.serverCPU - from.serverCPU
	s.clientCPU = to.clientCPU - from.clientCPU
	s.allocs = to.memory.Mallocs - from.memory.Mallocs
	s.bytes = to.memory.TotalAlloc - from.memory.TotalAlloc
	for name, n := range to.stats {
		n -= from.stats[name]
		if strings.HasPrefix(name, "eval") {
			s.scripts += n
		}
		if name != "info" { // the meter itself sends INFO
			s.commands += n
		}
	}
}

func (m meter) serverCPU(server *env.Server) time.Duration {
	reply := server.Do(m.tb, "INFO", "cpu")
	text, err := reply.ToString()
	if err != nil {
		m.tb.Fatal(err)
	}
	var sum float64
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				m.tb.Fatal(err)
			}
			sum += seconds
		}
	}
	return time.Duration(sum * float64(time.Second))
}

func clientCPU(tb testing.TB) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// work is what a worker repeats until ctx ends. It does one operation, and measures the time of the
// operation's acquisition.
type work func(ctx context.Context, worker int, latency *latencies) error

// run makes workers work for a while.
func (m meter) run(d time.Duration, workers int, do work) *sample {
	s := new(sample)
	each := make([]struct {
		ops, failed int64
		latency     latencies
	}, workers)
	// Like the context of a request, this context can be cancelled and has no deadline.
	ctx, cancel := context.WithCancel(m.tb.Context())
	defer cancel()
	ended := make(chan struct{}, workers)
	before := runtime.NumGoroutine()
	busy := make(chan int, 1)
	time.AfterFunc(d/2, func() { busy <- runtime.NumGoroutine() - before })
	from := m.read()
	defer time.AfterFunc(d, cancel).Stop()
	for i := range workers {
		go func() {
			defer func() { ended <- struct{}{} }()
			for ctx.Err() == nil {
				switch err := do(ctx, i, &each[i].latency); {
				case err == nil:
					each[i].ops++
				case ctx.Err() == nil:
					each[i].failed++
				}
			}
		}()
	}
	watchdog := time.After(d + hungAfter)
	for range workers {
		select {
		case <-ended:
		case <-watchdog:
			s.hung = true
		}
	}
	s.charge(from, m.read())
	s.more = <-busy
	if s.hung {
		return s
	}
	s.least = each[0].ops
	for i := range each {
		w := &each[i]
		s.ops += w.ops
		s.failed += w.failed
		s.latency.merge(&w.latency)
		s.least, s.most = min(s.least, w.ops), max(s.most, w.ops)
	}
	return s
}

var errWrong = errors.New("the answer is wrong")

// hungAfter is how long a round may work on its last locks after its end.
const hungAfter = 10 * time.Second
