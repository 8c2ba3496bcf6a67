package analyze

import (
	"maps"
	"slices"
)

// Progress is how far a script is past its guard.
type Progress uint8

// The steps of a script with a guard.
const (
	Unchecked Progress = iota // the script has not compared the guard
	Passed                    // the guard is kept
	Wrote                     // fenced: the script wrote data, and has not stored the fence
	Stored                    // fenced: the script stored the fence
)

// protocol is a set of versions of the protocol. Commands may answer in each of them.
type protocol uint8

const (
	resp2 protocol = 1 << iota
	resp3
)

// state is the knowledge at one place of the script. It is nil for a place that the script never reaches.
type state struct {
	frame    []Value       // locals of the running function, by slot
	cells    map[cell]held // locals that other functions use too
	heap     map[*site]*Table
	lengths  map[count]int // by how much a number is larger than the length of a list
	run      *run          // the running function
	progress Progress
	protocol protocol
	dead     bool // the last expression never ends
}

// cell is a local of one run of its function.
type cell struct {
	variable *variable
	env      *env
}

type held struct {
	Value
	many bool // several locals share the cell, from a loop or from several runs
}

func (s *state) clone() *state {
	if s == nil {
		return nil
	}
	c := *s
	c.frame = slices.Clone(s.frame)
	c.cells = maps.Clone(s.cells)
	c.heap = maps.Clone(s.heap)
	c.lengths = maps.Clone(s.lengths)
	return &c
}

// joinStates returns what both states know. It changes neither.
func joinStates(s, t *state) *state {
	switch {
	case s == nil || s.dead:
		if t != nil && t.dead {
			return nil
		}
		return t
	case t == nil || t.dead:
		return s
	}
	lengths := joinLengths(s, t)
	j, t := s.proved(t), t.proved(s)
	for i := range j.frame {
		j.frame[i] = Join(j.frame[i], t.frame[i])
	}
	j.joinShared(t)
	j.lengths = lengths
	return j
}

// proved returns a copy of a state. If only this state is past the guard, its values prove the guard after
// the join. A branch may set a flag in this way.
func (s *state) proved(other *state) *state {
	s = s.clone()
	if s.progress == Unchecked || other.progress != Unchecked {
		return s
	}
	for i, v := range s.frame {
		s.frame[i] = v.proving()
	}
	for at, h := range s.cells {
		if !h.many {
			s.cells[at] = held{h.Value.proving(), false}
		}
	}
	for at, t := range s.heap {
		if u := other.heap[at]; u != nil && u != t && !t.many {
			s.heap[at] = t.mapped(Value.proving)
		}
	}
	return s
}

// joinShared joins everything except the locals of the running function.
func (s *state) joinShared(t *state) {
	s.lengths = joinLengths(s, t)
	for at, other := range t.cells {
		if own, known := s.cells[at]; known {
			other = held{Join(own.Value, other.Value), own.many || other.many}
		}
		s.cells[at] = other
	}
	for at, other := range t.heap {
		if own, known := s.heap[at]; known {
			other = joinTables(own, other)
		}
		s.heap[at] = other
	}
	s.progress = joinProgress(s.progress, t.progress)
	s.protocol |= t.protocol
}

// joinProgress returns the step that promises no more than either step.
func joinProgress(p, q Progress) Progress {
	switch {
	case p == q:
		return p
	case p == Unchecked || q == Unchecked:
		return Unchecked
	case p == Wrote || q == Wrote:
		return Wrote
	}
	return Passed // Passed and Stored: no write lacks its fence, and the fence may be missing
}

func (s *state) equal(t *state) bool {
	return s.progress == t.progress && s.protocol == t.protocol &&
		slices.EqualFunc(s.frame, t.frame, Value.equal) &&
		maps.EqualFunc(s.cells, t.cells,
			func(a, b held) bool { return a.many == b.many && a.Value.equal(b.Value) }) &&
		maps.EqualFunc(s.heap, t.heap, (*Table).equal) && maps.Equal(s.lengths, t.lengths)
}

// widenState raises s above before, so that a loop soon reaches a fixed point.
func widenState(before, s *state) {
	for i := range s.frame {
		s.frame[i] = widen(before.frame[i], s.frame[i])
	}
	for at, after := range s.cells {
		if was, known := before.cells[at]; known {
			s.cells[at] = held{widen(was.Value, after.Value), after.many}
		}
	}
	for at, after := range s.heap {
		if was, known := before.heap[at]; known && was != after {
			s.heap[at] = widenTable(was, after)
		}
	}
}

// context is the chain of calls that led to a run of a function. One place in the text makes another table in
// each context. So a helper keeps the tables of its callers apart.
type context struct {
	id    int
	call  any // the call, in the outer context
	outer *context
}

// under reports whether a chain of calls contains another.
func (c *context) under(way *context) bool {
	for ; c != nil; c = c.outer {
		if c == way {
			return true
		}
	}
	return false
}

// env is one run of a function, as the functions in it see it.
type env struct {
	id      int
	fn      *function
	context *context
	outer   *env
}

// site is the place that makes a table.
type site struct {
	id      int
	node    any
	context *context
	part    int // of a call that makes several tables
}

type contextKey struct {
	outer *context
	call  any
}

type envKey struct {
	fn      *function
	context *context
	outer   *env
}

type siteKey struct {
	node    any
	context *context
	part    int
}

// interned keeps one object for each key.
type interned struct {
	contexts map[contextKey]*context
	envs     map[envKey]*env
	sites    map[siteKey]*site
}

func intern[K comparable, V any](known map[K]*V, k K, create func(id int) *V) *V {
	v := known[k]
	if v == nil {
		v = create(len(known) + 1)
		known[k] = v
	}
	return v
}

func (i *interned) context(outer *context, call any) *context {
	return intern(i.contexts, contextKey{outer, call},
		func(id int) *context { return &context{id: id, call: call, outer: outer} })
}

func (i *interned) env(fn *function, c *context, outer *env) *env {
	return intern(i.envs, envKey{fn, c, outer},
		func(id int) *env { return &env{id: id, fn: fn, context: c, outer: outer} })
}

func (i *interned) site(node any, c *context, part int) *site {
	return intern(i.sites, siteKey{node, c, part},
		func(id int) *site { return &site{id: id, node: node, context: c, part: part} })
}
