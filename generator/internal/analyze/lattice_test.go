package analyze

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// rounds is how often each law is tried, with other values each time.
const rounds = 60

// world makes values at random that belong to one analysis.
type world struct {
	*rand.Rand
	a      *analyzer
	sites  []*site
	closed []Closure
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s, findings := script.Parse("x.lua",
		[]byte("-- mode: write\n-- guard: KEYS[1] fenced by ARGV[1]\n-- KEYS[1] k key\n-- KEYS[2..] more key\n"+
			"-- ARGV[1] fence int\n-- ARGV[2] left duration?\n-- ARGV[3] flag bool\n-- ARGV[4..] rest string\n-- "+
			"returns: none\nredis.call('DEL', KEYS[1])\n"))
	require.Empty(t, findings)
	a := &analyzer{
		interned: interned{contexts: map[contextKey]*context{}, envs: map[envKey]*env{},
			sites: map[siteKey]*site{}},
		script: s, names: resolve(s),
		facts: &Facts{
			Needed: map[script.Pos]int{}, Compared: map[int]bool{}, Fences: map[Source]bool{},
			Errors: map[script.Pos]Value{},
		},
		reach: newReach(), calls: map[callKey]*Call{}, tests: map[ast.Expr]*Test{},
		callees: map[ast.Expr]Value{}, eventful: map[ast.Expr]bool{}, unknown: map[Unknown]bool{},
		metas:  map[*site]bool{},
		pcalls: map[callKey]int{}, unrolled: 1,
	}
	root := a.context(nil, nil)
	a.run = &run{fn: a.names.main, env: a.env(a.names.main, root, nil)}
	w := &world{Rand: rand.New(rand.NewPCG(1, 2)), a: a}
	for i := range 3 {
		w.sites = append(w.sites, a.site(i, root, 0))
		fn := &function{id: i + 1, outer: a.names.main}
		w.closed = append(w.closed, Closure{fn, a.run.env})
	}
	return w
}

// state makes one in which every table is known.
func (w *world) state() *state {
	st := &state{frame: []Value{w.value(), w.value()}, cells: map[cell]held{}, heap: map[*site]*Table{},
		lengths: map[count]int{}, protocol: resp2, progress: Progress(w.IntN(4))}
	w.a.keys, w.a.args = w.a.global(st, "KEYS", w.a.keysTable()), w.a.global(st, "ARGV", w.a.argsTable())
	for _, at := range w.sites {
		st.heap[at] = w.table()
		st.lengths[count{w.a.hidden(w.IntN(3)), at}] = w.IntN(3)
	}
	return st
}

func (w *world) source() Source {
	return Source{Command: []string{"", "get", "hget"}[w.IntN(3)], Key: w.IntN(3),
		Field: []string{"", "fence"}[w.IntN(2)]}
}

// kind makes one of any sort. A new sort of kind must be made here as well, as kindNames
// says.
func (w *world) kind() Kind {
	switch w.IntN(20) {
	case 0:
		return Nil{}
	case 1:
		return Absent{}
	case 2:
		isNil := w.IntN(2) == 0
		return Missing{Of: w.source(), Nil: isNil, Malformed: isNil && w.IntN(2) == 0}
	case 3:
		return Bool{V: w.IntN(2) == 0, Call: w.IntN(2)}
	case 4:
		return Str{S: fmt.Sprint("s", w.IntN(30))}
	case 5:
		return Str{S: []string{"", "12", "0x1f", "upper", "*", "%d"}[w.IntN(6)], Default: w.source()}
	case 6:
		return Num{F: float64(w.IntN(40)), Default: w.source()}
	case 7:
		return Num{F: float64(w.IntN(40)) + 0.5}
	case 8:
		return Empty{2}
	case 9:
		return Text{Class: Class(w.IntN(9)), Unit: Unit(w.IntN(5))}
	case 10:
		return Number{Class: Class(w.IntN(5)), Unit: Unit(w.IntN(5))}
	case 11:
		return Number{Class: Integer, Within: w.sites[w.IntN(3)]}
	case 12:
		return Key{w.IntN(50)}
	case 13:
		return Arg{Index: w.IntN(50), Number: w.IntN(2) == 0, Default: w.source()}
	case 14:
		return Read{Source: w.source(), Number: w.IntN(2) == 0}
	case 15:
		return Raised{Call: w.IntN(2), Script: w.IntN(2) == 0}
	case 16:
		return Command{Protected: w.IntN(2) == 0}
	case 17:
		return Builtin{[]string{"redis", "math.max", "next", "cjson.null"}[w.IntN(4)]}
	case 18:
		return w.closed[w.IntN(3)]
	}
	if w.IntN(4) == 0 {
		return Unknown{Pos: script.Pos{Line: w.IntN(5), Column: 1}, Why: "lost", Found: w.IntN(2) == 0}
	}
	return Ref{w.sites[w.IntN(3)]}
}

