package chaos

import "time"

// strangers are the times in which a key may have had an owner whom nobody knows:
// an acquisition that failed, or whose process was killed, can have taken it for a
// while.
type strangers map[string][]span

func (s strangers) add(key string, from, to instant) { s[key] = append(s[key], span{from, to}) }

func (s strangers) meet(key string, during span) bool {
	for _, stay := range s[key] {
		if stay.meets(during) {
			return true
		}
	}
	return false
}

// cleanup is how long it takes to free what a failed acquisition has taken, while
// nothing keeps it from doing so.
const cleanup = 2 * time.Second

func (h *history) strangers() strangers {
	s := strangers{}
	all := map[string]bool{}
	for _, e := range h.events {
		for _, key := range e.Keys {
			all[key] = true
			during := span{e.Call, e.Return}
			switch {
			case e.Kind != acquired:
			case e.Outcome == done && len(e.Keys) > 1: // it can have collected its keys before
				s.add(key, e.Call, e.Return)
			case e.Outcome == done || e.Outcome == held && h.calmDuring(during):
			case h.lateDuring(during):
				s.add(key, e.Call, h.quietFrom(during).add(e.TTL+h.recovery))
			case h.calmDuring(during):
				s.add(key, e.Call, e.Return.add(cleanup/2))
			default:
				s.add(key, e.Call, e.Return.add(cleanup))
			}
		}
	}
	for _, killed := range h.kills {
		for key := range all {
			s.add(key, killed.from.add(-longestWait), h.quietFrom(killed).add(h.longest+h.recovery))
		}
	}
	return s
}
