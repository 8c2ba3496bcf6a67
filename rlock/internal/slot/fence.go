package slot

import "sync"

// fenceCounters returns the name of the fence counter of every slot, which is in the slot
// itself. There are at most 16,384 counters, however many locks there are.
var fenceCounters = sync.OnceValue(func() *[count]string {
	names := *tags()
	for slot, tag := range names {
		names[slot] = FencePrefix + tag + "}"
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
