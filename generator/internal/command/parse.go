package command

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// The notation of a syntax is the notation of the documentation of commands. [ ] contain an optional part,
// and ( ) and { } contain a group. | separates alternatives, and ... follows a part that may be repeated. A
// value begins with a small letter, and has its type after a colon. Adjacent optional parts with keywords may
// be in any order.

// node is a part of a syntax.
type node struct {
	place    *Place  // of a word
	parts    []*node // one after the other
	either   []*node // alternatives
	optional bool
	many     bool
}

// automaton is a syntax as states. Places lead from one state to another. State 0 is the first.
type automaton struct {
	edges [][]edge
	empty [][]int
	end   int
	near  []map[int]bool // closures
}

type edge struct {
	place *Place
	to    int
}

var compiled sync.Map // (syntax, number of keys) -> *automaton

// automaton returns the states of the command's syntax. If the words tell the number of keys, the automaton
// has one place for each key.
func (c Command) automaton(w Words) *automaton {
	n := -1
	if at := strings.Index(c.Syntax, ":numkeys"); at >= 0 {
		if word := strings.Count(c.Syntax[:at], " "); word < w.N && !(w.Open && word == w.N-1) {
			if number, known := w.Num(word); known && number > 0 && number <= w.N {
				n = number
			}
		}
	}
	type asked struct {
		syntax string
		keys   int
	}
	if a, ok := compiled.Load(asked{c.Syntax, n}); ok {
		return a.(*automaton)
	}
	root, err := parseSyntax(c.Syntax)
	if err != nil {
		panic("command: " + c.Name + ": " + err.Error()) // TestSyntax parses all rows
	}
	a := &automaton{}
	a.end = a.build(root, a.state(), n)
	for s := range a.edges {
		a.near = append(a.near, a.reach(s))
	}
	compiled.Store(asked{c.Syntax, n}, a)
	return a
}

func (a *automaton) state() int {
	a.edges, a.empty = append(a.edges, nil), append(a.empty, nil)
	return len(a.edges) - 1
}

func (a *automaton) join(from, to int) { a.empty[from] = append(a.empty[from], to) }

// build adds a part after a state, and returns the state after the part. keys is the number of keys after the
// place that counts them; negative: any number.
func (a *automaton) build(n *node, from int, keys int) int {
	if n.many {
		start := a.state()
		a.join(from, start)
		from = start
	}
	to := a.state()
	switch {
	case n.place != nil && n.many && n.place.counted() && keys > 0:
		at := from
		for range keys {
			next := a.state()
			a.edges[at] = append(a.edges[at], edge{n.place, next})
			at = next
		}
		a.join(at, to)
		return to
	case n.place != nil:
		a.edges[from] = append(a.edges[from], edge{n.place, to})
	case n.either != nil:
		for _, each := range n.either {
			a.join(a.build(each, from, keys), to)
		}
	default:
		at := from
		for i := 0; i < len(n.parts); i++ {
			run := i
			for run < len(n.parts) && n.parts[run].optional && n.parts[run].keyed() {
				run++
			}
			if run-i < 2 {
				at = a.build(n.parts[i], at, keys)
				continue
			}
			all := a.state()
			a.join(at, all)
			for _, part := range n.parts[i:run] {
				a.join(a.build(part, all, keys), all)
			}
			at, i = all, run-1
		}
		a.join(at, to)
	}
	if n.many {
		a.join(to, from)
	}
	if n.optional {
		a.join(from, to)
	}
	return to
}

// free allows all keywords of a choice, because the part may be repeated.
func (n *node) free() {
	if n.place != nil {
		n.place.choice = 0
	}
	for _, m := range slices.Concat(n.parts, n.either) {
		m.free()
	}
}

// counted reports whether the syntax has the place once for each key.
func (p *Place) counted() bool { return p.Type == Key || p.Name == "weight" }