func (w *world) value() Value {
	var kinds []Kind
	for range w.IntN(w.IntN(40) + 1) {
		kinds = append(kinds, w.kind())
	}
	v := Of(kinds...)
	if w.IntN(3) == 0 {
		v = v.proving()
	}
	return v
}

func (w *world) table() *Table {
	t := &Table{Exact: true, Origin: Origin(w.IntN(6)), many: w.IntN(3) == 0}
	for range w.IntN(4) {
		item := w.value()
		if item.Bottom() {
			item = vNil
		}
		t.Items = append(t.Items, item)
		t.Exact = t.Exact && present(item).equal(item)
	}
	for range w.IntN(3) {
		t = t.set(Of(Str{S: fmt.Sprint("f", w.IntN(3))}), Join(w.value(), vNil), script.Pos{})
	}
	if w.IntN(2) == 0 {
		t = t.set(Join(w.value(), anyIndex), Join(w.value(), vNil), script.Pos{Line: 1 + w.IntN(3)})
	}
	return t
}

// below reports whether w is at least v.
func below(v, w Value) bool { return Join(v, w).equal(w) }

func TestJoinOfValues(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range rounds {
		x, y, z := w.value(), w.value(), w.value()
		require.True(t, Join(x, y).equal(Join(y, x)), "%v %v: not commutative", x, y)
		require.True(t, Join(x, Join(y, z)).equal(Join(Join(x, y), z)), "%v %v %v: not associative", x, y, z)
		require.True(t, Join(x, x).equal(x), "%v: not idempotent", x)
		require.True(t, below(x, Join(x, y)), "%v %v: less than its part", x, y)
		require.True(t, Join(x, Value{}).equal(x), "%v: bottom adds something", x)
		if below(x, y) { // monotone
			require.True(t, below(Join(x, z), Join(y, z)))
		}
		require.True(t, below(Join(x, y), widen(x, y)), "%v %v: widening forgets", x, y)
		truths, lies := x.filter(truthy), x.filter(falsy)
		for _, k := range x.Kinds() {
			require.True(t, truthy(k) || falsy(k), "%T is neither true nor false", k)
		}
		require.True(t, x.equal(Join(truths, lies)) || x.provesTrue || x.provesFalse)
	}
}

// What a value proves is only proved where each of its parts proves it.
func TestJoinOfProofs(t *testing.T) {
	t.Parallel()
	yes, text := Of(Bool{V: true}), Of(Text{})
	require.False(t, Join(yes.proving(), text).provesTrue)
	require.True(t, Join(yes.proving(), Of(Bool{})).provesTrue) // what is false says nothing of what is true
	require.False(t, Join(yes, Of(Bool{}).proving()).provesTrue)
	require.True(t, Join(yes.proving(), text.proving()).provesTrue)
}

func TestJoinOfTables(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range rounds {
		x, y, z := w.table(), w.table(), w.table()
		require.True(t, joinTables(x, y).equal(joinTables(y, x)), "not commutative")
		require.True(t, joinTables(x, joinTables(y, z)).equal(joinTables(joinTables(x, y), z)), "not associative")
		require.True(t, joinTables(x, x).equal(x), "not idempotent")
		joined, index := joinTables(x, y), w.value()
		for _, part := range []*Table{x, y} {
			require.True(t, known(part.get(index), joined.get(index)), "%s: %v is more than %v", index.kinds,
				part.get(index), joined.get(index))
		}
	}
}

