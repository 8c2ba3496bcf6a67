package chaos

import (
	"fmt"
	"slices"
	"time"
)

// checkHolders finds holders of one key that were valid at the same time although one of them had the
// whole lock, or they wanted it shared in different ways; and more permits than there are. It returns
// how often that was. Only where the data was kept is it a violation.
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

// beside returns what is wrong when a grant begins while others are valid.
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
	// The last of them who was let in saw no more than its own limit. Which one that is, nobody knows.
	if g.share.Limit > 0 && permits > limit {
		return violation{check: "too many permits",
			text: fmt.Sprintf("%v got %d of %d permits at %d, beside%s", g.owner, g.share.Permits, g.share.Limit,
				g.from, names)}
	}
	return violation{}
}

// checkWrites finds writes to the fenced resource that were refused although their
// writer was valid before and after.
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

// checkLosses finds locks that were called lost before their lease was over, and
// returns how many losses were noticed.
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

// checkProgress finds keys that a locker could not have, or only late, although the
// faults were over and nobody can have had them. It returns the longest wait.
func (h *history) checkProgress(grants map[string][]*grant) (longest time.Duration, found []violation) {
	free := map[string]instant{} // from when on a key must be
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
