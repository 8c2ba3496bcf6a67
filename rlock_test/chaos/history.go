package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// history is what the processes of a round have told, together with the faults.
type history struct {
	keeps        bool // all faults kept the data
	events       []event
	disturbances []disturbance
	kills        map[int]span
	calm         instant // end of the last fault
}

// violation is something that must not happen.
type violation struct{ check, key, text string }

func (v violation) String() string { return fmt.Sprintf("%s: %s: %s", v.check, v.key, v.text) }

// owner names an acquisition. A token may pass from one acquisition to the next, an owner does not.
type owner struct{ process, lock int }

func (o owner) String() string { return fmt.Sprintf("%d/%d", o.process, o.lock) }

// grant is one key of a successful acquisition.
type grant struct {
	owner
	key      string
	call     instant // of the acquisition
	from     instant // its return; the holder is valid from here
	until    instant // last instant at which the holder was valid for certain
	deadline instant // of the lease, as the server last confirmed it
	over     instant // from here the key may be free: the lease may have ended, or a release has begun
	gone     instant // from here the server has nothing of the grant
	fence    uint64
	ttl      time.Duration
	released bool // a release said that the key is free
	freed    bool // and the release itself freed the key
	share    share
}

// grants returns the grants of every key, in the order of their returns.
func (h *history) grants() map[string][]*grant {
	byKey := map[string][]*grant{}
	byOwner := map[owner][]*grant{}
	for _, e := range h.events {
		if e.Kind != acquired || e.Outcome != done {
			continue
		}
		for _, key := range e.Keys {
			g := &grant{
				owner: owner{e.Process, e.Lock}, key: key, fence: e.Fence, ttl: e.TTL, share: e.Share,
				call: e.Call, from: e.Return, until: never, deadline: e.Deadline, over: never, gone: e.Return,
			}
			byKey[key] = append(byKey[key], g)
			byOwner[g.owner] = append(byOwner[g.owner], g)
		}
	}
	for _, e := range h.events {
		for _, g := range byOwner[owner{e.Process, e.Lock}] {
			h.follow(g, e)
		}
	}
	for _, list := range byKey {
		for _, g := range list {
			h.finish(g)
		}
		slices.SortFunc(list, func(a, b *grant) int { return cmp.Compare(a.from, b.from) })
	}
	return byKey
}

// follow applies an event to a grant.
func (h *history) follow(g *grant, e event) {
	g.gone = max(g.gone, e.Return)
	switch e.Kind {
	case extended:
		g.deadline, g.ttl = e.Deadline, max(g.ttl, e.TTL)
	case ending:
		g.until = e.Until
		if e.Outcome == done {
			g.over = e.Call
		}
	case released:
		g.deadline, g.released, g.freed = e.Deadline, e.Outcome == done, h.freedAtOnce(e)
	}
}

// freedAtOnce reports whether a release certainly freed the key between its call and its return. A
// release whose reply was lost also succeeds if the key is already free.
func (h *history) freedAtOnce(e event) bool {
	return e.Kind == released && e.Outcome == done && h.calmDuring(e.Process, span{e.Call, e.Return})
}

// finish fills in what no event has told.
func (h *history) finish(g *grant) {
	if killed, ok := h.kills[g.process]; ok {
		if g.until == never {
			// The process may have been about to shorten the lease.
			g.until, g.over = min(g.gone, g.deadline), g.gone
		}
		g.gone = max(g.gone, killed.to)
	}
	g.over = min(g.over, g.deadline)
	if g.freed || g.released && !h.lateDuring(g.process, span{g.call, g.gone}) {
		return
	}
	g.gone = h.quietFrom(g.process, span{g.call, g.gone}).add(g.ttl)
}

// aftermath is the time after a fault in which its delayed commands may still arrive. In the same
// time, the processes notice its broken connections.
const aftermath = time.Second

// quietFrom returns when nothing that a process did in s can be under way. A fault may keep
// commands from the server until the fault ends.
func (h *history) quietFrom(process int, s span) instant {
	end := s.to
	for _, d := range h.disturbances {
		if d.late && d.concerns(process, s) {
			end = max(end, d.to)
		}
	}
	return end.add(aftermath)
}

// lateDuring reports whether a fault that can delay commands was on.
func (h *history) lateDuring(process int, s span) bool {
	return slices.ContainsFunc(h.disturbances,
		func(d disturbance) bool { return d.late && d.concerns(process, s) })
}

// calmDuring reports whether no fault can have affected an operation. Then no fault is on, and no
// fault has just ended.
func (h *history) calmDuring(process int, s span) bool {
	return !slices.ContainsFunc(h.disturbances, func(d disturbance) bool {
		return !d.harmless && d.concerns(process, span{s.from.add(-aftermath), s.to})
	})
}
