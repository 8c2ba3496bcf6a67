package peers

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

var (
	quick = flag.Bool("quick", false, "measure little, in under two minutes")
	full  = flag.Bool("full", false, "measure everything")
	times = flag.Int("rounds", 0, "of each library at each level, in place of the plan's")
	long  = flag.Duration("round", 0, "how long one takes, in place of the plan's")
	only  = flag.String("only", "", "measure what has a title that this regular expression finds")
	who   = flag.String("driver", "",
		"measure those whose name this regular expression finds, such as for a profile")
	write = flag.Bool("write", false, "write the results into the documentation")
	draw  = flag.Bool("draw", false, "write the chart of throughput only, such as with -only uncontended")
)

// TestSideBySide measures everything that is wanted, prints it as it comes, and writes it
// down: without a flag, as much as shows that everything works.
func TestSideBySide(t *testing.T) {
	p := smokePlan
	switch {
	case *full:
		p = fullPlan
	case *quick:
		p = quickPlan
	}
	if *times > 0 {
		p.rounds = *times
	}
	if *long > 0 {
		p.round = *long
	}
	wanted := regexp.MustCompile(*only)
	wantedDrivers = regexp.MustCompile(*who)
	engine := env.Engines(t)[0]
	r := &results{began: time.Now(), server: engine.Version, plan: p}
	fmt.Println(r.circumstances())
	measure := func(title string, f func(t *testing.T) section) {
		if wanted.MatchString(title) {
			t.Run(title, func(t *testing.T) { r.add(f(t)) })
		}
	}

	for _, w := range workloads() {
		for _, level := range w.levels {
			if level <= p.most && w.far <= p.farthest {
				measure(fmt.Sprintf("%s, %d", w.name, level),
					func(t *testing.T) section { return compare(t, engine, w, level, p) })
			}
		}
	}
	for _, n := range []int{2, 8, 32} {
		if n*callersOfProcess <= p.most {
			measure(fmt.Sprintf("%s, %d", workProcesses, n),
				func(t *testing.T) section { return compareProcesses(t, engine, competing(), n, p) })
		}
	}
	for _, w := range []workload{crowded(asReaders, workReaders), crowded(asHolders, workPermits)} {
		if asReaders.callers <= p.most {
			measure(w.name+", 8", func(t *testing.T) section { return compareProcesses(t, engine, w, 8, p) })
		}
	}
	if asReaders.callers <= p.most {
		measure(workWriter+", 8", func(t *testing.T) section { return compareWriters(t, engine, 8, p) })
	}
	for _, n := range []int{2, 8, 32} {
		if n*callersOfProcess <= p.most {
			measure(fmt.Sprintf("%s, %d", workProcessesThere, n),
				func(t *testing.T) section { return compareClusters(t, engine, n, p) })
		}
	}
	measure(workContendedThere, func(t *testing.T) section {
		return compareCallersThere(t, engine, workContendedThere, near()[1], 16, p)
	})
	measure(workAloneThere, func(t *testing.T) section {
		return compareCallersThere(t, engine, workAloneThere, near()[0], 16, p, aloneThere()...)
	})
	measure(workWakeUpThere, func(t *testing.T) section { return compareWakeUpsThere(t, engine, p) })
	measure(workDeathThere, func(t *testing.T) section { return compareDeathsThere(t, engine, p) })
	if p.round > smokePlan.round { // a guest's wait takes longer than that
		measure(workSetGuest, func(t *testing.T) section {
			return compareGuests(t, engine, workSetGuest,
				"each of the 4 callers of a process wants one of 4 keys, and one more caller wants the set of "+
					"all 4", setGuests(), driver{name: rlockPlain}, 8, p)
		})
		measure(workPoller, func(t *testing.T) section {
			return compareGuests(t, engine, workPoller,
				"the 4 callers of each process want one key with rlock, and one caller of another library wants "+
					"it too", pollers(), driver{name: rlockPlain}, 8, p)
		})
		measure(workBarging, func(t *testing.T) section {
			return compareGuests(t, engine, workBarging, "the same, and the processes have WithBarging(300ms)",
				pollers(), barging(), 8, p)
		})
	}
	if p.round > smokePlan.round {
		for _, host := range peerDrivers() {
			measure(workNewcomer+host.name, func(t *testing.T) section {
				return compareGuests(t, engine, workNewcomer+host.name,
					"the 4 callers of each process want one key with another library, and one caller of rlock "+
						"wants it too", newcomers(host), host, 8, p)
			})
		}
	}
	for _, far := range append([]time.Duration{0}, distances...) {
		if far <= p.farthest {
			for _, ms := range idleBefore {
				measure(fmt.Sprintf("%s, %v, %d", workWakeUp, far, ms),
					func(t *testing.T) section { return compareWakeUps(t, engine, far, ms, p) })
			}
		}
	}
	measure(workDeath, func(t *testing.T) section { return compareDeaths(t, engine, workDeath, drivers(), p) })
	measure(workOnePermit+", "+workDeath, func(t *testing.T) section {
		return compareDeaths(t, engine, workOnePermit+", "+workDeath, sharers(asOne, workOnePermit), p)
	})
	measure("idle", func(t *testing.T) section { return compareIdle(t, engine, p.idle, p.idleFor) })
	for _, grow := range []func(*testing.T, env.Engine, plan) curve{heldKeys, setSize, waiters, lockers} {
		measure("growth", func(t *testing.T) section { return grow(t, engine, p) })
	}

	fmt.Print("\n", goalTable(r.goalList()))
	if *draw && !t.Failed() {
		if err := r.writeChart(); err != nil {
			t.Fatal(err)
		}
	}
	if *write && !t.Failed() {
		if err := r.write(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMain(m *testing.M) {
	if orders := os.Getenv(competitor); orders != "" {
		if err := compete(orders); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}