// known reports whether w has all that v may be. The nil of what is not there and that
// behind the end of a list are the same to it.
func known(v, w Value) bool {
	return below(v.each(sameNil), w.each(sameNil))
}

func sameNil(k Kind) Value {
	switch k := k.(type) {
	case Absent:
		return vNil
	case Missing:
		if k.Nil {
			return vNil
		}
	case Key, Arg, Empty: // which entry it is depends on the table's length
		return Value{}
	}
	return Of(k)
}

func TestJoinOfProgress(t *testing.T) {
	t.Parallel()
	all := []Progress{Unchecked, Passed, Wrote, Stored}
	for _, p := range all {
		require.Equal(t, p, joinProgress(p, p))
		require.Equal(t, Unchecked, joinProgress(p, Unchecked))
		for _, q := range all {
			require.Equal(t, joinProgress(p, q), joinProgress(q, p))
			for _, r := range all {
				require.Equal(t, joinProgress(p, joinProgress(q, r)), joinProgress(joinProgress(p, q), r))
			}
		}
	}
}

func TestJoinOfStates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range rounds / 10 {
		x, y := w.state(), w.state()
		xy, yx := joinStates(x.clone(), y.clone()), joinStates(y.clone(), x.clone())
		require.True(t, xy.equal(yx))
		require.True(t, joinStates(x.clone(), x.clone()).equal(x))
		require.True(t, joinStates(xy.clone(), x.clone()).equal(xy))
		require.Same(t, x, joinStates(x, nil))
		wide := xy.clone()
		widenState(x, wide)
		require.True(t, joinStates(wide.clone(), xy).equal(wide), "widening forgets")
	}
}

// A chain of widenings ends, whatever comes.
func TestWideningEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 10 {
		v, steps := w.value(), 0
		for i := range 300 {
			next := widen(v, Join(w.value(), Of(Num{F: float64(i)}, Str{S: fmt.Sprint(i)}, Num{F: float64(i) + 0.25})))
			if !next.equal(v) {
				steps++
			}
			v = next
		}
		require.Less(t, steps, 200)
	}
}

// What is stored is found again, and nothing that was there is forgotten but where it
// is certain that it has been replaced.
func TestTablesKeepWhatIsStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range rounds {
		table, index, v := w.table(), Of(w.kind()), Join(w.value(), Of(Text{Class: JSON}))
		k, _ := index.only()
		if TypeOf(k) == "nil" {
			continue // an error
		}
		after := table.set(index, v, script.Pos{Line: 7})
		require.True(t, known(v, after.get(index)), "%v stored at %v is %v", v, index, after.get(index))
		other := w.value()
		if table.many {
			require.True(t, known(table.get(other), after.get(other)))
		}
		for _, exact := range []Kind{Str{S: "f1"}, Num{F: 1}} {
			if !mayEqual(k, exact) { // another place
				require.True(t, known(table.get(Of(exact)), after.get(Of(exact))), "%v is lost at %v",
					table.get(Of(exact)), exact)
			}
		}
	}
}

// callables are the full names of all functions that a script finds.
func callables() []string {
	var all []string
	for name := range globals {
		if _, library := members[name]; !library && name != "KEYS" && name != "ARGV" && name != "_G" &&
			name != "_VERSION" {
			all = append(all, name)
		}
	}
	for library, names := range members {
		for _, name := range names {
			if full := library + "." + name; builtin(library, name).equal(Of(Builtin{full})) {
				all = append(all, full)
			}
		}
	}
	return all
}

