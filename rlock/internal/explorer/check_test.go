package explorer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/queue"
)

// violation is a promise that is broken.
type violation struct{ text string }

func (v violation) Error() string { return v.text }

func broken(format string, args ...any) error { return violation{fmt.Sprintf(format, args...)} }

// Moves that the bounds of a scenario do not allow.
var (
	errFull   = errors.New("there are too many messages")
	errTokens = errors.New("there are too many tokens")
)

// exclusive checks that whoever counts the lock as held has it: its lease, as it counts it, is not
// over, so the server has its token.
func (x *explorer) exclusive(w *world) error {
	s := x.at(w)
	holders := s.holders()
	for p := range x.scenario.processes {
		proc := x.of(w, p)
		if proc.call == shortened && slices.Contains(holders, proc.next) {
			continue // the holder goes on, and does not know yet which of the two tokens has the lock
		}
		if proc.dead || proc.next != "" && proc.call != shortened && !x.flaw.early ||
			proc.wait.Phase != queue.Held || proc.wait.Deadline <= 0 || slices.Contains(holders, proc.wait.Token) {
			continue
		}
		if _, bit := x.owner(proc.wait.Token); w.excused&bit == 0 {
			return broken("%s holds the lock as %s by its own deadline, and the server gave it to %s", name(p),
				short(proc.wait.Token), whose(&s))
		}
	}
	return nil
}

// stands checks that whoever has beaten lately, and can be told, has its place or the lock. It is so where
// nothing else takes it away.
func (x *explorer) stands(w *world) error {
	for _, f := range []fault{breakage, mishearing, failover, deletion, stepping} {
		if x.budget[f] > 0 {
			return nil
		}
	}
	if x.late || x.mute || x.flaw.sent { // which makes an anchor of a call that nobody has answered
		return nil
	}
	s := x.at(w)
	for p := range x.scenario.processes {
		wait := x.of(w, p).wait
		lately := wait.Phase == queue.Waiting && wait.Anchored && wait.Anchor > -clock.Instant(2*time.Second)
		place := func(m member) bool { return m.token == wait.Token }
		has := slices.Contains(s.holders(), wait.Token) || slices.ContainsFunc(s.queue[:s.members], place)
		if lately && !has {
			return broken("%s has lost its place although %s was heard of lately", short(wait.Token), name(p))
		}
	}
	return nil
}

// whose says who has the lock.
func whose(s *server) string {
	var names []string
	for _, token := range s.holders() {
		names = append(names, short(token))
	}
	if names == nil {
		return "nobody"
	}
	return strings.Join(names, " and ")
}

// has says so in a sentence.
func has(s *server) string {
	if len(s.holders()) > 1 {
		return whose(s) + " share the lock"
	}
	return whose(s) + " has the lock"
}

// inOrder checks that each grant is to the first of the queue that can be told, that a release leaves no
// lock free while the first who lives waits and can be told, unless a free lock is to stay free, and that
// nobody gets permits while there are more in use than the limit that it names.
func (x *explorer) inOrder(before, after server, r queue.Request) error {
	had, has := before.holders(), after.holders()
	begins := func(token string) bool { return !slices.Contains(had, token) && !isAfter(r, token) }
	if counted, all := after.used(); counted != all && counted != 0 {
		return broken("the server counts %d permits of %s, who have %d", counted, whose(&after), all)
	}
	// Of several that one script lets in, each saw its own limit: the last of them the whole number.
	if _, mode, shared := after.phase(); shared && mode == "permits" && slices.ContainsFunc(has, begins) {
		_, all := after.used()
		highest := int64(0)
		for _, token := range has {
			if begins(token) {
				highest = max(highest, limitOf(token))
			}
		}
		if all > highest {
			return broken(
				"%s have %d permits, and the last of them asked for a limit of %d", whose(&after), all, highest,
			)
		}
	}
	for _, e := range after.entries[:after.waiters] {
		place := func(m member) bool { return m.token == e.token }
		if after.members > 0 && !slices.ContainsFunc(after.queue[:after.members], place) {
			return broken("the server knows of %s, which has no place in the queue", short(e.token))
		}
	}
	for _, token := range has {
		if before.open && before.members > 0 && !slices.Contains(had, token) && !isAfter(r, token) {
			return broken(
				"%s has the lock, which was to stay free while %s waits", short(token), short(before.queue[0].token),
			)
		}
	}
	if before.mute || before.broken {
		return nil
	}
	if isRelease(r) && !before.open && before.lock == r.Token && after.lock == "" {
		if first, told := x.first(&before, r.Token); told {
			return broken(
				"%s has released the lock, which is free although %s waits and could be told", short(r.Token),
				short(first),
			)
		}
	}
	for _, token := range has {
		if !begins(token) {
			continue
		}
		last := int64(1) << 62 // of a newcomer
		if r.Call == queue.Join && r.Since > 0 && r.Token == token {
			last = r.Since
		}
		for _, m := range before.queue[:before.members] {
			if m.token == token {
				last = m.score
			}
		}
		for _, m := range before.queue[:before.members] {
			if m.score < last && m.token != r.Token && !slices.Contains(has, m.token) && x.told(&before, m.token) {
				return broken(
					"%s was granted the lock before %s, which could be told and had joined earlier", short(token),
					short(m.token),
				)
			}
		}
	}
	return nil
}

