// Package slot knows the hash slot of a key in a Redis Cluster, and the names that follow from the slot:
// fence counters, queues and channels. No lock can have one of these names.
//
// It does not know whether there is a cluster, or what holds a key, and it asks no server.
package slot

import (
	"cmp"
	"slices"

	"github.com/rlock-go/toolkit/redislua"
)

// count is the number of hash slots of a Redis Cluster.
const count = 16384

// Of returns the hash slot of a key.
func Of(key string) uint16 { return redislua.Slot(key) }

// Same reports whether all keys are in one slot.
func Same(keys []string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool { return Of(key) != Of(keys[0]) })
}

// Groups returns the keys by slot, in the order of the slots. The order is the same for every caller, so
// callers that take several groups one after the other cannot deadlock. Within a group the keys keep their
// order. A script can take the keys of one group at once.
func Groups(keys []string) [][]string {
	if Same(keys) {
		return [][]string{keys}
	}
	bySlot := map[uint16][]string{}
	for _, key := range keys {
		bySlot[Of(key)] = append(bySlot[Of(key)], key)
	}
	groups := make([][]string, 0, len(bySlot))
	for _, group := range bySlot {
		groups = append(groups, group)
	}
	slices.SortFunc(groups, func(a, b []string) int { return cmp.Compare(Of(a[0]), Of(b[0])) })
	return groups
}

// KeyAt returns the key that the answer of a script names by its position, counted from 1. For a position
// outside the list, which no script of ours answers, it returns the nearest key.
func KeyAt(keys []string, position int64) string {
	return keys[min(max(position, 1), int64(len(keys)))-1]
}
