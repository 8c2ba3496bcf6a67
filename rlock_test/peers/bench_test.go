package peers

import (
	"flag"
	"fmt"
	"testing"

	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

var (
	quick = flag.Bool("quick", false, "measure little, in under two minutes")
	full  = flag.Bool("full", false, "measure everything")
)

// TestCompare measures every workload and prints a table for each of its levels.
func TestCompare(t *testing.T) {
	p := fullPlan
	switch {
	case *quick:
		p = quickPlan
	case !*full:
		t.Skip("measuring takes the whole machine: make bench, or make bench-quick")
	}
	e := bed.Engines(t)[0]
	fmt.Println("server:", e.Version)
	for _, w := range workloads() {
		fmt.Printf("\n## %s\n\n%s.\n", w.name, w.why)
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
