package slot_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]uint16{ // as CLUSTER KEYSLOT answers
		"":          0,
		"a":         15495,
		"123456789": 12739,
		"{a}:1":     15495,
		"x{a}{b}":   15495,
		"foo{}{a}":  7113, // an empty tag is none
	} {
		require.Equal(t, want, slot.Of(key), "%q", key)
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ keys, want string }{
		"one key":                        {"a", "a"},
		"one slot, in the order of keys": {"z{a} a b{a}", "z{a} a b{a}"},
		"in the order of slots":          {"a b c", "b|c|a"}, // 15495, 3300, 7365
		"each group in its keys' order":  {"2{a} b 1{a} 1{b}", "b 1{b}|2{a} 1{a}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys := strings.Fields(c.keys)
			var want [][]string
			for group := range strings.SplitSeq(c.want, "|") {
				want = append(want, strings.Fields(group))
			}
			require.Equal(t, want, slot.Groups(keys))
			require.Equal(t, strings.Fields(c.keys), keys, "the caller's list is as it was")
		})
	}
}

// Whoever takes overlapping sets in any order meets the others' groups in one order.
func TestGroupsHaveOneOrder(t *testing.T) {
	t.Parallel()
	var keys []string
	for i := range 1000 {
		keys = append(keys, fmt.Sprint("key:", i))
	}
	groups := slot.Groups(keys)
	require.ElementsMatch(t, keys, slices.Concat(groups...))
	last := -1
	for _, group := range groups {
		require.Greater(t, int(slot.Of(group[0])), last)
		last = int(slot.Of(group[0]))
		for _, key := range group {
			require.Equal(t, last, int(slot.Of(key)), "%q", key)
		}
	}
}

func TestKeyAt(t *testing.T) {
	t.Parallel()
	keys := []string{"a", "b", "c"}
	for position, want := range map[int64]string{1: "a", 2: "b", 3: "c", 0: "a", -7: "a", 4: "c", 1 << 62: "c"} {
		require.Equal(t, want, slot.KeyAt(keys, position), position)
	}
}

// Every slot has one counter, which is in it.
func TestFenceCounterIsInItsSlot(t *testing.T) {
	t.Parallel()
	slot.PrepareFences()
	counters := map[string]uint16{}
	for i := 0; len(counters) < 16384; i++ {
		key := fmt.Sprint(i)
		counter, of := slot.FenceCounter(key)[0], slot.Of(key)
		if former, seen := counters[counter]; slot.Of(counter) != of || seen && former != of {
			require.Fail(t, "not in the slot of its locks", "%q counts for %q", counter, key)
		}
		counters[counter] = of
	}
	for counter := range counters {
		if _, _, yes := slot.Reserved(counter); !yes {
			require.Fail(t, "a lock can have the name of a counter", "%q", counter)
		}
	}
}

// What is appended to a counter's list must not reach the next slot's name.
func TestFenceCounterIsAListOfItsOwn(t *testing.T) {
	t.Parallel()
	b := slot.FenceCounter("b")
	require.Equal(t, 1, cap(b))
}

func TestFenceCounters(t *testing.T) { // counts allocations: not in parallel
	a, b := slot.FenceCounter("a")[0], slot.FenceCounter("b")[0]
	require.Equal(t, []string{a}, slot.FenceCounters([]string{"a"}))
	require.Equal(t, []string{a, b}, slot.FenceCounters([]string{"a", "b", "1{a}", "2{b}"}))
	require.Empty(t, slot.FenceCounters(nil))

	one := []string{"a"}
	require.Zero(t, testing.AllocsPerRun(100, func() { slot.FenceCounters(one) }))
}

// The names of many keys are those of each, and cost one allocation.
func TestNamesOfMany(t *testing.T) { // counts allocations: not in parallel
	keys := []string{"a", "b", "a", "", "{a}:1", "}a{", "a\x00b", strings.Repeat("long", 100)}
	for counters := range len(keys) + 1 {
		want := []string{"before"}
		for _, key := range keys {
			want = append(want, slot.Queue(key))
		}
		for _, key := range keys[:counters] {
			want = append(want, slot.FenceCounter(key)...)
		}
		require.Equal(t, want, slot.AppendNames([]string{"before"}, keys, counters))
	}
	require.Empty(t, slot.AppendNames(nil, nil, 0))

	for i := range 1000 {
		keys = append(keys, fmt.Sprint("key", i))
	}
	names := append(make([]string, 0, 3*len(keys)), keys...)
	require.Equal(t, 1.0, testing.AllocsPerRun(100, func() { slot.AppendNames(names, names, len(keys)) }))
}

func TestReserved(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][2]string{
		"rlock:fence:{1}":          {slot.FencePrefix, "fence counters"},
		"rlock:fence:{":            {slot.FencePrefix, "fence counters"},
		"rlock:queue:{1}:job":      {"rlock:queue:{", "queues"},
		"rlock:holders:{1}:job":    {"rlock:holders:{", "holders of shared locks"},
		"rlock:grant:{1}:9f0c":     {"rlock:grant:{", "channels of grants"},
		"rlock:queue:1":            {},
		"rlock:fence:1":            {},
		"rlock:probe:1":            {},
		"my:rlock:queue:{1}:other": {},
		"":                         {},
	} {
		prefix, owner, yes := slot.Reserved(name)
		require.Equal(t, want, [2]string{prefix, owner}, name)
		require.Equal(t, want[0] != "", yes, name)
	}
}

// A queue is in the slot of its key, whatever braces the key has, and no two keys share one. No
// lock can have the name of a queue or of a channel.
func TestQueueIsInTheSlotOfItsKey(t *testing.T) { // not parallel: it counts allocations
	require.Equal(t, "rlock:queue:{20200}:{a}:1", slot.Queue("{a}:1"))
	require.Zero(t, testing.AllocsPerRun(100, func() { slot.Queue("{a}:1") }), "the last names are kept")
	queues := map[string]string{}
	for _, key := range []string{"a", "{a}:1", "}a{", "{}", "{", "}", "", "{a", "a}", "{}:{}", "{{a}}", "1}:a",
		"rlock:queue:{1}:a", "a\x00b"} {
		queue := slot.Queue(key)
		require.Equal(t, slot.Of(key), slot.Of(queue), "%q", key)
		require.NotContains(t, queues, queue, "%q", key)
		queues[queue] = key
		require.Equal(t, slot.Of(key), slot.Of(slot.Grants(key)), "%q", key)
		require.Equal(t, slot.Of(key), slot.Of(slot.NamesOf(key).Holders), "%q", key)
		for _, name := range []string{
			queue, slot.NamesOf(key).Holders, slot.AllGrants + "some process", slot.Grants(key) + "some process",
		} {
			_, _, yes := slot.Reserved(name)
			require.True(t, yes, name)
		}
	}
}
