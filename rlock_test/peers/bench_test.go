package peers

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

var (
	quick = flag.Bool("quick", false, "measure little, in under two minutes")
	full  = flag.Bool("full", false, "measure everything")
)

// wanted returns the server and the plan to measure with: without a flag, one that only
// shows that everything works.
func wanted(t *testing.T) (bed.Engine, plan) {
	p := smokePlan
	switch {
	case *full:
		p = fullPlan
	case *quick:
		p = quickPlan
	}
	return bed.Engines(t)[0], p
}

// TestWorkloads prints a table for each level of every workload.
func TestWorkloads(t *testing.T) {
	e, p := wanted(t)
	fmt.Println("server:", e.Version)
	for _, w := range workloads() {
		for _, level := range w.levels {
			if level > p.most {
				continue
			}
			t.Run(fmt.Sprintf("%s, %d", w.name, level), func(t *testing.T) {
				fmt.Printf("\n%s", compare(t, e, w, level, p).markdown())
			})
		}
	}
}

func TestProcesses(t *testing.T) {
	e, p := wanted(t)
	for _, processes := range []int{2, 8, 32} {
		if processes*callersOfProcess <= p.most {
			t.Run(fmt.Sprint(processes), func(t *testing.T) {
				fmt.Printf("\n%s", compareProcesses(t, e, processes, p).markdown())
			})
		}
	}
}

func TestWakeUps(t *testing.T) {
	e, p := wanted(t)
	fmt.Printf("\n%s", compareWakeUps(t, e, p).markdown())
}

func TestIdle(t *testing.T) {
	e, _ := wanted(t)
	locks, d := 100, 100*time.Millisecond
	switch {
	case *full:
		locks, d = 10_000, 30*time.Second
	case *quick:
		locks, d = 1000, 5*time.Second
	}
	fmt.Printf("\n%s", idleTable(locks, compareIdle(t, e, locks, d)))
}

func TestGrowth(t *testing.T) {
	e, _ := wanted(t)
	most := 100
	switch {
	case *full:
		most = 1_000_000
	case *quick:
		most = 10_000
	}
	sizes := func(first, last int) (list []int) {
		for size := first; size <= min(last, most); size *= 10 {
			list = append(list, size)
		}
		return list
	}
	for _, c := range []curve{
		heldKeys(t, e, sizes(100, 1_000_000)), setSize(t, e, sizes(1, 10_000)), waiters(t, e, sizes(1, 10_000)),
	} {
		fmt.Printf("\n%s", c.markdown())
	}
}
