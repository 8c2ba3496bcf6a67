package command

import (
	"regexp"
	"slices"
	"strings"
)

// Place is one place in a syntax. It is a keyword such as NX, or a value such as seconds:s.
type Place struct {
	Name    string // of a value; of a keyword, the keyword
	Type    Type
	Keyword bool
	Option  string // the keyword before a value
	choice  int    // a call takes one keyword of each choice; 0: no choice
}

// Excludes reports whether two keywords are alternatives, so a call takes only one.
func (p *Place) Excludes(q *Place) bool {
	return p.choice != 0 && p.choice == q.choice && p.Name != q.Name
}

// Type is the kind of a value, and its unit. Replies use the types with a unit of time.
type Type string

// The types.
const (
	Any         Type = ""          // any string
	Key         Type = "key"       // a key
	NumKeys     Type = "numkeys"   // the number of keys
	Integer     Type = "integer"   // a whole number
	Seconds     Type = "s"         // a duration, in whole seconds
	Millis      Type = "ms"        // a duration, in whole milliseconds
	Micros      Type = "us"        // of replies only: microseconds since the last second
	UnixSeconds Type = "unix-s"    // a time
	UnixMillis  Type = "unix-ms"   // a time
	Double      Type = "double"    // a number
	Timeout     Type = "timeout-s" // a duration, in seconds that may have a fraction
	Bound       Type = "bound"     // a number, maybe with ( before it
	EntryID     Type = "entry-id"  // of a stream: milliseconds since 1970, a dash and a number
	ID          Type = "id"        // the same, or an end of a range
	NewID       Type = "new-id"    // the same, or * for a choice of the server
	LastID      Type = "last-id"   // the same, or a sign for the last entry
)

// Whole reports whether the value must be a whole number.
func (t Type) Whole() bool {
	return slices.Contains([]Type{NumKeys, Integer, Seconds, Millis, UnixSeconds, UnixMillis}, t)
}

// Entry reports whether the value is the id of an entry of a stream.
func (t Type) Entry() bool { return slices.Contains([]Type{EntryID, ID, NewID, LastID}, t) }

// Numeric reports whether the value must be a number.
func (t Type) Numeric() bool { return t.Whole() || t == Double || t == Timeout }

var texts = map[Type]*regexp.Regexp{
	Integer: regexp.MustCompile(`^(0|-?[1-9][0-9]*)$`),
	Double: regexp.MustCompile(
		`^(?i)[-+]?([0-9]+\.?[0-9]*(e[-+]?[0-9]+)?|\.[0-9]+|inf(inity)?|0x[0-9a-f.p]+)$`),
	Bound: regexp.MustCompile(
		`^(?i)\(?[-+]?([0-9]+\.?[0-9]*(e[-+]?[0-9]+)?|\.[0-9]+|inf(inity)?|0x[0-9a-f.p]+)$`),
	EntryID: regexp.MustCompile(`^[0-9]+(-[0-9]+)?$`),
	ID:      regexp.MustCompile(`^([-+]|\(?[0-9]+(-[0-9]+)?)$`),
	NewID:   regexp.MustCompile(`^(\*|[0-9]+(-([0-9]+|\*))?)$`),
	LastID:  regexp.MustCompile(`^([$+]|[0-9]+(-[0-9]+)?)$`),
}

// Takes reports whether a server takes the text at the place.
func (p *Place) Takes(text string) bool {
	if p.Keyword {
		return strings.EqualFold(p.Name, text)
	}
	t := p.Type
	switch {
	case t.Whole():
		t = Integer
	case t == Timeout:
		t = Double
	}
	known := texts[t]
	return known == nil || known.MatchString(text)
}

// Words are the words after the name of a command, as far as they are known.
type Words struct {
	N    int                           // how many; with Open, the last stands for any number
	Open bool                          // the last is a list
	May  func(word int, p *Place) bool // whether a word may be at a place
	Num  func(word int) (int, bool)    // the number in a word, if it is known
}

