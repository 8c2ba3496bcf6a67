package chaos

import (
	"strings"
	"time"
)

// strangers are the times in which a key may have had an owner that the history does not tell. An
// acquisition that failed may have had the key for a while. The first try of a repeated acquisition
// may come late.
type strangers map[string][]span

func (s strangers) meet(key string, during span) bool {
	for _, stay := range s[key] {
		if stay.meets(during) {
			return true
		}
	}
	return false
}

const (
	// cleanup is the time that it takes to free what a failed acquisition has taken, while no fault
	// prevents it. The first attempts to free may arrive before the acquisition that they undo.
	cleanup = 2 * time.Second

	// inFlight is the longest time that a command is under way, there and back, while all is well.
	// On a busy machine, longestFlight may be longer.
	inFlight = 500 * time.Millisecond
)

func (h *history) strangers() strangers {
	s, flight := strangers{}, h.longestFlight()
	asked := map[owner]event{} // acquisitions of which a killed process told no more
	for _, e := range h.events {
		switch who := (owner{e.Process, e.Lock}); e.Kind {
		case asking:
			e.Return, e.Outcome = h.kills[e.Process].to, failed
			asked[who] = e
		case acquired:
			delete(asked, who)
			h.addStranger(s, e, flight)
		}
	}
	for _, e := range asked {
		h.addStranger(s, e, flight)
	}
	return s
}

// longestFlight is the longest time that a command was under way while all was well.
func (h *history) longestFlight() time.Duration {
	longest := inFlight
	for _, e := range h.events {
		once := e.Kind == acquired && e.Outcome == held && e.Method == "TryAcquire"
		if once && h.calmDuring(e.Process, span{e.Call, e.Return}) {
			longest = max(longest, e.Return.sub(e.Call))
		}
	}
	return longest
}

// addStranger adds the time in which an acquisition may have had its keys in another way than it
// says.
func (h *history) addStranger(s strangers, e event, flight time.Duration) {
	during := span{e.Call, e.Return}
	calm, collects := h.calmDuring(e.Process, during), len(e.Keys) > 1 && !strings.HasPrefix(e.Method, "Try")
	var stay span
	switch {
	case h.lateDuring(e.Process, during): // a first try can come after the release of a second try
		stay = span{e.Call, h.quietFrom(e.Process, during).add(e.TTL)}
	case e.Outcome == done && (collects || during.to.sub(during.from) > e.TTL):
		stay = during // the lease of a first try can have ended before the second try got the keys
	case e.Outcome == done || e.Outcome == held && calm:
		return
	case calm && !collects && e.Outcome != failed: // its last attempt may have had the keys
		stay = span{e.Return.add(-flight), e.Return.add(flight)}
	default:
		stay = span{e.Call, e.Return.add(cleanup)}
	}
	// Nobody frees what came late.
	if killed, ok := h.kills[e.Process]; ok && killed.from < e.Return.add(cleanup) {
		stay.to = max(stay.to, killed.to.add(e.TTL))
	}
	for _, key := range e.Keys {
		s[key] = append(s[key], stay)
	}
}
