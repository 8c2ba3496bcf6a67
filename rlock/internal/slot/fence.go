package slot

import (
	"strconv"
	"strings"
	"sync"
)

// FencePrefix starts the names of all fence counters, and of nothing else.
const FencePrefix = "rlock:fence:{"

// reserved are the starts of names that no lock can have, and what has them.
var reserved = [...][2]string{
	{FencePrefix, "fence counters"},
}

// Reserved reports whether no lock can have the name: with what it starts then, and what
// names with this start belong to.
func Reserved(name string) (prefix, owner string, yes bool) {
	for _, r := range reserved {
		if strings.HasPrefix(name, r[0]) {
			return r[0], r[1], true
		}
	}
	return "", "", false
}

// fenceCounters returns the name of the fence counter of every slot. A counter
// must be in the slot of the locks that it counts for, so its hash tag is the
// smallest number, in decimal, of that slot. Building a tag out of the lock's own
// key instead would fail for keys with braces in them.
//
// There are at most 16,384 counters, however many locks there are.
var fenceCounters = sync.OnceValue(func() *[count]string {
	var names [count]string
	var digits [8]byte
	for n, found := 0, 0; found < count; n++ {
		tag := strconv.AppendInt(digits[:0], int64(n), 10)
		if slot := Of(string(tag)); names[slot] == "" {
			names[slot] = FencePrefix + string(tag) + "}"
			found++
		}
	}
	return &names
})

// PrepareFences builds the table of all fence counters' names, which takes some
// milliseconds once a process, so that the first call of FenceCounter does not.
func PrepareFences() { fenceCounters() }

// FenceCounter returns the name of the counter that a key's fences come from, as a list
// of one, which nobody may change. It depends on nothing but the key's slot: everybody
// who takes the key counts there.
func FenceCounter(key string) []string {
	slot := Of(key)
	return fenceCounters()[slot : slot+1 : slot+1]
}

// FenceCounters returns the names of the counters that the fences of a set of keys come
// from, each once, in the order of the keys. Nobody may change the list.
func FenceCounters(keys []string) []string {
	if len(keys) == 1 {
		return FenceCounter(keys[0])
	}
	var names []string
	seen := make(map[uint16]struct{}, 1)
	for _, key := range keys {
		slot := Of(key)
		if _, known := seen[slot]; !known {
			seen[slot] = struct{}{}
			names = append(names, fenceCounters()[slot])
		}
	}
	return names
}