// Match says how the words of a call fit into the syntax of its command.
type Match struct {
	Places [][]*Place // the possible places of each word
	Stop   int        // if not OK: the word that fits nowhere, or the number of words if one is missing
	Wanted []*Place   // the places that are possible there
	OK     bool       // the words fit

	syntax *automaton
	words  Words
}

// Match fits words into the syntax.
func (c Command) Match(w Words) *Match {
	m := &Match{syntax: c.automaton(w), words: w}
	m.run()
	return m
}

// Has reports whether the call has a word in one of the places with these names. surely holds for all values
// of the unknown words, and perhaps for some.
func (m *Match) Has(names ...string) (surely, perhaps bool) {
	named := func(p *Place) bool { return slices.Contains(names, p.Name) }
	for _, places := range m.Places {
		perhaps = perhaps || slices.ContainsFunc(places, named)
	}
	if !perhaps || !m.OK {
		return false, perhaps
	}
	without := m.words
	without.May = func(word int, p *Place) bool { return !named(p) && m.words.May(word, p) }
	other := &Match{syntax: m.syntax, words: without}
	other.run()
	return !other.OK, true
}

// Once reports whether at most one word is in the place with the name.
func (m *Match) Once(name string) bool {
	n := 0
	for i, places := range m.Places {
		if !slices.ContainsFunc(places, func(p *Place) bool { return p.Name == name }) {
			continue
		}
		if n++; m.words.Open && i == len(m.Places)-1 {
			n++
		}
	}
	return n <= 1
}

// run follows the words forwards through all reachable states. Then it goes backwards, and drops states that
// do not lead to the end.
func (m *Match) run() {
	w, a := m.words, m.syntax
	reached := []map[int]bool{a.closure(0)}
	for i := range w.N {
		next := m.step(i, reached[i])
		if w.Open && i == w.N-1 {
			next = m.steps(i, reached[i])
		}
		if len(next) == 0 {
			m.stop(i, reached[i])
			return
		}
		reached = append(reached, next)
	}
	if !reached[w.N][a.end] {
		m.stop(w.N, reached[w.N])
		return
	}
	m.OK = true
	m.Places = make([][]*Place, w.N)
	alive := map[int]bool{a.end: true}
	for i := w.N - 1; i >= 0; i-- {
		before := map[int]bool{}
		open := w.Open && i == w.N-1
		for s := range reached[i] {
			if open && alive[s] {
				before[s] = true // the list may be empty
			}
		}
		from := reached[i]
		if open {
			from = reached[i+1]
		}
		for again := true; again; {
			again = false
			for s := range from {
				for _, e := range a.edges[s] {
					if !w.May(i, e.place) || !a.reaches(e.to, alive) && !(open && a.reaches(e.to, before)) {
						continue
					}
					if !slices.Contains(m.Places[i], e.place) {
						m.Places[i] = append(m.Places[i], e.place)
					}
					again = again || open && !before[s]
					before[s] = true
				}
			}
		}
		alive = before
	}
}

func (m *Match) step(word int, from map[int]bool) map[int]bool {
	next := map[int]bool{}
	for s := range from {
		for _, e := range m.syntax.edges[s] {
			if m.words.May(word, e.place) {
				for t := range m.syntax.closure(e.to) {
					next[t] = true
				}
			}
		}
	}
	return next
}

// steps returns the states after any number of words like one, or after none.
func (m *Match) steps(word int, from map[int]bool) map[int]bool {
	all := map[int]bool{}
	for more := from; len(more) > 0; {
		fresh := map[int]bool{}
		for s := range more {
			if !all[s] {
				all[s], fresh[s] = true, true
			}
		}
		more = m.step(word, fresh)
	}
	return all
}

func (m *Match) stop(word int, at map[int]bool) {
	m.Stop, m.Places = word, make([][]*Place, m.words.N)
	for s := range len(m.syntax.edges) {
		if !at[s] {
			continue
		}
		for _, e := range m.syntax.edges[s] {
			if !slices.Contains(m.Wanted, e.place) {
				m.Wanted = append(m.Wanted, e.place)
			}
		}
	}
}
