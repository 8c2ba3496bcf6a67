// Package explorer explores the queue between processes: every order in which the steps of a
// few processes, their messages and faults can happen, as far as its bounds go. It has nothing
// but tests.
//
// What it runs is real: the text of scripts/acquire.lua, wait.lua, release.lua, requeue.lua, extend.lua,
// hand_over.lua and attach.lua, and of acquire_all.lua and release_many.lua for sets, in a Lua machine, and
// the Wait of package queue. It models:
//
//   - what a holder does with its lock: it extends it, makes its lease shorter, hands it over to the next
//     caller of its process, detaches it and has another handle attach it, releases it, or
//     finds it over
//   - callers who try once, and who go at any time
//   - the server's commands, which TestServer compares with real servers
//   - the network: a bag of calls, answers and pushes that arrive in any order, at any age, twice, or
//     never. A call without an answer is sent again where the product does that.
//   - steps of the server's clock, which stays above all scores. The server that takes over has the same
//     clock.
//
// Time goes by in ticks, two of which are a lease. A process may take any time for its next step, so a
// pause needs no step of its own.
//
// Worlds are visited the nearest first, so the first violation that is found has the shortest
// story. In each world these hold:
//
//   - Exclusion: if a process holds the lock by its own deadline, the server has its token, or has it
//     among those who share the lock. Nobody gets permits while more are in use than the limit that it
//     names, and the server counts as many as their holders have.
//     Tokens that a stranger has deleted, or that a failover may have lost, are excused.
//   - Barging: while a free lock is to stay free, nobody gets it if somebody waits in the queue.
//   - Order: a grant is to the first of the queue that was heard of lately and can be told. A lock that is
//     released is not free while the first who lives is such a one.
//   - Fences: each holder begins with a fence above all that holders had before, or with that of those
//     with whom it shares the lock.
//   - Rest: if faults stop there, and everything that is under way arrives, whoever waits gets
//     the lock, and at the end the lock is free and the queue is empty. At once, nothing is left
//     that a process which is alive does not want. This is tried for each ninth world.
//
// What is not modelled: more than one lock (of a set there is the key that it waits for), what package lease
// makes of several extensions at the same time (it has a model of its own), what the callers of one process
// do among themselves (package line has worlds of them), clocks that run at different rates, expiry within a
// tick.
package explorer

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	states = flag.Int("states", few,
		"how many worlds of each scenario TestExplore visits; with more than these few, TestPlantedFlaws looks "+
			"for all flaws")
	rest = flag.Int("rest", 9, "TestExplore lets each of so many worlds settle")
)

// few is what takes some seconds. The step "explorer" of make test-all visits more than a
// million in all.
const few = 3_000

