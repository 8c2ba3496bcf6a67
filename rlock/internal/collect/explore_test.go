package collect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/collect"
)

// TestExplore follows sets and locks of single keys through all orders of their steps, with the Way that
// sets go. The server is that of the scripts: it gives a key that is released to whoever stands first in
// its queue, and nobody overtakes those who wait. Each locker comes again when its job is done, and may
// give up while it waits. A step of a set, such as to give one key back and to join the queue of another,
// is one by itself where the scripts are two.
//
// Each state must let somebody go on. While a set waits, it stands in no queue behind one who came later;
// it gives back no more keys than it has; and a lock of a single key waits for no more jobs of other keys
// than the sets that came before it have: one for a set of two keys.
func TestExplore(t *testing.T) {
	t.Parallel()
	for _, population := range []string{
		"ab a a b b",
		"ab ab a b",
		"ab ba a a b b", // two sets and four single locks
		"ab bc ca a",
		"ab bc a b c",
		"abc cb a c",
		"abc cab b a",
	} {
		t.Run(population, func(t *testing.T) {
			t.Parallel()
			states, trace := explore(population, collect.Way.Meets)
			require.Empty(t, trace)
			t.Log(states, "states")
			require.Greater(t, states, 300)
		})
	}
}

// A set that goes another way blocks, or is blocked for ever.
func TestPlantedFlaws(t *testing.T) {
	t.Parallel()
	order := collect.Way{}.Meets("a").Meets("b").Meets("a") // which takes its keys in order
	for name, flaw := range map[string]struct {
		population, says string
		meets            meets
	}{
		"it never keeps a key": {"ab a b", "gives back", func(w collect.Way, _ string) collect.Way { return w }},
		"it keeps keys at once": {"ab a b b b", "waits for jobs", func(collect.Way, string) collect.Way {
			return order
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, trace := explore(flaw.population, flaw.meets)
			require.Contains(t, trace, flaw.says)
		})
	}
}

// locker takes its keys, has them for one job, and comes again.
type locker struct {
	keys  string // each letter is one
	score int    // when it joined a queue first; 0: it has not
	way   collect.Way
	at    string // the key in whose queue it stands, or which it has got there
	has   string
	state string // away, waits, granted (the key at which it has waited, and has not gone on yet), works
	backs int    // how many keys it has given back
	idle  int    // of a single key: jobs of other keys that have ended while a set that waits had its key
	most  int    // how many there may be
}

type world struct {
	lockers []locker
	joined  int
}

type meets func(w collect.Way, key string) collect.Way

// explore returns how many states there are, and the steps to the first that is wrong.
func explore(population string, rule meets) (states int, trace string) {
	var first world
	for _, keys := range strings.Fields(population) {
		first.lockers = append(first.lockers, locker{keys: keys, state: "away"})
	}
	type node struct {
		w    world
		from int
		step string
	}
	nodes, seen := []node{{w: first, from: -1}}, map[string]bool{first.key(): true}
	for n := 0; n < len(nodes); n++ {
		wrong := nodes[n].w.wrong()
		for i := range first.lockers {
			next := nodes[n].w
			next.lockers = slices.Clone(next.lockers)
			step := next.step(i, rule)
			next.rank()
			if key := next.key(); !seen[key] {
				seen[key] = true
				nodes = append(nodes, node{next, n, step})
			}
		}
		if wrong != "" {
			for at := n; at >= 0; at = nodes[at].from {
				trace = nodes[at].step + "\n" + trace
			}
			return len(nodes), trace + wrong
		}
	}
	return len(nodes), ""
}

