package chaos

import (
	"cmp"
	"fmt"
	"slices"
)

// checkFences finds grants whose fence is not larger than that of every grant of
// the key that was returned before they were asked for. No two of a key are equal, but for those who
// share it in one phase. Where data was lost, the server may have an earlier phase back, and who shares
// the key then has the fence of that.
func (h *history) checkFences(grants map[string][]*grant) (found []violation) {
	for key, list := range grants {
		byCall := slices.SortedFunc(slices.Values(list),
			func(a, b *grant) int { return cmp.Compare(a.call, b.call) })
		var largest *grant // of those that were returned already
		seen := map[uint64][]*grant{}
		next := 0 // in list, which is in the order of returns
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
