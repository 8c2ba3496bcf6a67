package chaos

import (
	"fmt"
	"slices"
	"time"
)

// checkHolders finds two kinds of overlaps of valid holders of one key. In the first kind, one
// holder has the whole lock, or the holders share the key in different ways. In the second kind,
// the holders have more permits than there are. checkHolders returns the number of overlaps. An
// overlap is a violation only where the data was kept.
func (h *history) checkHolders(grants map[string][]*grant) (overlaps int, found []violation) {
	for key, list := range grants {
		var valid []*grant
		for _, g := range list {
			if g.from >= g.until {
				continue
			}
			valid = slices.DeleteFunc(valid, func(other *grant) bool { return other.until <= g.from })
			if v := g.beside(valid); v.check != "" {
				overlaps++
				v.key = key
				found = append(found, v)
			}
			valid = append(valid, g)
		}
	}
	if !h.keeps {
		found = nil
	}
	return overlaps, found
}

// beside returns what is wrong when a grant begins while other grants are valid.
func (g *grant) beside(others []*grant) (v violation) {
	permits, limit, names := g.share.Permits, g.share.Limit, ""
	for _, other := range others {
		if !g.share.together(other.share) {
			return violation{check: "two holders",
				text: fmt.Sprintf("%v %v had it until %d, %v %v from %d: %v at once",
					other.owner, other.share, other.until, g.owner, g.share, g.from, min(other.until, g.until).sub(g.from))}
		}
		permits, limit = permits+other.share.Permits, max(limit, other.share.Limit)
		names += fmt.Sprintf(" %v (%d)", other.owner, other.share.Permits)
	}
	// The last holder let in saw no more permits than its own limit. Nobody knows which holder was
	// last.
	if g.share.Limit > 0 && permits > limit {
		return violation{check: "too many permits",
			text: fmt.Sprintf("%v got %d of %d permits at %d, beside%s", g.owner, g.share.Permits, g.share.Limit,
				g.from, names)}
	}
	return violation{}
}

// checkWrites finds writes that the fenced resource refused although the writer was valid before
// and after the write.
func (h *history) checkWrites() (refused int, found []violation) {
	for _, e := range h.events {
		if e.Kind != wrote || e.Outcome != "" || e.Accepted {
			continue
		}
		refused++
		if e.Valid && h.keeps {
			found = append(found, violation{"valid write refused", e.Keys[0],
				fmt.Sprintf("%v with fence %d, called at %d", owner{e.Process, e.Lock}, e.Fence, e.Call)})
		}
	}
	return refused, found
}

// checkLosses finds locks that were reported lost before their lease ended. It returns the number
// of losses that holders noticed.
func (h *history) checkLosses() (losses int, found []violation) {
	for _, e := range h.events {
		if e.Outcome != lost {
			continue
		}
		losses++
		if h.keeps && e.Return < e.Deadline {
			found = append(found, violation{"lost too early", e.Keys[0],
				fmt.Sprintf("%v was told so by %s %v before its lease was over", owner{e.Process, e.Lock}, e.Method,
					e.Deadline.sub(e.Return))})
		}
	}
	return losses, found
}

// checkProgress finds keys that a locker could not get, or got late, although the faults were over
// and the key had no owner. It returns the longest wait.
func (h *history) checkProgress(grants map[string][]*grant) (longest time.Duration, found []violation) {
	free := map[string]instant{} // from this instant the key must be free
	for key, list := range grants {
		for _, g := range list {
			free[key] = max(free[key], g.gone)
		}
	}
	for key, stays := range h.strangers() {
		for _, stay := range stays {
			free[key] = max(free[key], stay.to)
		}
	}
	for _, e := range h.events {
		if e.Kind != reached {
			continue
		}
		if e.Outcome != done {
			found = append(found, violation{"no progress", e.Keys[0],
				fmt.Sprintf("process %d: %s %s", e.Process, e.Outcome, e.Error)})
		} else if late := e.Return.sub(max(e.Call, free[e.Keys[0]])); late > recovery {
			found = append(found, violation{"no progress", e.Keys[0], fmt.Sprintf("process %d had it %v after it "+
				"must have been free", e.Process, late)})
		}
		longest = max(longest, e.Return.sub(e.Call))
	}
	return longest, found
}
