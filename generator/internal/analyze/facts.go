package analyze

import (
	"slices"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// Facts is what the analysis found out about a script. The rules read no other description of the body.
type Facts struct {
	Calls   []*Call   // of Redis commands
	Returns []*Return // of the script itself
	Unknown []Unknown // functions that the script calls and the analysis does not know
	Tests   []Test    // conditions and comparisons that do not do what they seem to
	Keys    Uses
	Args    Uses
	Raised  []Raise

	Stores   []Use // in libraries, or in KEYS
	Random   []Use // of functions that answer differently each time
	Reads    []Use // of globals that do not exist
	Writes   []Use // of globals
	Unsafe   []Use // of functions that run code that the text does not show
	Misuses  []Misuse
	Errors   map[script.Pos]Value // texts of the errors that the script makes, even if it drops them
	Fences   map[Source]bool      // readings that the script compares with the caller's fence
	Owed     []Debt               // of a fenced script
	Needed   map[script.Pos]int   // optional arguments in arithmetic
	Compared map[int]bool         // optional arguments that the script compares with the empty string

	Unreached  []script.Pos // possible calls of commands that the analysis never reached
	EndReached *Return      // the state at the end of the text, if the script reaches the end
	Overrun    *Misuse      // why the analysis stopped early; the other facts are then incomplete
}

// Call is one call of a Redis command, on one way to the call.
type Call struct {
	Node     ast.Expr
	Pos      script.Pos
	Words    []Word   // the command and its arguments
	Progress Progress // of the script before the call
	Heap     Heap     // at one of the times that the script makes the call
	context  int
}

type Word struct {
	Value
	Open  bool      // any number of words, each like Value, as from unpack
	Pairs *[2]Value // of an open word that stands for two kinds of words in turn
	Pos   script.Pos
}

// Names returns the possible names of the command; false: the name may be something else.
func (c *Call) Names() ([]string, bool) {
	if len(c.Words) == 0 || c.Words[0].Open || c.Words[0].Bottom() {
		return nil, false
	}
	var names []string
	for _, k := range c.Words[0].kinds {
		switch k := k.(type) {
		case Str:
			names = append(names, k.S)
		case Nil, Absent, Missing, Bool: // raises an error at run time
		default:
			return nil, false
		}
	}
	return names, len(names) > 0
}

type Return struct {
	Pos      script.Pos
	Exprs    []ast.Expr
	Values   List
	Progress Progress
	Heap     Heap
	Version3 bool // redis.setresp may have set version 3 of the protocol, where false is not nil
}

// Heap has the contents of tables.
type Heap struct{ tables map[*site]*Table }

func (h Heap) Table(r Ref) *Table {
	if t := h.tables[r.site]; t != nil {
		return t
	}
	return emptyTable
}

// Debt is a write of a fenced script that leaves the fence unstored. If an error or the end comes next, the
// data accepts smaller fences.
type Debt struct {
	Pos    script.Pos
	Stored bool // the fence was stored, and this write takes it away
}

// Uses are the places where the script uses KEYS or ARGV.
type Uses struct {
	Constant []Index
	Computed []script.Pos // by an index that is some number
	All      bool         // the script counts, unpacks or walks the whole table
	Text     map[int]bool // the constant indices in the text, even in code that never runs
	Named    bool         // the text uses the table by these indices only
	Whole    []script.Pos // where the script unpacks or walks the whole table
}

type Index struct {
	Index int
	Pos   script.Pos
}

// Use is a place where the script uses something by its name.
type Use struct {
	Name  string
	Order bool // of KEYS: the use changes only the order
	Pos   script.Pos
}

// Misuse is something that Redis' Lua refuses, or understands differently.
type Misuse struct {
	Message string
	Pos     script.Pos
}

// Raise is an error that the script raises. The server adds its place to a text.
type Raise struct {
	Value
	Pos  script.Pos
	Heap Heap
}

// Test is a condition, a comparison, a sum, a difference, or a read from a reply. Its facts hold for all
// ways to the test.
type Test struct {
	Pos script.Pos
	// The operator of a comparison, a sum or a difference. Three others:
	//   - empty: the test asks only whether Left is true;
	//   - ".": the script reads the field Right of Left;
	//   - "#": the script takes Left for a list.
	Operator      string
	Left, Right   Value
	Always, Never bool     // the outcome never changes, and nothing says that this is intended
	Fragile       bool     // another outcome is impossible without an error
	Commands      []string // of a read from a reply: the commands that answered
	Fields        []string // of a read from a reply: the fields of the reply
	Counts        string   // a command whose answers the test counts; it answers one for each word

	holds, fails bool // on some way
	standIn      bool // see role
}

// List is a list of values: arguments, results, or varargs.
type List struct {
	Items []Value
	Rest  Value     // values behind Items, if their number is not known
	Pairs *[2]Value // of Rest, if it has two kinds of values in turn
	Open  bool      // any number of values may follow Items
	lone  bool      // with Open: at most one value follows Items
	cut   bool      // a nil may end the list early
	first *Value    // the first value, if Items is empty and more is known than Rest says
	live  *List     // of the values that a function returns: the list if the first value is present
	pos   []script.Pos
	end   script.Pos // the place of the expression that gives Rest
}

// At returns the value at a place, counted from 0. Behind the last value it returns nil.
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

// forget makes the answers of pcalls in the list nameless, if the script made other pcalls later.
func (l *List) forget(others bool) {
	for i := range l.Items {
		if others {
			l.Items[i] = forgotten(l.Items[i])
		}
	}
}

func one(v Value) List { return List{Items: []Value{v}} }

// atLeast is the list of a call in which fewer than n values are an error.
func (l List) atLeast(n int) List {
	if l.lone && len(l.Items) == n-1 && !l.Rest.Bottom() {
		l.Items, l.pos = append(slices.Clone(l.Items), l.Rest), append(slices.Clone(l.pos), l.end)
		l.Open, l.lone = false, false
	}
	return l
}

// most returns the largest number of values; false: any number.
func (l List) most() (int, bool) { return len(l.Items) + bit(l.Open), !l.Open || l.lone }

// orNothing is the list, or an empty list.
func orNothing(l List) List { return *joinLists(&List{}, &l) }

// proving is the list of values that a function returns in a state with a kept guard.
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

// widen raises l above before, so that a recursive function soon reaches a fixed point.
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