// key is the same for states in which lockers of the same keys have changed places.
func (w *world) key() string {
	var all []string
	for _, l := range w.lockers {
		key := append([]byte(l.keys), byte(l.score), byte(l.backs), byte(l.idle), byte(l.most), l.state[0])
		key = append(append(append(key, l.at...), ' '), l.has...)
		if len(l.keys) > 1 {
			key = fmt.Append(key, l.way)
		}
		all = append(all, string(key))
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// rank numbers the scores anew, so that the states are finite.
func (w *world) rank() {
	var scores []int
	for _, l := range w.lockers {
		if l.score > 0 {
			scores = append(scores, l.score)
		}
	}
	slices.Sort(scores)
	for i := range w.lockers {
		if l := &w.lockers[i]; l.score > 0 {
			l.score = slices.Index(scores, l.score) + 1
		}
	}
	w.joined = len(scores)
}

// wrong says what must not be, or nothing.
func (w *world) wrong() string {
	waits, moves := false, false
	for i, l := range w.lockers {
		waits, moves = waits || l.state == "waits", moves || l.state == "works" || l.state == "granted"
		switch {
		case l.backs > len(l.keys):
			return fmt.Sprintf("%d %s gives back %d keys", i, l.keys, l.backs)
		case len(l.keys) == 1 && l.state == "waits" && l.idle > l.most:
			return fmt.Sprintf("%d %s waits for jobs of other keys: %d, not %d", i, l.keys, l.idle, l.most)
		}
	}
	if waits && !moves {
		return "nobody can go on"
	}
	return ""
}

// step has a locker do what it can do: one that waits gives up. It returns what that was.
func (w *world) step(i int, rule meets) string {
	l := &w.lockers[i]
	before := l.state
	switch l.state {
	case "waits", "works":
		if l.state == "works" {
			w.ends(l)
		}
		has := l.has
		*l = locker{keys: l.keys, has: has, state: "away"}
		w.release(l, has)
	case "away":
		w.tries(l, rule)
	case "granted":
		l.has += l.at
		w.tries(l, rule)
	}
	return fmt.Sprintf("%d %s: %s, %s %s, has %s", i, l.keys, before, l.state, l.at, l.has)
}

// ends counts the job for those whose key a set has that waits for a key of the job.
func (w *world) ends(job *locker) {
	for s := range w.lockers {
		set := &w.lockers[s]
		if set.state != "waits" || !strings.Contains(job.has, set.at) {
			continue
		}
		for i := range w.lockers {
			if l := &w.lockers[i]; len(l.keys) == 1 && l.state == "waits" && strings.Contains(set.has, l.keys) {
				l.idle++
			}
		}
	}
}

// tries has a locker try to take all its keys, with what it has, and go on if one is in its way.
func (w *world) tries(l *locker, rule meets) {
	l.state = "tries"
	if way := w.inTheWay(l, l.keys); way == "" {
		l.has, l.state = l.keys, "works"
		return
	} else if !l.way.InOrder() {
		if l.has != "" {
			l.backs++
			w.release(l, l.has)
		}
		l.way = rule(l.way, way)
		l.at = way
	}
	if l.way.InOrder() {
		order := strings.Split(l.keys, "")
		slices.Sort(order)
		for _, key := range order {
			if l.at = key; w.inTheWay(l, key) != "" {
				break
			}
			if !strings.Contains(l.has, key) {
				l.has += key
			}
		}
	}
	if l.state = "waits"; len(l.has) == len(l.keys) {
		l.state = "works"
	}
	if l.score == 0 {
		w.joined++
		l.score = w.joined
		for _, set := range w.lockers {
			if len(set.keys) > 1 && set.score > 0 && set.score < l.score {
				l.most += len(set.keys) - 1
			}
		}
	}
}

// inTheWay returns the first of some keys that a locker does not have and cannot take.
func (w *world) inTheWay(l *locker, keys string) string {
	for _, key := range strings.Split(keys, "") {
		if !strings.Contains(l.has, key) && (w.holder(key) != nil || w.head(key) != nil) {
			return key
		}
	}
	return ""
}

func (w *world) holder(key string) *locker {
	for i := range w.lockers {
		if l := &w.lockers[i]; strings.Contains(l.has, key) || l.state == "granted" && l.at == key {
			return l
		}
	}
	return nil
}

// head returns who stands first in the queue of a key.
func (w *world) head(key string) (first *locker) {
	for i := range w.lockers {
		if l := &w.lockers[i]; l.state == "waits" && l.at == key && (first == nil || l.score < first.score) {
			first = l
		}
	}
	return first
}

// release gives keys to those who wait for them.
func (w *world) release(l *locker, keys string) {
	l.has = ""
	for _, key := range strings.Split(keys, "") { // none if it has none
		if next := w.head(key); next != nil {
			next.state = "granted"
			if len(next.keys) == 1 {
				next.state, next.has = "works", key
			}
		}
	}
}
