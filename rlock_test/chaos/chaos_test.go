package chaos

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

var (
	duration = flag.Duration("duration", time.Minute,
		"how long TestHistories goes on; every topology is seen once in any case")
	seed    = flag.Uint64("seed", 0, "what TestHistories draws from; 0: the clock")
	sharing = flag.Int("sharing", 30, "of a hundred operations, how many are about keys that are shared")
	where   = flag.String("topology", "",
		"TestHistories runs only the rounds of topologies whose name this regular expression finds")
	only = flag.Int("round", 0, "the one round that TestHistories runs; 0: all")
)

// roundLoad is how long the processes of a round work under faults. Starting and
// stopping take about as long again.
const roundLoad = 7 * time.Second

// Lockers in several processes, under faults: see the package's documentation.
func TestHistories(t *testing.T) {
	from := *seed
	if from == 0 {
		from = uint64(time.Now().UnixNano()) % 1_000_000
	}
	engines := env.Engines(t)
	fmt.Printf("chaos: seed %d; again: make chaos SEED=%d DURATION=%s\n", from, from, *duration)
	for _, e := range engines {
		fmt.Printf("chaos: %s\n", e.Version)
	}
	wanted := regexp.MustCompile(*where)
	require.True(t, slices.ContainsFunc(topologies, func(o topology) bool { return wanted.MatchString(o.name) }),
		"no topology is called %s", *where)
	var total *report
	start := time.Now()
	for number := 1; number <= len(topologies) || time.Since(start) < *duration; number++ {
		if *only != 0 && number != *only {
			if number > *only {
				break
			}
			continue
		}
		p := draw(from, number, engines)
		if !wanted.MatchString(p.topology.name) {
			continue
		}
		fmt.Printf("chaos: round %d: %s, %s; again: make chaos SEED=%d ROUND=%d\n", number, p.engine.Version,
			p.topology.name, from, number)
		var r *report
		t.Run(fmt.Sprintf("round %d", number), func(t *testing.T) { r = runRound(t, p) })
		if r == nil {
			break // the servers or processes did not work, and the test has failed
		}
		if total == nil {
			total = r
		} else {
			total.add(r)
		}
	}
	if total != nil {
		fmt.Printf("chaos: all in %v, seed %d\n%s", time.Since(start).Round(time.Second), from, total)
	}
}

// draw makes the plan of a round. The topologies take turns, so that a short run has
// all of them.
func draw(seed uint64, number int, engines []env.Engine) plan {
	p := plan{seed: seed, number: number, service: "rlock", load: roundLoad, ttls: leasesOfRound,
		sharing: *sharing}
	p.topology = topologies[(number-1)%len(topologies)]
	if (number-1)/len(topologies)%2 == 1 { // every second time that they have had their turns
		p.crowd = crowdCallers
	}
	p.engine = engines[(uint64(number-1)+seed)%uint64(len(engines))]
	return p
}

var leasesOfRound = []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond,
	time.Second, 3 * time.Second}

func runRound(t *testing.T, p plan) *report {
	start := time.Now()
	r := newRound(t, p)
	started := time.Since(start)
	h := r.run()
	worked := time.Since(start)
	report := h.examine()
	report.violations = append(report.violations, r.findings...)
	fmt.Printf("  started in %v, ran for %v, checked in %v\n%s", started.Round(time.Millisecond),
		(worked - started).Round(time.Millisecond), (time.Since(start) - worked).Round(time.Millisecond), report)
	if len(report.violations) > 0 {
		t.Errorf("%d violations; the history is in %s", len(report.violations), saved(t, h))
	}
	return report
}

// saved writes a history to a file that outlives the test.
func saved(t *testing.T, h *history) string {
	f, err := os.CreateTemp("", "chaos-*.jsonl")
	require.NoError(t, err)
	defer f.Close()
	out := json.NewEncoder(f)
	for _, d := range h.disturbances {
		require.NoError(t,
			out.Encode(map[string]any{"fault": d.kind, "process": d.process, "from": d.from, "to": d.to}))
	}
	slices.SortStableFunc(h.events, func(a, b event) int { return cmp.Compare(a.Call, b.Call) })
	for _, e := range h.events {
		require.NoError(t, out.Encode(e))
	}
	return f.Name()
}