// first returns who is the first in the queue that lives, of others than own, and whether it is granted the
// lock when that is free: it was heard of lately, and can be told.
func (x *explorer) first(s *server, own string) (token string, told bool) {
	for _, m := range s.queue[:s.members] {
		switch e := s.known(m.token); {
		case m.token == own || e != nil && (e.ago >= e.beat || !x.hears(s, e)):
		default:
			return m.token, x.told(s, m.token)
		}
	}
	return "", false
}

// told reports whether a token that waits was heard of lately, and can be told of a grant.
func (x *explorer) told(s *server, token string) bool {
	e := s.known(token)
	return e != nil && e.ago >= 0 && e.ago <= 2000 && e.ago < e.beat && x.hears(s, e)
}

// hears reports whether somebody hears of a grant of a token, or looks for it.
func (x *explorer) hears(s *server, e *entry) bool {
	_, process, _ := strings.Cut(e.rest, " ")
	return process == "" || s.hearing[strings.Index(processes, process)] == listening
}

// known returns what the server knows of a token that waits; nil: nothing.
func (s *server) known(token string) *entry {
	for i := range s.entries[:s.waiters] {
		if s.entries[i].token == token {
			return &s.entries[i]
		}
	}
	return nil
}

// limitOf returns the limit that a token names.
func limitOf(token string) int64 {
	limit, err := strconv.ParseInt(strings.Split(token, ":")[2], 10, 64)
	if err != nil {
		panic(err)
	}
	return limit
}

// isAfter reports whether a call gives a token what its process has had before.
func isAfter(r queue.Request, token string) bool {
	return r.Call > extend && r.Call != tries && token == r.Again
}

// rises checks that a holder begins with a fence above all that were used before, or with that of those
// with whom it shares the lock.
func (x *explorer) rises(w *world, p int, of queue.Wait) error {
	if _, bit := x.owner(of.Token); w.excused&bit != 0 {
		return nil
	}
	shares := x.shares[p] != ""
	if of.Fence < w.used || of.Fence == w.used && !(shares && w.phase) {
		return broken("%s holds the lock with fence %d, and a holder had fence %d before", short(of.Token),
			of.Fence, w.used)
	}
	w.used, w.phase = of.Fence, shares
	return nil
}

