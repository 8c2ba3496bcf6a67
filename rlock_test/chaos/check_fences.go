package chaos

import (
	"cmp"
	"fmt"
	"slices"
)

// checkFences finds grants whose fence is not larger than that of every grant of
// the key that was returned before they were asked for. No two of a key are equal.
func checkFences(grants map[string][]*grant) (found []violation) {
	for key, list := range grants {
		byCall := slices.SortedFunc(slices.Values(list), func(a, b *grant) int { return cmp.Compare(a.call, b.call) })
		var largest *grant // of those that were returned already
		seen := map[uint64]*grant{}
		next := 0 // in list, which is in the order of returns
		for _, g := range byCall {
			for ; next < len(list) && list[next].from < g.call; next++ {
				if largest == nil || list[next].fence > largest.fence {
					largest = list[next]
				}
			}
			if largest != nil && g.fence <= largest.fence {
				found = append(found, violation{"fence not larger", key, fmt.Sprintf("%v has %d, %v before it %d", g.owner, g.fence, largest.owner, largest.fence)})
			} else if twin := seen[g.fence]; twin != nil {
				found = append(found, violation{"same fence", key, fmt.Sprintf("%v and %v have %d", twin.owner, g.owner, g.fence)})
			}
			seen[g.fence] = g
		}
	}
	return found
}
