package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Times in these histories are in milliseconds, and every lease is a second long.
const (
	ms    = instant(time.Millisecond)
	lease = 1000
)

// story is a history that a test tells.
type story struct{ history }

// The first number of each is the process; an acquisition is the only one of its
// process unless lock says otherwise.

func (s *story) tell(e event, process int) *story {
	e.Process = process
	if e.Lock == 0 {
		e.Lock = 1
	}
	if e.Keys == nil {
		e.Keys = []string{"job"}
	}
	e.Call, e.Return, e.Until, e.Deadline = e.Call*ms, e.Return*ms, e.Until*ms, e.Deadline*ms
	s.events = append(s.events, e)
	return s
}

func (s *story) acquires(process int, call, from instant, fence uint64) *story {
	return s.tell(event{
		Kind: acquired, Method: "TryAcquire", Outcome: done, Call: call, Return: from, Deadline: call + lease,
		Fence: fence, TTL: time.Duration(lease * ms),
	}, process)
}

var reader, permit = share{Permits: 1}, share{Limit: 2, Permits: 1}

// shares has a process take a share of the key "{t}0", for which nobody waits.
func (s *story) shares(process int, call, from instant, fence uint64, what share) *story {
	s.acquires(process, call, from, fence)
	e := &s.events[len(s.events)-1]
	e.Share, e.Method = what, "TryAcquireShared"
	return s
}

// of says what the last event was about.
func (s *story) of(what share) *story {
	s.events[len(s.events)-1].Share = what
	return s
}

// calm names the key of all events, of which nobody waits for a share.
func (s *story) calm() *story {
	for i := range s.events {
		s.events[i].Keys = []string{"{t}0"}
	}
	return s
}

func (s *story) isRefused(process int, call, end instant, how outcome) *story {
	return s.tell(event{Kind: acquired, Method: "TryAcquire", Outcome: how, Call: call, Return: end,
		TTL: time.Duration(lease * ms)}, process)
}

func (s *story) extends(process int, call, end instant, how outcome) *story {
	return s.tell(event{Kind: extended, Outcome: how, Call: call, Return: end, Deadline: call + lease,
		TTL: time.Duration(lease * ms)}, process)
}

func (s *story) stops(process int, at, until instant, how outcome) *story {
	return s.tell(event{Kind: ending, Outcome: how, Call: at, Return: at, Until: until}, process)
}

func (s *story) releases(process int, call, end instant, how outcome) *story {
	return s.stops(process, call, call,
		done).tell(event{Kind: released, Outcome: how, Call: call, Return: end, Deadline: call + lease}, process)
}

func (s *story) writes(process int, accepted, valid bool) *story {
	return s.tell(event{Kind: wrote, Fence: uint64(process), Accepted: accepted, Valid: valid}, process)
}

func (s *story) fault(from, to instant, late bool) *story {
	s.disturbances = append(s.disturbances, disturbance{span{from * ms, to * ms}, "fault", 0, late, false})
	return s
}

func (s *story) loses() *story { s.keeps = false; return s }

func (s *story) kills(process int, at instant) *story {
	s.history.kills = map[int]span{process: {at * ms, at * ms}}
	return s
}