// keyed reports whether a part always begins with a keyword.
func (n *node) keyed() bool {
	switch {
	case n.place != nil:
		return n.place.Keyword
	case n.either != nil:
		return !slices.ContainsFunc(n.either, func(m *node) bool { return !m.keyed() })
	}
	return len(n.parts) > 0 && n.parts[0].keyed()
}

// closure returns the states that a state reaches without a word, with the state itself.
func (a *automaton) closure(s int) map[int]bool { return a.near[s] }

func (a *automaton) reaches(s int, any map[int]bool) bool {
	for t := range a.closure(s) {
		if any[t] {
			return true
		}
	}
	return false
}

func (a *automaton) reach(s int) map[int]bool {
	seen, open := map[int]bool{s: true}, []int{s}
	for len(open) > 0 {
		at := open[len(open)-1]
		open = open[:len(open)-1]
		for _, t := range a.empty[at] {
			if !seen[t] {
				seen[t], open = true, append(open, t)
			}
		}
	}
	return seen
}

type parser struct {
	tokens  []string
	choices int
}

func parseSyntax(text string) (*node, error) {
	for _, mark := range []string{"[", "]", "(", ")", "{", "}", "|", "..."} {
		text = strings.ReplaceAll(text, mark, " "+mark+" ")
	}
	p := &parser{tokens: strings.Fields(text)}
	n, err := p.alternatives("")
	if err == nil && len(p.tokens) > 0 {
		err = fmt.Errorf("%q has no beginning", p.tokens[0])
	}
	return n, err
}

// alternatives reads up to the closing mark, and takes the mark.
func (p *parser) alternatives(closing string) (*node, error) {
	all := []*node{{}}
	for {
		if len(p.tokens) == 0 {
			if closing != "" {
				return nil, fmt.Errorf("%q is missing", closing)
			}
			break
		}
		token := p.tokens[0]
		if closing == "" && strings.Contains("])}", token) {
			break
		}
		p.tokens = p.tokens[1:]
		if token == closing {
			break
		}
		if token == "|" {
			all = append(all, &node{})
			continue
		}
		n, err := p.part(token)
		if err != nil {
			return nil, err
		}
		if len(p.tokens) > 0 && p.tokens[0] == "..." {
			p.tokens, n.many = p.tokens[1:], true
			n.free()
		}
		last := all[len(all)-1]
		if behind := len(last.parts) - 1; n.place != nil && !n.place.Keyword && behind >= 0 {
			n.place.Option = option(last.parts[:behind+1])
		}
		last.parts = append(last.parts, n)
	}
	if len(all) == 1 {
		return all[0], nil
	}
	p.choices++
	for _, n := range all {
		if len(n.parts) > 0 {
			if first := n.parts[0].place; first != nil && first.Keyword {
				first.choice = p.choices
			}
		}
	}
	return &node{either: all}, nil
}

// option returns the keyword before a value. Between them may be ~ or =.
func option(before []*node) string {
	for _, n := range slices.Backward(before) {
		if n.place != nil && n.place.Keyword && unicode.IsUpper(rune(n.place.Name[0])) {
			return n.place.Name
		}
		if n.place == nil && !n.optional || n.place != nil && !n.place.Keyword {
			break
		}
	}
	return ""
}

func (p *parser) part(token string) (*node, error) {
	switch token {
	case "[":
		n, err := p.alternatives("]")
		return &node{parts: []*node{n}, optional: true}, err
	case "(":
		return p.grouped(")")
	case "{":
		return p.grouped("}")
	case "]", ")", "}", "...":
		return nil, fmt.Errorf("%q has no beginning", token)
	}
	name, kind, _ := strings.Cut(token, ":")
	return &node{place: &Place{Name: name, Type: Type(kind), Keyword: !unicode.IsLower(rune(token[0]))}}, nil
}

func (p *parser) grouped(closing string) (*node, error) {
	n, err := p.alternatives(closing)
	return &node{parts: []*node{n}}, err
}
