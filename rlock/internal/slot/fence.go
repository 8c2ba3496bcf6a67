package slot

import "sync"

// fenceCounters returns the name of the fence counter of every slot. The counter is in the slot itself.
// There are at most 16,384 counters, however many locks there are.
var fenceCounters = sync.OnceValue(func() *[count]string {
	names := *tags()
	for slot, tag := range names {
		names[slot] = FencePrefix + tag + "}"
	}
	return &names
})

// PrepareFences builds the table of the names of all fence counters. That takes some milliseconds once a
// process, which the first call of FenceCounter then saves.
func PrepareFences() { fenceCounters() }

// FenceCounter returns the name of the counter of a key's fences, as a list of one. The list must not be
// changed. The name depends only on the key's slot, so all takers of the key use the same counter.
func FenceCounter(key string) []string {
	slot := Of(key)
	return fenceCounters()[slot : slot+1 : slot+1]
}

// FenceCounters returns the names of the counters for the fences of a set. Each name is there once, in the
// order of the keys. The list must not be changed.
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