func TestExamine(t *testing.T) {
	start := func() *story {
		return &story{history{keeps: true}}
	}
	for name, c := range map[string]struct {
		story *story
		want  []string // checks that find something
	}{
		"nothing": {start(), nil},
		"one after the other": {start().
			acquires(1, 0, 10, 1).extends(1, 20, 30, done).writes(1, true, true).releases(1, 40, 50, done).
			acquires(2, 45, 55, 2).releases(2, 60, 70, done), nil},
		"passed on while another waits": {start().
			acquires(1, 0, 10, 1).isRefused(3, 5, 20, held).releases(1, 20, 40, done).
			acquires(2, 1, 30, 2).isRefused(4, 41, 42, held).releases(2, 50, 60, done), nil},
		"after the lease": {start().
			acquires(1, 0, 10, 1).stops(1, 1000, 999, abandoned).acquires(2, 1000, 1001, 2).releases(2, 1010, 1020,
			done), nil},
		"over when it was returned": {start().
			acquires(1, 0, 1500, 1).acquires(2, 1200, 1400, 2).releases(2, 1410, 1420, done).stops(1, 1510, 1500,
			abandoned), nil},
		"refused while a failing acquisition was under way": {start().
			isRefused(1, 10, 1200, failed).isRefused(2, 100, 110, held), nil},
		"refused while the first try of a call that lasts longer than its lease may have it": {start().
			tell(event{
				Kind: acquired, Method: "TryAcquire", Outcome: done, Call: 0, Return: 1500, Deadline: 2000, Fence: 2,
				TTL: time.Duration(lease * ms),
			}, 1).
			isRefused(2, 300, 350, held).acquires(3, 1100, 1150, 1).releases(3, 1160, 1200, done), nil},
		"refused behind one who gave up, on a busy machine": {start().
			isRefused(1, 0, 1000, gaveUp).isRefused(2, 200, 1300, held).isRefused(3, 1700, 1800, held), nil},
		"a late release": {start().
			acquires(1, 0, 10, 1).acquires(2, 900, 1001, 2).releases(2, 1010, 1020, done).
			stops(1, 1100, 999, done).tell(
			event{Kind: released, Outcome: notHeld, Call: 1100, Return: 1110, Deadline: 1000}, 1), nil},
		"a lost reply of a release": {start().fault(20, 30, false).
			acquires(1, 0, 10, 1).releases(1, 20, 500, failed).acquires(2, 25, 40, 2).releases(2, 50, 60, done), nil},
		"refused by a stranger": {start().fault(0, 100, true).
			isRefused(1, 10, 20, failed).isRefused(2, 1500, 1510, held), nil},
		"refused after the death of one who gave up": {start().kills(1, 900).
			isRefused(1, 10, 20, gaveUp).isRefused(2, 1500, 1510, held),
			nil},
		"a killed holder": {start().kills(1, 30).
			acquires(1, 0, 10, 1).isRefused(2, 500, 510, held).acquires(2, 900, 1000, 2).releases(2, 1010, 1020, done),
			nil},

		"two holders": {start().
			acquires(1, 0, 10, 1).acquires(2, 20, 30, 2).releases(2, 40, 50, done).releases(1, 60, 70, done),
			[]string{"two holders", "no order"}},
		"two holders, where that can be": {start().loses().
			acquires(1, 0, 10, 1).acquires(2, 20, 30, 2).releases(2, 40, 50, done).releases(1, 60, 70, done), nil},
		"given before the lease was over": {start().
			acquires(1, 0, 10, 1).acquires(2, 900, 990, 2).releases(2, 1010, 1020, done).stops(1, 1010, 999,
			abandoned),
			[]string{"two holders", "no order"}},
		"given again before the release": {start().
			acquires(1, 0, 10, 1).acquires(2, 20, 30, 2).releases(2, 31, 32, done).stops(1, 40, 15, abandoned),
			[]string{"no order"}},
		"refused by nobody": {start().
			acquires(1, 0, 10, 1).releases(1, 20, 30, done).isRefused(2, 40, 50, held),
			[]string{"no order"}},
		"refused after a failure that leaves nothing": {start().
			isRefused(1, 10, 20, gaveUp).isRefused(2, 1500, 1510, held),
			[]string{"no order"}},
		"refused long after the death of one who gave up": {start().kills(1, 900).
			isRefused(1, 10, 20, gaveUp).isRefused(2, 8000, 8010, held),
			[]string{"no order"}},
		"refused long after a killed holder": {start().kills(1, 30).
			acquires(1, 0, 10, 1).isRefused(2, 8000, 8010, held),
			[]string{"no order"}},
		"extended after a release": {start().
			acquires(1, 0, 10, 1).releases(1, 20, 30, done).extends(1, 40, 50, done),
			[]string{"no order"}},
		"released twice": {start().
			acquires(1, 0, 10, 1).releases(1, 20, 30, done).releases(1, 40, 50, done),
			[]string{"no order"}},
		"lost while the lease lasts": {start().
			acquires(1, 0, 10, 1).extends(1, 20, 30, lost),
			[]string{"lost too early", "no order"}},

		"valid writer refused": {start().acquires(1, 0, 10, 1).writes(1, false, true).releases(1, 20,
			30, done), []string{"valid write refused"}},
		"stale writer refused": {start().acquires(1, 0, 10, 1).writes(1, false, false).releases(1, 20,
			30, done), nil},
		"valid writer refused after a loss": {start().loses().acquires(1, 0, 10, 1).writes(1, false,
			true).releases(1, 20, 30, done), nil},

		"a smaller fence": {start().acquires(1, 0, 10, 2).releases(1, 20, 30, done).acquires(2, 40, 50,
			1).releases(2, 60, 70, done), []string{"fence not larger"}},
		"a smaller fence after a loss": {start().loses().acquires(1, 0, 10, 2).releases(1, 20, 30, done).acquires(2,
			40, 50, 1).releases(2, 60, 70, done), []string{"fence not larger"}},
		"the same fence": {start().loses().acquires(1, 0, 20, 2).releases(1, 30, 40, done).acquires(2, 10,
			30, 2).releases(2, 60, 70, done), []string{"same fence"}},
		"a smaller fence, at once": {start().loses().acquires(1, 0, 20, 2).releases(1, 30, 40, done).acquires(2, 10,
			30, 1).releases(2, 60, 70, done), nil},
		"a fence below one long ago": {start().
			acquires(1, 0, 10, 9).releases(1, 20, 30, done).acquires(2, 40, 50, 10).releases(2, 60, 70,
			done).acquires(3, 80, 90, 9).releases(3, 100, 110, done),
			[]string{"fence not larger"}},

		"readers and then a writer": {start().
			shares(1, 0, 10, 1, reader).shares(2, 5, 15, 1, reader).shares(3, 12, 20, 1, reader).writes(1, true, true).
			releases(1, 21, 30, done).releases(2, 31, 40, done).isRefused(4, 35, 36, held).releases(3, 41, 50, done).
			acquires(5, 45, 55, 2).releases(5, 60, 70, done), nil},
		"as many permits as there are": {start().
			shares(1, 0, 10, 1, permit).shares(2, 5, 15, 1, permit).isRefused(3, 16, 17, held).of(permit).
			releases(1, 20, 30, done).shares(4, 18, 31, 1, permit).releases(2, 32, 33, done).releases(4, 34, 35,
			done).calm(), nil},
		"a permit whose holder is dead": {start().kills(1, 30).
			shares(1, 0, 10, 1, permit).shares(2, 5, 15, 1, permit).releases(2, 16, 20, done).shares(3, 18, 30, 1,
			permit).
			shares(4, 1000, 1010, 1, permit).releases(3, 1011, 1012, done).releases(4, 1013, 1014, done), nil},
		"another limit": {start().
			shares(1, 0, 10, 1, permit).shares(2, 5, 15, 1, permit).shares(3, 16, 17, 1, share{Limit: 3, Permits: 1}).
			isRefused(4, 18, 19, held).of(permit).
			releases(1, 20, 30, done).releases(2, 31, 32, done).releases(3, 33, 34, done).calm(), nil},

		"a writer among readers": {start().
			shares(1, 0, 10, 1, reader).acquires(2, 20, 30, 2).releases(2, 40, 50, done).releases(1, 60, 70, done),
			[]string{"two holders", "no order"}},
		"a reader beside a writer": {start().
			acquires(1, 0, 10, 1).shares(2, 20, 30, 2, reader).releases(2, 40, 50, done).releases(1, 60, 70, done),
			[]string{"two holders", "no order"}},
		"a permit too many": {start().
			shares(1, 0, 10, 1, permit).shares(2, 5, 15, 1, permit).shares(3, 16, 20, 1, permit).
			releases(1, 21, 30, done).releases(2, 31, 40, done).releases(3, 41, 50, done),
			[]string{"too many permits", "no order"}},
		"a reader beside a permit": {start().
			shares(1, 0, 10, 1, permit).shares(2, 20, 30, 2, reader).releases(2, 40, 50, done).releases(1, 60, 70,
			done),
			[]string{"two holders", "no order"}},
		"a reader in the phase of a writer": {start().
			acquires(1, 0, 10, 1).releases(1, 20, 30, done).shares(2, 40, 50, 1, reader).releases(2, 60, 70, done),
			[]string{"fence not larger"}},
		"a reader in a phase that was over": {start().
			shares(1, 0, 10, 1, reader).releases(1, 20, 30, done).acquires(2, 40, 50, 2).releases(2, 60, 70, done).
			shares(3, 80, 90, 1, reader).releases(3, 100, 110, done),
			[]string{"fence not larger"}},
		"a reader in a phase that a server had back": {start().loses().
			shares(1, 0, 10, 1, reader).releases(1, 20, 30, done).acquires(2, 40, 50, 2).releases(2, 60, 70, done).
			shares(3, 80, 90, 1, reader).releases(3, 100, 110, done), nil},
		"refused a free permit": {start().
			shares(1, 0, 10, 1, permit).isRefused(3, 16, 17, held).of(permit).releases(1, 20, 30, done).calm(),
			[]string{"no order"}},
		"a reader who is not there any more": {start().
			shares(1, 0, 10, 1, reader).shares(2, 5, 15, 1, reader).releases(1, 20, 30, done).extends(1, 40, 50,
			done).releases(2, 60, 70, done),
			[]string{"no order"}},

		"a key that is not to be had": {start().tell(event{Kind: reached, Outcome: gaveUp}, 1),
			[]string{"no progress"}},
		"a key that is to be had late": {start().
			tell(event{Kind: reached, Outcome: done, Call: 1000, Return: 7000}, 1), []string{"no progress"}},
		"a key that another may have": {start().
			acquires(1, 0, 10, 1).tell(event{Kind: reached, Outcome: done, Call: 1000, Return: 7000}, 1), nil},
		"a key that is to be had": {start().tell(event{Kind: reached, Outcome: done}, 1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			report := c.story.examine()
			var found []string
			for _, v := range report.violations {
				found = append(found, v.check)
			}
			require.ElementsMatch(t, c.want, found, "%v", report.violations)
			require.Zero(t, report.order.undecided)
		})
	}
}

// A lock is its holder's, not its token's: an acquisition that inherits a token is
// another one, and so is the next of the same process.
func TestExamineTellsHoldersOfOneProcessApart(t *testing.T) {
	s := &story{history{keeps: true}}
	s.acquires(1, 0, 10, 1)
	s.tell(event{Kind: acquired, Lock: 2, Outcome: done, Call: 20, Return: 30, Deadline: 1000, Fence: 2}, 1)
	s.releases(1, 40, 50, done)
	require.Len(t, s.examine().violations, 2)
}
