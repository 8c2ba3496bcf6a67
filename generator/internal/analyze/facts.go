package analyze

import (
	"slices"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// Facts is what following a script brings to light. The rules read it, and nothing
// else about the body.
type Facts struct {
	Calls   []*Call   // of Redis commands
	Returns []*Return // of the script itself
	Unknown []Unknown // functions that are called and not known
	Tests   []Test    // comparisons and conditions that do not do what they seem to
	Keys    Uses
	Args    Uses
	Raised  []Raise

	Stores   []Use // into libraries, or into KEYS
	Random   []Use // of functions that answer differently each time
	Reads    []Use // of globals that are not there
	Writes   []Use // of globals
	Unsafe   []Use // of functions that make code which nobody can follow
	Misuses  []Misuse
	Errors   map[script.Pos]Value // texts of the errors that the script makes, whatever becomes of them
	Fences   map[Source]bool      // what the caller's fence is compared with
	Owed     []Debt               // fenced: writes after which the fence is not stored
	Needed   map[script.Pos]int   // optional arguments that are counted with
	Compared map[int]bool         // optional arguments that are compared with the empty string

	Unreached  []script.Pos // calls that may be of commands, which the analysis has never come to
	EndReached *Return      // the state at the end of the text, if it can be reached
	Overrun    *Misuse      // why the script was not followed to its end; the other facts are then not whole
}

// Call is one call of a Redis command, on one way to it.
type Call struct {
	Node     ast.Expr
	Pos      script.Pos
	Words    []Word   // the command and its arguments
	Progress Progress // of the script before it
	Heap     Heap     // at one of the times that it is made
	context  int
}

// Word is one argument of a command.
type Word struct {
	Value
	Open  bool      // any number of words, each like Value, as of unpack
	Pairs *[2]Value // of an open word, where it is words of two sorts in turn
	Pos   script.Pos
}

// Names returns what the command may be; false: it may be something else.
func (c *Call) Names() ([]string, bool) {
	if len(c.Words) == 0 || c.Words[0].Open || c.Words[0].Bottom() {
		return nil, false
	}
	var names []string
	for _, k := range c.Words[0].kinds {
		switch k := k.(type) {
		case Str:
			names = append(names, k.S)
		case Nil, Absent, Missing, Bool: // an error when it is reached
		default:
			return nil, false
		}
	}
	return names, len(names) > 0
}

// Return is one return of the script itself.
type Return struct {
	Pos      script.Pos
	Exprs    []ast.Expr
	Values   List
	Progress Progress
	Heap     Heap
	Version3 bool // redis.setresp may have set version 3 of the protocol, in which false is no nil
}

// Heap tells what tables hold.
type Heap struct{ tables map[*site]*Table }

// Table returns what is known of a table.
func (h Heap) Table(r Ref) *Table {
	if t := h.tables[r.site]; t != nil {
		return t
	}
	return emptyTable
}

// Debt is a write of a fenced script after which the fence is not stored: an error, or
// the end, leaves the data open to smaller fences.
type Debt struct {
	Pos    script.Pos
	Stored bool // it was, and this write takes it away
}

// Uses are the places where KEYS or ARGV is used.
type Uses struct {
	Constant []Index
	Computed []script.Pos // by an index of which nothing is known but that it is a number
	All      bool         // counted, unpacked or walked through
	Text     map[int]bool // the constant indices of the text, where it is never run too
	Named    bool         // the text uses it by these indices only
	Whole    []script.Pos // where it is unpacked or walked through
}

// Index is a use of one entry.
type Index struct {
	Index int
	Pos   script.Pos
}

// Use is a place where something with a name is used.
type Use struct {
	Name  string
	Order bool // of KEYS: what it holds stays the same but for its order
	Pos   script.Pos
}

// Misuse is something that Redis' Lua does not take, or not as it is meant.
type Misuse struct {
	Message string
	Pos     script.Pos
}

// Raise is an error that the script raises. To a text the server adds its place.
type Raise struct {
	Value
	Pos  script.Pos
	Heap Heap
}

// Test is a condition, a comparison, a sum or a difference, or a look into a reply. What it does is told for all ways to it.
type Test struct {
	Pos           script.Pos
	Operator      string // of a comparison, a sum or a difference; empty: of Left, only the truth is asked; ".": of Left, the field Right; "#": Left is taken for a list
	Left, Right   Value
	Always, Never bool     // it holds whatever comes, or never, and nothing tells that it should
	Fragile       bool     // where it would not, there is an error
	Commands      []string // of a look into a reply: what has answered
	Fields        []string // of a look into a reply: those that it has
	Counts        string   // a command that answers as many values as it gets words, which are counted

	holds, fails bool // on some way
	standIn      bool // see role
}

// List is a list of values: arguments, results, or varargs.
type List struct {
	Items []Value
	Rest  Value     // of those behind Items, where their number is not known
	Pairs *[2]Value // of Rest, where it is values of two sorts in turn
	Open  bool      // there may be any number behind Items
	lone  bool      // with Open: there is one behind Items at most
	cut   bool      // a nil may end it, though more of the list follows
	first *Value    // the first of them, where Items has none and more is known of it than Rest tells
	live  *List     // of what a function returns: what it may be where the first value is there
	pos   []script.Pos
	end   script.Pos // of what brings Rest
}

// At returns the value at a place, counted from 0; nil behind the last.
func (l List) At(i int) Value { return l.at(i) }

func (l List) at(i int) Value {
	switch {
	case i < len(l.Items):
		return l.Items[i]
	case i == 0 && l.first != nil:
		return *l.first
	case l.Open && (i == len(l.Items) || !l.lone):
		return Join(l.Rest, vNil)
	}
	return vNil
}

func (l List) place(i int, otherwise script.Pos) script.Pos {
	if i < len(l.pos) && l.pos[i].Line > 0 {
		return l.pos[i]
	}
	return otherwise
}

func (l List) all() Value {
	v := l.Rest
	for _, item := range l.Items {
		v = Join(v, item)
	}
	return v
}

// from returns the list without its first n values.
func (l List) from(n int) List {
	if n >= len(l.Items) {
		if n > len(l.Items) {
			l.Pairs = nil
		}
		if n > len(l.Items) && l.lone {
			return List{}
		}
		return List{Rest: l.Rest, Open: l.Open, Pairs: l.Pairs, cut: l.cut, lone: l.lone}
	}
	l.Items = l.Items[n:]
	if n < len(l.pos) {
		l.pos = l.pos[n:]
	} else {
		l.pos = nil
	}
	return l
}

// forget takes the answers of pcalls in the list for those of any, if there were others since.
func (l *List) forget(others bool) {
	for i := range l.Items {
		if others {
			l.Items[i] = forgotten(l.Items[i])
		}
	}
}

func one(v Value) List { return List{Items: []Value{v}} }

// atLeast is the list of a call for which less than n values are an error.
func (l List) atLeast(n int) List {
	if l.lone && len(l.Items) == n-1 && !l.Rest.Bottom() {
		l.Items, l.pos = append(slices.Clone(l.Items), l.Rest), append(slices.Clone(l.pos), l.end)
		l.Open, l.lone = false, false
	}
	return l
}

// most returns how many values there may be; false: any number.
func (l List) most() (int, bool) { return len(l.Items) + bit(l.Open), !l.Open || l.lone }

// orNothing is a list of those values, or of none at all.
func orNothing(l List) List { return *joinLists(&List{}, &l) }

// proving is what a function answers where the guard is kept, whatever it answers.
func (l List) proving() List {
	l.Items = slices.Clone(l.Items)
	for i, v := range l.Items {
		l.Items[i] = v.proving()
	}
	if len(l.Items) == 0 {
		first := l.at(0).proving()
		l.first = &first
	}
	return l
}

// widen makes l, which is above before, one that a function which calls itself reaches soon.
func (l *List) widen(before *List) {
	for i := range min(len(l.Items), len(before.Items)) {
		l.Items[i] = widen(before.Items[i], l.Items[i])
	}
	l.Rest = widen(before.Rest, l.Rest)
	if l.first != nil {
		first := widen(before.at(0), *l.first)
		l.first = &first
	}
}

func joinLists(a, b *List) *List {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	n := min(len(a.Items), len(b.Items))
	j := &List{cut: a.cut || b.cut, Open: a.Open || b.Open || len(a.Items) != len(b.Items),
		Rest: Join(a.Rest, b.Rest)}
	most, bounded := a.most()
	other, also := b.most()
	j.lone = j.Open && bounded && also && max(most, other) == n+1
	for i := range n {
		j.Items = append(j.Items, Join(a.Items[i], b.Items[i]))
		j.pos = append(j.pos, a.place(i, script.Pos{}))
	}
	for _, longer := range []*List{a, b} {
		for _, v := range longer.Items[n:] {
			j.Rest = Join(j.Rest, v)
		}
	}
	if n == 0 && (a.first != nil || b.first != nil) {
		first := Join(a.at(0), b.at(0))
		j.first = &first
	}
	return j
}

func (l *List) equal(m *List) bool {
	if l == nil || m == nil {
		return l == m
	}
	if l.Open != m.Open || l.lone != m.lone || len(l.Items) != len(m.Items) || !l.Rest.equal(m.Rest) ||
		(l.first == nil) != (m.first == nil) || l.first != nil && !l.first.equal(*m.first) {
		return false
	}
	for i := range l.Items {
		if !l.Items[i].equal(m.Items[i]) {
			return false
		}
	}
	return true
}
