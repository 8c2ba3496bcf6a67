package chaos

import (
	"cmp"
	"fmt"
	"slices"
)

// checkFences finds a grant whose fence is not larger than the fence of every earlier grant of the
// key. An earlier grant returns before the acquisition of the later grant begins. Two grants of a
// key have equal fences only if they share the key in one phase. A server that loses data may
// return to an earlier phase. The grants that share the key then have the fence of the earlier
// phase.
func (h *history) checkFences(grants map[string][]*grant) (found []violation) {
	for key, list := range grants {
		byCall := slices.SortedFunc(slices.Values(list),
			func(a, b *grant) int { return cmp.Compare(a.call, b.call) })
		var largest *grant // of the grants that have returned
		seen := map[uint64][]*grant{}
		next := 0 // index in list, which is in the order of returns
		for _, g := range byCall {
			for ; next < len(list) && list[next].from < g.call; next++ {
				if largest == nil || list[next].fence > largest.fence {
					largest = list[next]
				}
			}
			older := largest != nil && g.fence < largest.fence && (h.keeps || g.share.whole())
			if older || largest != nil && g.fence == largest.fence && !g.inPhaseOf(largest) {
				found = append(found, violation{"fence not larger", key,
					fmt.Sprintf("%v %v has %d, %v %v before it %d", g.owner, g.share, g.fence, largest.owner, largest.share,
						largest.fence)})
			} else if at := slices.IndexFunc(
				seen[g.fence], func(other *grant) bool { return !g.inPhaseOf(other) }); at >= 0 {
				twin := seen[g.fence][at]
				found = append(found, violation{"same fence", key,
					fmt.Sprintf("%v %v and %v %v have %d", twin.owner, twin.share, g.owner, g.share, g.fence)})
			}
			seen[g.fence] = append(seen[g.fence], g)
		}
	}
	return found
}

// inPhaseOf reports whether two grants may have the same fence: they share the key in one phase.
func (g *grant) inPhaseOf(other *grant) bool {
	return !g.share.whole() && !other.share.whole() && g.share.together(other.share)
}
