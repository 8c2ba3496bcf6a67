package chaos

import (
	"strings"
	"time"
)

// strangers are the times in which a key may have had an owner whom nobody knows:
// an acquisition that failed can have taken it for a while, and the first try of one
// that had to repeat it can come late.
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
	// cleanup is how long it takes to free what a failed acquisition has taken, while
	// nothing keeps it from doing so: the first tries may come before what they free.
	cleanup = 2 * time.Second

	// inFlight is how long a command may be under way at the most, there and back, while
	// all is well; on a busy machine as long as one was.
	inFlight = 500 * time.Millisecond
)

func (h *history) strangers() strangers {
	s, flight := strangers{}, h.longestFlight()
	asked := map[owner]event{} // those of which nothing more was told, as their process was killed
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

// longestFlight is how long a command was under way while all was well.
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

// addStranger adds the time in which an acquisition may have had its keys other than
// as it says.
func (h *history) addStranger(s strangers, e event, flight time.Duration) {
	during := span{e.Call, e.Return}
	calm, collects := h.calmDuring(e.Process, during), len(e.Keys) > 1 && !strings.HasPrefix(e.Method, "Try")
	var stay span
	switch {
	case h.lateDuring(e.Process, during): // a first try can come after the release of a second
		stay = span{e.Call, h.quietFrom(e.Process, during).add(e.TTL)}
	case e.Outcome == done && (collects || during.to.sub(during.from) > e.TTL):
		stay = during // the lease of a first try can have ended before the second got the keys
	case e.Outcome == done || e.Outcome == held && calm:
		return
	case calm && !collects && e.Outcome != failed: // it can have been at its last attempt
		stay = span{e.Return.add(-flight), e.Return.add(flight)}
	default:
		stay = span{e.Call, e.Return.add(cleanup)}
	}
	// nobody frees what came late
	if killed, ok := h.kills[e.Process]; ok && killed.from < e.Return.add(cleanup) {
		stay.to = max(stay.to, killed.to.add(e.TTL))
	}
	for _, key := range e.Keys {
		s[key] = append(s[key], stay)
	}
}
