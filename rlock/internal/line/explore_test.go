package line

import (
	"flag"
	"testing"
)

var (
	states = flag.Int("states", few, "how many worlds of each scenario TestExplore visits; "+
		"with more than these few, TestPlantedFlaws looks for all flaws")
	walks = flag.Int("walks", 200, "how many walks TestWalksOfProcesses takes in each scenario")
)

// few is what takes some seconds.
const few = 3_000

func owners(_, person int) Want {
	return Want{TTL: ttl, Extends: true, Fenced: true, Owner: string(rune('a' + person))}
}

func mixed(_, person int) Want {
	return Want{TTL: ttl, Extends: person != 2, Fenced: person != 1, Own: person == 2}
}

func someFenced(_, person int) Want {
	return Want{TTL: ttl, Extends: true, Owner: string(rune('a' + min(person, 1))), Fenced: person != 1}
}

func slow(_, person int) Want {
	return Want{TTL: ttl, Extends: true, Fenced: true, Slow: person == 1}
}

var (
	whole2  = []Mode{Whole, Whole}
	readers = []Mode{Readers, Whole}
	permits = []Mode{Permits, Permits}
)

var scenarios = []scenario{
	{name: "two and one", modes: whole2, people: []int{2, 1}, want: plain, turn: 1, ticks: 3},
	{
		name: "two and two, one message lost", modes: whole2, people: []int{2, 2},
		want: plain, turn: 1, ticks: 3, budget: map[fault]int{loss: 1},
	},
	{
		name: "three and one, two leave", modes: whole2, people: []int{3, 1},
		want: plain, turn: 1, ticks: 3, budget: map[fault]int{leaving: 2},
	},
	{
		name: "three and one, one leaves, a loss", modes: whole2, people: []int{3, 1},
		want: plain, turn: 1, ticks: 3, budget: map[fault]int{leaving: 1, loss: 1},
	},
	{
		name: "three and one, a call ends before its answer", modes: whole2, people: []int{3, 1},
		want: plain, turn: 1, ticks: 3, budget: map[fault]int{timeout: 1, beat: 1},
	},
	{
		name: "owners differ, one leaves, a loss", modes: whole2, people: []int{3, 1},
		want: owners, turn: 2, ticks: 3, budget: map[fault]int{leaving: 1, loss: 1},
	},
	{
		name: "wants differ, a call ends before its answer", modes: whole2, people: []int{3, 1},
		want: mixed, turn: 1, ticks: 3, budget: map[fault]int{timeout: 1},
	},
	{
		name: "the key is deleted, a loss", modes: whole2, people: []int{2, 2},
		want: plain, turn: 1, ticks: 3, budget: map[fault]int{deletion: 1, loss: 1},
	},
	{
		name: "tokens are seen, one leaves", modes: whole2, people: []int{3, 1},
		want: plain, seen: true, turn: 2, ticks: 3, budget: map[fault]int{leaving: 1},
	},
	{
		name: "no turns, one leaves", modes: whole2, people: []int{3, 1},
		want: plain, turn: 0, ticks: 2, budget: map[fault]int{leaving: 1, loss: 1},
	},
	{
		name: "one wants no fence, and another the same of the rest", modes: whole2, people: []int{3, 1},
		want: someFenced, turn: 2, ticks: 3, budget: map[fault]int{},
	},
	{
		name: "slow callers, a loss", modes: whole2, people: []int{3, 1},
		want: slow, turn: 1, ticks: 3, budget: map[fault]int{loss: 1},
	},
	{
		name: "slow readers beside a writer", modes: readers, people: []int{3, 1},
		want: slow, turn: 2, ticks: 3, budget: map[fault]int{leaving: 1},
	},
	{
		name: "leases run out, an extension", modes: whole2, people: []int{2, 1},
		want: plain, turn: 1, ticks: 10, budget: map[fault]int{extend: 2},
	},
	{
		name: "a lease is detached", modes: whole2, people: []int{2, 1},
		want: plain, turn: 1, ticks: 5, budget: map[fault]int{detach: 1, loss: 1},
	},
	{
		name: "a process closes, a loss", modes: whole2, people: []int{3, 1},
		want: plain, turn: 1, ticks: 2, budget: map[fault]int{closing: 1, loss: 1},
	},
	{
		name: "a process of readers or their writer's closes", modes: readers, people: []int{2, 2},
		want: plain, turn: 1, ticks: 2, budget: map[fault]int{closing: 1},
	},
	{
		name: "three processes", modes: []Mode{Whole, Whole, Whole}, people: []int{2, 2, 1},
		want: plain, turn: 1, ticks: 2, budget: map[fault]int{leaving: 1},
	},
	{
		name: "three readers and a writer", modes: readers, people: []int{3, 1},
		want: plain, turn: 1, ticks: 3, budget: map[fault]int{loss: 1},
	},
	{
		name: "three readers and a writer, two leave", modes: readers, people: []int{3, 1},
		want: plain, turn: 1, ticks: 3, budget: map[fault]int{leaving: 2, deletion: 1},
	},
	{
		name: "readers of two processes", modes: []Mode{Readers, Readers}, people: []int{2, 2},
		want: plain, turn: 1, ticks: 3, budget: map[fault]int{leaving: 1, loss: 1},
	},
	{
		name: "readers whose token is seen", modes: readers, people: []int{3, 1},
		want: plain, seen: true, turn: 1, ticks: 2, budget: map[fault]int{leaving: 1},
	},
	{
		name: "readers, extended and detached", modes: readers, people: []int{3, 1},
		want: plain, turn: 1, ticks: 5, budget: map[fault]int{extend: 2, detach: 1},
	},
	{
		name: "a key is deleted while it moves", modes: whole2, people: []int{3, 1},
		want: plain, turn: 0, ticks: 2, budget: map[fault]int{deletion: 1, leaving: 1},
	},
	{
		name: "calls end before their answers", modes: whole2, people: []int{3, 1},
		want: plain, turn: 1, ticks: 2, budget: map[fault]int{timeout: 1},
	},
	{
		name: "four callers", modes: whole2, people: []int{4, 1},
		want: plain, turn: 1, ticks: 3, budget: map[fault]int{loss: 1},
	},
	{
		name: "permits", modes: permits, people: []int{3, 1}, limit: 2,
		want: plain, turn: 1, ticks: 3, budget: map[fault]int{loss: 1},
	},
	{
		name: "permits, one leaves", modes: permits, people: []int{3, 2}, limit: 2,
		want: plain, turn: 1, ticks: 3, budget: map[fault]int{leaving: 1, deletion: 1},
	},
	{
		name: "permits and a writer", modes: []Mode{Permits, Whole}, people: []int{3, 1}, limit: 2,
		want: plain, turn: 1, ticks: 3, budget: map[fault]int{leaving: 1},
	},
}

// Lines and the queue of the server together, in every order of their steps, messages and faults.
func TestExplore(t *testing.T) {
	t.Parallel()
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			f := sc.explore(*states, 7)
			if f.err != nil {
				t.Fatal(f)
			}
			t.Logf("%d worlds", f.states)
		})
	}
}

// The same at random, deeper.
func TestWalksOfProcesses(t *testing.T) {
	t.Parallel()
	for i, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			sc.ticks, sc.again = 5*sc.ticks, 5
			budget := map[fault]int{slot: 2}
			for f, n := range sc.budget {
				budget[f] = 3 * n
			}
			sc.budget = budget
			if f := sc.walk(*walks, 250, uint64(i)); f.err != nil {
				t.Fatal(f)
			}
		})
	}
}
