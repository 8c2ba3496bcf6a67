package chaos

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// report is what one round has shown, or several rounds.
type report struct {
	operations map[string]int // by method and outcome
	faults     map[string]int // by kind
	grants     int
	handedOver uint64 // grants by hand-over, in processes that were not killed
	losses     int    // losses that holders noticed
	overlaps   int    // of valid holders
	refused    int    // writes that the resource refused
	order      order
	longest    time.Duration // longest wait for a key after the last fault
	violations []violation
}

// examine checks a history.
func (h *history) examine() *report {
	r := &report{operations: map[string]int{}, faults: map[string]int{}}
	for _, e := range h.events {
		if e.Method != "" {
			r.operations[e.Method+" "+string(e.Outcome)]++
		}
		if e.Kind == acquired && e.Outcome == done {
			r.grants++
		}
		r.handedOver += e.HandedOver
	}
	for _, d := range h.disturbances {
		r.faults[d.kind]++
	}
	grants := h.grants()
	note := func(found []violation) { r.violations = append(r.violations, found...) }
	var found []violation
	r.overlaps, found = h.checkHolders(grants)
	note(found)
	r.refused, found = h.checkWrites()
	note(found)
	r.losses, found = h.checkLosses()
	note(found)
	r.longest, found = h.checkProgress(grants)
	note(found)
	r.order, found = h.checkOrder(grants)
	note(found)
	note(h.checkFences(grants))
	return r
}

// add makes r the report of both.
func (r *report) add(other *report) {
	for name, n := range other.operations {
		r.operations[name] += n
	}
	for name, n := range other.faults {
		r.faults[name] += n
	}
	r.grants += other.grants
	r.handedOver += other.handedOver
	r.losses += other.losses
	r.overlaps += other.overlaps
	r.refused += other.refused
	r.order.operations += other.order.operations
	r.order.refusals += other.order.refusals
	r.order.undecided += other.order.undecided
	r.longest = max(r.longest, other.longest)
	r.violations = append(r.violations, other.violations...)
}

func (r *report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  operations: %s\n", counts(r.operations))
	fmt.Fprintf(&b, "  faults: %s\n", counts(r.faults))
	fmt.Fprintf(&b, "  %d grants (%d handed over), %d losses noticed, %d overlaps, %d writes refused by the "+
		"resource\n", r.grants, r.handedOver, r.losses, r.overlaps, r.refused)
	fmt.Fprintf(&b, "  order: %d operations (%d refusals), %d keys undecided\n", r.order.operations,
		r.order.refusals, r.order.undecided)
	fmt.Fprintf(&b, "  longest wait for a key after the faults: %v\n", r.longest.Round(time.Millisecond))
	fmt.Fprintf(&b, "  %d violations\n", len(r.violations))
	const most = 20
	for _, v := range r.violations[:min(len(r.violations), most)] {
		fmt.Fprintf(&b, "    %s\n", v)
	}
	return b.String()
}

// counts lists numbers by name, the largest first.
func counts(m map[string]int) string {
	names := slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b))
	})
	var words []string
	for _, name := range names {
		words = append(words, fmt.Sprintf("%s %d", name, m[name]))
	}
	return strings.Join(words, ", ")
}