// Every transfer function has an answer for everything, or says that an error is raised;
// more that may go in never makes less come out.
func TestTransferFunctions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	node := &ast.NilExpr{}
	functions := map[string]func(st *state, x, y Value) Value{
		"length": func(st *state, x, _ Value) Value { return w.a.length(st, x) },
		"index":  func(st *state, x, y Value) Value { return w.a.index(st, node, x, y) },
	}
	for operator := range arithmeticEvents {
		functions[operator] = func(st *state, x, y Value) Value { return w.a.arithmetic(st, node, operator, x, y) }
	}
	for _, name := range callables() {
		functions[name] = func(st *state, x, y Value) Value {
			return w.a.builtin(st, node, name, List{Items: []Value{x, y}}).all()
		}
	}
	for range 20 {
		st, x, y, more := w.state(), Join(w.value(), Of(w.kind())), w.value(), w.value()
		for name, call := range functions {
			if name == "setmetatable" && w.IntN(4) > 0 {
				continue // tables with metatables everywhere leave little to the others
			}
			w.a.steps = 0
			less, all := st.clone(), st.clone()
			call(less, x, y)
			call(all, Join(x, more), y)
			require.False(t, !less.dead && all.dead, "%s(%v) raises an error, and with less it does not: %v", name,
				Join(x, more), x)
		}
	}
}

// A call may have no arguments at all, or too many, or a number of them that is not known.
func TestAnyNumberOfArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 20 {
		st := w.state()
		items := []Value{w.value(), w.value(), w.value(), w.value()}
		for _, name := range callables() {
			for n := range items {
				for _, open := range []bool{false, true} {
					w.a.steps = 0
					require.NotPanics(t, func() {
						w.a.builtin(st.clone(), &ast.NilExpr{}, name, List{Items: items[:n], Rest: w.value(), Open: open})
					}, "%s of %d", name, n)
				}
			}
		}
	}
}

// A fault of the generator is a finding that names the script, in place of a stack.
func TestFaultIsAFinding(t *testing.T) {
	t.Parallel()
	s, findings := script.Parse("x.lua",
		[]byte("-- mode: write\n-- KEYS[1] k key\n-- returns: none\nredis.call('DEL', KEYS[1])\n"))
	require.Empty(t, findings)
	call := &ast.FuncCallStmt{Expr: &ast.FuncCallExpr{}} // of nothing, which no text has
	call.SetLine(4)
	s.Body = append(s.Body, call)
	facts := Analyze(s)
	require.NotNil(t, facts.Overrun)
	require.Contains(t, facts.Overrun.Message, "fault of the generator")
	require.Equal(t, 4, facts.Overrun.Pos.Line)
}

// Arithmetic with more on one side has all results of less.
func TestArithmeticIsMonotone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	node := &ast.NilExpr{}
	plain := func(v Value) Value { return v.filter(func(k Kind) bool { return !isRef(k) }) }
	for range rounds {
		x, y, more := plain(w.value()), plain(w.value()), plain(w.value())
		for operator := range arithmeticEvents {
			less := w.a.arithmetic(&state{}, node, operator, x, y)
			all := w.a.arithmetic(&state{}, node, operator, Join(x, more), y)
			for _, k := range less.kinds {
				require.True(t, all.mayBe(func(l Kind) bool {
					if n, ok := k.(Num); ok {
						m, also := l.(Number)
						return k == l || also && (m.Class == Any || m.Class == Fraction || m.Class == classOf(n.F))
					}
					return TypeOf(l) == TypeOf(k)
				}), "%v %s %v: %v is lost in %v", x, operator, y, k, all)
			}
		}
	}
}

// What type() answers decides which kinds may be equal.
func TestEqualityOfKinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range rounds {
		k, l := w.kind(), w.kind()
		require.Equal(t, mayEqual(k, l), mayEqual(l, k), "%#v %#v", k, l)
		if sameValue(k, l) {
			require.True(t, mayEqual(k, l), "%#v and %#v are the same, and not equal", k, l)
		}
		if TypeOf(k) != "" && TypeOf(l) != "" && TypeOf(k) != TypeOf(l) {
			require.False(t, mayEqual(k, l))
		}
		if mayEqual(k, l) { // narrowing to what is equal keeps what is
			met := meet(k, l)
			require.True(t, met == k || met == l || mayEqual(met, l), "%#v %#v: %#v", k, l, met)
		}
	}
}