var scenarios = []scenario{
	{name: "no fault", processes: 3, wants: 1},
	{name: "a message is lost", processes: 3, wants: 1, budget: map[fault]uint8{loss: 1}},
	{name: "a message comes twice", processes: 3, wants: 1, budget: map[fault]uint8{doubling: 2}},
	{name: "a call is repeated", processes: 3, wants: 1, budget: map[fault]uint8{retry: 1}},
	{name: "callers give up", processes: 3, wants: 1, budget: map[fault]uint8{cancel: 1}},
	{name: "callers give up and a call is repeated", processes: 3, wants: 1,
		budget: map[fault]uint8{cancel: 1, retry: 1}},
	{name: "a subscription breaks", processes: 3, wants: 1, budget: map[fault]uint8{breakage: 1}},
	{name: "a subscription breaks and a message is lost", processes: 3, wants: 1,
		budget: map[fault]uint8{breakage: 1, loss: 1}},
	{name: "processes listen only after a while", processes: 3, wants: 1, late: true},
	{name: "processes listen only after a while, with loss and callers who give up", processes: 3, wants: 1,
		late: true, budget: map[fault]uint8{loss: 1, cancel: 1, retry: 1}},
	{name: "two processes that listen only after a while, again and again", processes: 2, wants: 2, late: true,
		budget: map[fault]uint8{doubling: 1, retry: 1}},
	{name: "a reader, a writer and a reader, who listen only after a while", processes: 3, wants: 1, late: true,
		shares: [maxProcesses]string{"0:1", "", "0:1"}, budget: map[fault]uint8{loss: 1}},
	{name: "a process dies", processes: 3, wants: 1, budget: map[fault]uint8{crash: 1}},
	{name: "a process dies and a lease is extended", processes: 3, wants: 1,
		budget: map[fault]uint8{crash: 1, extension: 1}},
	{name: "a stranger deletes and takes the lock", processes: 3, wants: 1,
		budget: map[fault]uint8{deletion: 1, taking: 1}},
	{name: "a replica takes over", processes: 3, wants: 1, budget: map[fault]uint8{failover: 1}},
	{name: "two processes, again and again, and a replica takes over that has places which were served",
		processes: 2, wants: 2, budget: map[fault]uint8{failover: 1}},
	{name: "the lock goes on within a process, and a replica takes over", processes: 2, wants: 2,
		budget: map[fault]uint8{failover: 1, handing: 1}},
	{name: "two readers and a writer, again and again, and a replica takes over", processes: 3, wants: 2,
		apart: true, shares: [maxProcesses]string{"0:1", "", "0:1"}, budget: map[fault]uint8{failover: 1}},
	{name: "a subscriber is not counted", processes: 3, wants: 1, budget: map[fault]uint8{mishearing: 1}},
	{name: "the fence counter is of another type", processes: 3, wants: 1, budget: map[fault]uint8{mistype: 1}},
	{name: "nobody can be told", processes: 3, wants: 1, mute: true},
	{name: "locks do not expire", processes: 3, wants: 1, endless: true, budget: map[fault]uint8{loss: 1}},
	{name: "a lease is extended twice, with loss", processes: 3, wants: 1,
		budget: map[fault]uint8{extension: 2, loss: 1}},
	{name: "two processes, again and again", processes: 2, wants: 2, budget: map[fault]uint8{retry: 1}},
	{name: "two processes, again and again, with messages that come twice", processes: 2, wants: 2,
		budget: map[fault]uint8{doubling: 1, retry: 1}},
	{name: "two processes, again and again, with loss", processes: 2, wants: 2,
		budget: map[fault]uint8{loss: 1, cancel: 1}},
	{name: "four processes", processes: 4, wants: 1},
	{name: "the lock goes on within a process", processes: 3, wants: 1, more: 1,
		budget: map[fault]uint8{handing: 1}},
	{name: "the lock goes on within a process, a call is repeated and callers give up", processes: 2, wants: 2,
		budget: map[fault]uint8{handing: 2, retry: 1, cancel: 1}},
	{name: "the lock goes on within a process, with loss", processes: 2, wants: 2,
		budget: map[fault]uint8{handing: 2, loss: 1}},
	{name: "the lock goes on within a process that dies", processes: 3, wants: 1, more: 1,
		budget: map[fault]uint8{handing: 1, crash: 1}},
	{name: "a reader, a writer and a reader", processes: 3, wants: 1,
		shares: [maxProcesses]string{"0:1", "", "0:1"}},
	{name: "a reader, a writer and a reader, with loss", processes: 3, wants: 1,
		shares: [maxProcesses]string{"0:1", "", "0:1"}, budget: map[fault]uint8{loss: 1, doubling: 1}},
	{name: "a reader, a writer and a reader, of whom one dies", processes: 3, wants: 1,
		shares: [maxProcesses]string{"0:1", "", "0:1"}, budget: map[fault]uint8{crash: 1, extension: 1}},
	{name: "a reader, a writer and a reader, and a call is repeated", processes: 3, wants: 1,
		shares: [maxProcesses]string{"0:1", "", "0:1"}, budget: map[fault]uint8{retry: 1, cancel: 1}},
	{name: "a reader, a writer and a reader, and a stranger", processes: 3, wants: 1,
		shares: [maxProcesses]string{"0:1", "", "0:1"}, budget: map[fault]uint8{deletion: 1, taking: 1}},
	{name: "a reader, a writer and a reader, and a replica takes over", processes: 3, wants: 1,
		shares: [maxProcesses]string{"0:1", "", "0:1"}, budget: map[fault]uint8{failover: 1}},
	{name: "readers and a writer without expiry", processes: 3, wants: 1,
		shares: [maxProcesses]string{"0:1", "", "0:1"}, endless: true, budget: map[fault]uint8{loss: 1}},
	{name: "a reader, a writer and a reader, whom nobody can tell", processes: 3, wants: 1,
		shares: [maxProcesses]string{"0:1", "", "0:1"}, mute: true, budget: map[fault]uint8{cancel: 1}},
	{name: "two permits, and nobody can be told", processes: 4, wants: 1,
		shares: [maxProcesses]string{"2:1", "2:1", "2:2", "2:1"}, mute: true, budget: map[fault]uint8{crash: 1}},
	{name: "two permits for three", processes: 3, wants: 1, shares: [maxProcesses]string{"2:1", "2:1", "2:1"},
		budget: map[fault]uint8{extension: 1}},
	{name: "two permits for three, extended twice, with loss", processes: 3, wants: 1,
		shares: [maxProcesses]string{"2:1", "2:1", "2:1"}, budget: map[fault]uint8{extension: 2, loss: 1}},
	{name: "two permits, of which one wants both", processes: 3, wants: 1,
		shares: [maxProcesses]string{"2:1", "2:2", "2:1"}, budget: map[fault]uint8{loss: 1}},
	{name: "a lock is detached and attached, with loss", processes: 2, wants: 1,
		budget: map[fault]uint8{attachment: 2, loss: 1, extension: 1}},
	{name: "a lock is detached and attached, and calls are repeated", processes: 2, wants: 2, apart: true,
		budget: map[fault]uint8{attachment: 1, loss: 1, retry: 1}},
	{name: "a lease is extended and made shorter, and calls are repeated", processes: 2, wants: 1,
		budget: map[fault]uint8{shortening: 1, extension: 1, retry: 1}},
	{name: "a lease is extended and made shorter twice, with loss", processes: 2, wants: 2, apart: true,
		budget: map[fault]uint8{shortening: 2, extension: 1, loss: 1}},
	{name: "leases of permits are extended and made shorter, with loss", processes: 3, wants: 1,
		shares: [maxProcesses]string{"2:1", "2:1", "2:2"},
		budget: map[fault]uint8{shortening: 1, extension: 1, loss: 1}},
	{name: "permits are detached and attached, with loss", processes: 3, wants: 1,
		shares: [maxProcesses]string{"2:1", "2:1", "2:2"},
		budget: map[fault]uint8{attachment: 1, loss: 1, retry: 1}},
	{name: "callers who would not wait", processes: 3, wants: 1, more: 1, apart: true,
		shares: [maxProcesses]string{"", "0:1", ""}, budget: map[fault]uint8{trying: 2, retry: 1, loss: 1}},
	{name: "readers and a writer who give up at any time", processes: 3, wants: 2, apart: true, leaving: true,
		shares: [maxProcesses]string{"0:1", "", "0:1"}, budget: map[fault]uint8{loss: 1}},
	{name: "callers of permits who give up at any time", processes: 3, wants: 2, apart: true, leaving: true,
		shares: [maxProcesses]string{"2:1", "2:1", "2:2"}, budget: map[fault]uint8{retry: 1, loss: 1}},
	{
		name: "permits of several limits", processes: 3, wants: 2, apart: true,
		shares: [maxProcesses]string{"2:1", "1:1", "3:2"},
	},
	{
		name: "permits of several limits, with loss and callers who give up", processes: 3, wants: 1, more: 1,
		apart: true, leaving: true, shares: [maxProcesses]string{"2:1", "3:1", "2:2"},
		budget: map[fault]uint8{loss: 1, extension: 1},
	},
	{name: "a reader who waits among callers of permits", processes: 4, wants: 1,
		shares: [maxProcesses]string{"", "2:1", "0:1", "2:1"}},
	{
		name: "a reader and callers of permits who wait, with loss", processes: 3, wants: 1,
		shares: [maxProcesses]string{"", "2:1", "0:1"}, budget: map[fault]uint8{loss: 1, retry: 1},
	},
	{
		name: "a reader and callers of permits who wait, and one dies", processes: 4, wants: 1,
		shares: [maxProcesses]string{"", "2:1", "0:1", "3:1"}, budget: map[fault]uint8{crash: 1},
	},
	{
		name: "a reader and callers of permits who wait, and nobody can be told", processes: 3, wants: 1,
		shares: [maxProcesses]string{"", "2:1", "0:1"}, mute: true,
	},
	{name: "far behind the first", processes: 3, wants: 1, slow: true, budget: map[fault]uint8{loss: 1}},
	{
		name: "far behind the first, and a process dies", processes: 4, wants: 1, slow: true,
		budget: map[fault]uint8{crash: 1},
	},
	{
		name:      "far behind the first, behind a stranger, and a process dies",
		processes: 2, wants: 1, slow: true, within: 2, budget: map[fault]uint8{crash: 1, taking: 1},
	},
	{
		name: "far behind the first, with callers who give up and a subscription that breaks", processes: 3,
		wants: 1, slow: true, budget: map[fault]uint8{cancel: 1, breakage: 1, retry: 1},
	},
	{
		name: "far behind the first, a reader, a writer and a reader, of whom one dies", processes: 3, wants: 1,
		slow: true, shares: [maxProcesses]string{"0:1", "", "0:1"}, budget: map[fault]uint8{crash: 1},
	},
	{
		name: "far behind the first, and a replica takes over", processes: 3, wants: 1, slow: true,
		budget: map[fault]uint8{failover: 1},
	},
	{name: "a free lock stays free for a stranger", processes: 3, wants: 1,
		budget: map[fault]uint8{barging: 1, taking: 1}},
	{name: "a free lock stays free for strangers, with loss and a call that is repeated", processes: 2, wants: 2,
		budget: map[fault]uint8{barging: 2, taking: 1, loss: 1, retry: 1}},
	{name: "a free lock stays free, and goes on within a process that dies", processes: 3, wants: 1, more: 1,
		budget: map[fault]uint8{barging: 1, handing: 1, crash: 1}},
	{name: "a free lock stays free, and callers give up or would not wait", processes: 3, wants: 1,
		budget: map[fault]uint8{barging: 1, cancel: 1, trying: 1}},
	{name: "a lock becomes free of readers, and stays free for a stranger", processes: 3, wants: 1,
		shares: [maxProcesses]string{"0:1", "", "0:1"}, budget: map[fault]uint8{barging: 2, taking: 1}},
	{name: "a lock becomes free of permits, with loss and a process that dies", processes: 3, wants: 1,
		shares: [maxProcesses]string{"2:1", "2:1", "2:2"}, budget: map[fault]uint8{barging: 1, loss: 1, crash: 1}},
	{name: "a set among locks of its keys", processes: 3, wants: 1, more: 1, apart: true,
		sets: [maxProcesses]bool{2: true}, budget: map[fault]uint8{trying: 1, retry: 1}},
	{name: "a set among locks of its keys, with loss", processes: 3, wants: 1, sets: [maxProcesses]bool{0: true},
		budget: map[fault]uint8{trying: 1, loss: 1}},
	{name: "two sets, and a process dies", processes: 3, wants: 1, sets: [maxProcesses]bool{0: true, 1: true},
		budget: map[fault]uint8{crash: 1, cancel: 1}},
	{name: "a free lock stays free, and a set wants it too", processes: 3, wants: 1,
		sets: [maxProcesses]bool{2: true}, budget: map[fault]uint8{barging: 2, taking: 1, trying: 1}},
	{
		name:      "the server's clock goes ahead or back, with loss",
		processes: 2, wants: 2, budget: map[fault]uint8{stepping: 1, loss: 1, retry: 1},
	},
	{
		name:      "the server's clock goes ahead and back, and callers give up",
		processes: 2, wants: 1, budget: map[fault]uint8{stepping: 2, cancel: 1},
	},
	{
		name:      "the server's clock goes ahead or back, and a lease is made shorter",
		processes: 2, wants: 1, budget: map[fault]uint8{stepping: 1, shortening: 1, extension: 1},
	},
	{name: "two permits, and a holder dies", processes: 4, wants: 1,
		shares: [maxProcesses]string{"2:1", "2:1", "2:1", ""}, budget: map[fault]uint8{crash: 1}},
}

// The promises hold in every world that is visited.
func TestExplore(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			f := newExplorer(t, s).explore(*states, *rest)
			t.Log(f)
			require.NoError(t, f.broken, f.story)
			require.True(t, f.complete || f.states >= *states)
		})
	}
}
