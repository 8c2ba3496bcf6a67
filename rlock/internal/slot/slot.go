// Package slot knows which hash slot of a Redis Cluster a key is in, and the names that
// follow from it: those of fence counters, queues and channels, which no lock can have.
//
// It never knows whether there is a cluster, nor what holds a key, and asks no server.
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

// Groups returns the keys by slot, in the order of slots, which is the same for every
// caller: those who take several groups one after the other cannot deadlock. Within a
// group the keys keep their order. Keys of one slot, which a script can take at once, are
// one group.
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

// KeyAt returns the key that a script's answer names by its position, which counts from
// 1. A position outside the list, which no script of ours answers, names the key that is
// nearest to it.
func KeyAt(keys []string, position int64) string {
	return keys[min(max(position, 1), int64(len(keys)))-1]
}
