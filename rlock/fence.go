package rlock

import (
	"strconv"
	"sync"

	"github.com/rlock-go/toolkit/gen"
)

// fencePrefix starts the names of all fence counters, and of nothing else.
const fencePrefix = "rlock:fence:{"

// slots is the number of hash slots of a Redis Cluster.
const slots = 16384

// fenceCounters returns the name of the fence counter of every slot. A counter
// must be in the slot of the locks that it counts for, so its hash tag is the
// smallest number, in decimal, of that slot. Building a tag out of the lock's own
// key instead would fail for keys with braces in them.
//
// There are at most 16,384 counters, however many locks there are.
var fenceCounters = sync.OnceValue(func() *[slots]string {
	var names [slots]string
	var digits [8]byte
	for n, found := 0, 0; found < slots; n++ {
		tag := strconv.AppendInt(digits[:0], int64(n), 10)
		if slot := gen.Slot(string(tag)); names[slot] == "" {
			names[slot] = fencePrefix + string(tag) + "}"
			found++
		}
	}
	return &names
})

// fenceCounter returns the name of the counter that a key's fences come from, as
// a part of the table. It depends on nothing but the key's slot: whoever takes the
// key counts there.
func fenceCounter(key string) []string {
	slot := gen.Slot(key)
	return fenceCounters()[slot : slot+1 : slot+1]
}

// countersOf returns the counters of a set, each once.
func countersOf(keys []string) []string {
	var counters []string
	seen := make(map[string]struct{}, 1)
	for _, key := range keys {
		name := fenceCounter(key)[0]
		if _, known := seen[name]; !known {
			seen[name] = struct{}{}
			counters = append(counters, name)
		}
	}
	return counters
}