// settle lets faults stop: everything that is under way arrives, who holds the lock releases
// it, and who waits sends a heartbeat each tick. All get the lock, and nothing is left. It
// returns after how many ticks.
func (x *explorer) settle(w world, tell func(world, move)) (passed int, err error) {
	do := func(m move) (bool, error) {
		before := w
		after, err := x.apply(w, m, true)
		if errors.Is(err, errFull) || errors.Is(err, errTokens) || errors.Is(err, errNotNow) {
			return false, nil
		}
		w = after
		if tell != nil {
			tell(before, m)
		}
		return true, err
	}
	for ; passed < mostTicks; passed++ {
		for steps := 0; ; steps++ {
			moved, err := x.calm(&w, do)
			if err != nil {
				return passed, err
			}
			if !moved {
				break
			}
			if steps > 400 {
				return passed, broken("it never comes to rest")
			}
		}
		if err := x.clean(&w, passed); err != nil {
			return passed, err
		}
		if x.quiet(&w) {
			return passed, nil
		}
		if n := x.within; n > 0 && passed > n && x.waits(&w) {
			return passed, broken("after %d ticks without a fault: %s", n, x.describe(&w))
		}
		if _, err := do(move{kind: elapses}); err != nil {
			return passed, err
		}
		for p := range x.scenario.processes {
			if x.of(&w, p).dead && passed >= 2 && !x.slow { // there, only its silence tells
				if _, err := do(move{kind: closes, process: p}); err != nil {
					return passed, err
				}
			}
			if _, err := do(move{kind: beats, process: p}); err != nil {
				return passed, err
			}
		}
	}
	return passed, broken("after %d ticks without a fault: %s", mostTicks, x.describe(&w))
}

const mostTicks = 14

// afterLeases is when the leases are over that were released before a failover to a server which does not
// know that.
const afterLeases = 3

// calm does the next thing that needs no fault and no time.
func (x *explorer) calm(w *world, do func(move) (bool, error)) (bool, error) {
	for _, k := range []moveKind{strangerReleases, mends, shuts} {
		if moved, err := do(move{kind: k}); moved || err != nil {
			return moved, err
		}
	}
	for i := range w.load() {
		k := delivers
		if x.in(w, i).kind == request {
			k = executes
		}
		if moved, err := do(move{kind: k, index: i}); moved || err != nil {
			return moved, err
		}
	}
	for p := range x.scenario.processes {
		for _, k := range []moveKind{listens, expires, asksAgain, givesUp, releases, overdues, reaps} {
			for i := range maxReap {
				if i > 0 && k != reaps {
					break
				}
				if moved, err := do(move{kind: k, process: p, index: i}); moved || err != nil {
					return moved, err
				}
			}
		}
	}
	return false, nil
}

// clean checks that no process that is alive has left anything on the server that it does not
// want any more. After a failover it may have left places, and until the leases of before are over it may
// have left the lock. From then on nobody keeps the lock that is granted for such a place.
func (x *explorer) clean(w *world, passed int) error {
	s := x.at(w)
	places := s.queue[:s.members]
	switch failing := w.failed || w.back || w.budget[failover] > 0; {
	case failing && passed == afterLeases:
		places = nil
	case failing || passed != 0:
		return nil
	}
	check := func(token, where string) error {
		p, _ := x.owner(token)
		if p < 0 {
			return nil
		}
		proc := x.of(w, p)
		if !proc.dead && (proc.wait.Phase == queue.Idle || proc.wait.Token != token && proc.next != token) {
			return broken("%s is left in %s, and %s does not wait for it", short(token), where, name(p))
		}
		return nil
	}
	for _, token := range s.holders() {
		if err := check(token, "the lock"); err != nil {
			return err
		}
	}
	for _, m := range places {
		if err := check(m.token, "the queue"); err != nil {
			return err
		}
	}
	return nil
}

// waits reports whether a process that is alive waits for the lock.
func (x *explorer) waits(w *world) bool {
	for p := range x.scenario.processes {
		if proc := x.of(w, p); !proc.dead && proc.wait.Phase != queue.Idle {
			return true
		}
	}
	return false
}

func (x *explorer) quiet(w *world) bool {
	s := x.at(w)
	if s.lock != "" || s.members > 0 || s.waiters > 0 || s.shares > 0 || w.load() > 0 {
		return false
	}
	for p := range x.scenario.processes {
		if proc := x.of(w, p); !proc.dead &&
			(proc.wait.Phase != queue.Idle || proc.reaped != [maxReap]queue.Request{}) {
			return false
		}
	}
	return true
}
