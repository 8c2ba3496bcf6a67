package analyze

import (
	"slices"

	"github.com/yuin/gopher-lua/ast"
)

// cond follows a condition: its value, and the states in which it is true and not. A
// state is nil where the condition never comes out so. It takes st over.
func (a *analyzer) cond(st *state, e ast.Expr) (v Value, yes, no *state) {
	return a.condition(st, e, true)
}

// condition is cond; tested says that the expression decides something, rather than
// being passed on as b is in a and b.
func (a *analyzer) condition(st *state, e ast.Expr, tested bool) (v Value, yes, no *state) {
	switch n := e.(type) {
	case *ast.UnaryNotOpExpr:
		v, yes, no = a.cond(st, n.Expr)
		var negated Value
		if v.mayBe(truthy) {
			negated = Of(Bool{})
		}
		if v.mayBe(falsy) {
			negated = Join(negated, Of(Bool{V: true}))
		}
		negated.provesTrue, negated.provesFalse = v.provesFalse, v.provesTrue
		return negated.settled(), no, yes
	case *ast.LogicalOpExpr:
		return a.logical(st, n, tested)
	case *ast.RelationalOpExpr:
		return a.relation(st, n)
	}
	v = a.expr(st, e)
	if st.dead {
		return v, nil, nil
	}
	if tested {
		a.test(e, Test{Pos: a.script.Pos(e), Left: v})
	}
	yes, no = a.split(st, e, v)
	return v, yes, no
}

// split tells the states in which an expression that has been followed is true and not.
func (a *analyzer) split(st *state, e ast.Expr, v Value) (yes, no *state) {
	if v.mayBe(truthy) {
		yes = st.clone()
		a.narrow(yes, e, truthy)
		if v.provesTrue {
			yes.pass()
		}
		if call := pcallOf(v, true); call > 0 {
			yes.without(call)
		}
	}
	if v.mayBe(falsy) {
		no = st
		a.narrow(no, e, falsy)
		if v.provesFalse || a.nothingThere(v.filter(falsy)) {
			no.pass()
		}
	}
	return yes, no
}

// pass notes that the guard is kept.
func (s *state) pass() {
	if s.progress == Unchecked {
		s.progress = Passed
	}
}

// pcallOf returns the pcall of which v tells whether it went well.
func pcallOf(v Value, when bool) int {
	call := 0
	for _, k := range v.kinds {
		b, ok := k.(Bool)
		if !ok || b.Call == 0 || call != 0 && b.Call != call {
			if when == truthy(k) {
				return 0
			}
			continue
		}
		call = b.Call
	}
	return call
}

// same notes that the caller's fence is not above the stored one: where it is not below
// either, it is stored.
func (s *state) same(notAbove bool) {
	if notAbove && s.progress == Passed {
		s.progress = Stored
	}
}

// without drops the error of a pcall that turns out to have gone well.
func (s *state) without(call int) {
	not := func(k Kind) bool { r, ok := k.(Raised); return !ok || r.Call != call }
	for i, v := range s.frame {
		s.frame[i] = v.filter(not)
	}
	for at, h := range s.cells {
		s.cells[at] = held{h.Value.filter(not), h.many}
	}
}

// nothingThere reports whether v tells that no fence is stored: where none is, none
// is larger.
func (a *analyzer) nothingThere(v Value) bool {
	if g := a.script.Guard; g == nil || !g.Fenced || v.Bottom() {
		return false
	}
	return !v.mayBe(func(k Kind) bool {
		m, ok := k.(Missing)
		return !ok || !a.fence(m.Of)
	})
}

func (a *analyzer) logical(st *state, n *ast.LogicalOpExpr, tested bool) (Value, *state, *state) {
	left, yes, no := a.cond(st, n.Lhs)
	if n.Operator == "and" {
		if yes == nil {
			return left.filter(falsy), nil, no
		}
		passed := yes.progress != Unchecked
		right, both, second := a.condition(yes, n.Rhs, tested)
		if passed {
			right = right.proving()
		}
		return Join(left.filter(falsy), right), both, joinStates(no, second)
	}
	if no == nil {
		return left, yes, nil
	}
	passed := no.progress != Unchecked
	right, second, neither := a.condition(no, n.Rhs, tested)
	right = defaulted(left, right)
	if passed {
		right = right.proving()
	}
	return Join(left.filter(truthy), right), joinStates(yes, second), neither
}

// defaulted marks the constants that stand in for what was not there.
func defaulted(left, right Value) Value {
	source := Source{}
	for _, k := range left.kinds {
		if !falsy(k) {
			continue
		}
		m, ok := k.(Missing)
		if !ok || m.Of == (Source{}) || source != (Source{}) && source != m.Of {
			return right
		}
		source = m.Of
	}
	if source == (Source{}) {
		return right
	}
	return right.each(func(k Kind) Value {
		switch k := k.(type) {
		case Num:
			return Of(Num{k.F, source})
		case Str:
			return Of(Str{k.S, source})
		}
		return Of(k)
	})
}

var turned = map[string]string{"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "~=": "~="}

func (a *analyzer) relation(st *state, n *ast.RelationalOpExpr) (Value, *state, *state) {
	left := a.expr(st, n.Lhs)
	right := a.expr(st, n.Rhs)
	if st.dead {
		return Value{}, nil, nil
	}
	a.test(n, Test{Pos: a.script.Pos(n), Operator: n.Operator, Left: left, Right: right, Literal: literal(n.Lhs) || literal(n.Rhs)})
	a.emptyCompared(left, right)
	a.emptyCompared(right, left)
	var decided Value
	switch n.Operator {
	case "==", "~=":
		if left.mayBe(isRef) && right.mayBe(isRef) {
			decided = a.event(st, n, "__eq", left, right)
		}
	default:
		decided = a.less(st, n, n.Operator, left, right)
	}
	if !decided.Bottom() { // a metatable decides
		return Of(Bool{V: true}, Bool{}), st.clone(), st
	}
	if n.Operator != "==" && n.Operator != "~=" {
		return a.order(st, n, left, right)
	}
	equal, differ := compare(left, right)
	var yes, no *state
	if differ {
		no = st.clone()
		a.narrowTo(no, n.Lhs, n.Rhs, right, false)
		a.narrowTo(no, n.Rhs, n.Lhs, left, false)
		a.narrowType(no, n, left, right, false)
	}
	if equal {
		yes = st
		a.narrowTo(yes, n.Lhs, n.Rhs, right, true)
		a.narrowTo(yes, n.Rhs, n.Lhs, left, true)
		a.narrowType(yes, n, left, right, true)
		if a.nothingThere(left.filter(falsy)) && !right.mayBe(truthy) || a.nothingThere(right.filter(falsy)) && !left.mayBe(truthy) {
			yes.pass()
		}
	}
	a.equalsTruth(left, right, yes, no)
	a.equalsTruth(right, left, yes, no)
	var v Value
	if equal {
		v = Join(v, Of(Bool{V: true}))
	}
	if differ {
		v = Join(v, Of(Bool{}))
	}
	v.provesTrue = v.provesTrue || a.held(left, right)
	if v.provesTrue && yes != nil && a.script.Guard != nil {
		yes.pass()
	}
	if n.Operator == "~=" {
		var negated Value
		for _, k := range v.kinds {
			negated = Join(negated, Of(Bool{V: !k.(Bool).V}))
		}
		negated.provesTrue, negated.provesFalse = v.provesFalse, v.provesTrue
		return negated.settled(), no, yes
	}
	return v.settled(), yes, no
}

// equalsTruth follows v == true and v == false: what v proves is proved then.
func (a *analyzer) equalsTruth(v, constant Value, yes, no *state) {
	k, _ := constant.only()
	b, ok := k.(Bool)
	if !ok || !v.All(func(k Kind) bool { return TypeOf(k) == "boolean" }) {
		return
	}
	isTrue, isFalse := yes, no
	if !b.V {
		isTrue, isFalse = no, yes
	}
	if isTrue != nil && v.provesTrue {
		isTrue.pass()
	}
	if isFalse != nil && v.provesFalse {
		isFalse.pass()
	}
}

// order follows <, <=, > and >=.
func (a *analyzer) order(st *state, n *ast.RelationalOpExpr, left, right Value) (Value, *state, *state) {
	v := Of(Bool{V: true}, Bool{})
	if l, ok := left.Num(); ok {
		if r, ok := right.Num(); ok {
			holds := map[string]bool{"<": l < r, "<=": l <= r, ">": l > r, ">=": l >= r}[n.Operator]
			v = Of(Bool{V: holds})
		}
	}
	a.operate(st, n.Lhs, n.Rhs)
	operator := n.Operator
	a.candidate(left, right)
	a.candidate(right, left)
	if a.fenceReadings(left) && a.callersFence(right) {
		left, right, operator = right, left, turned[operator]
	}
	if a.callersFence(left) && a.fenceReadings(right) {
		v.provesTrue = v.provesTrue || operator == ">" || operator == ">="
		v.provesFalse = v.provesFalse || operator == "<" || operator == "<="
	}
	fenced := a.callersFence(left) && a.fenceReadings(right)
	var yes, no *state
	if v.mayBe(truthy) {
		yes = st.clone()
		if v.provesTrue {
			yes.pass()
		}
		yes.same(fenced && operator == "<=")
	}
	if v.mayBe(falsy) {
		no = st
		if v.provesFalse {
			no.pass()
		}
		no.same(fenced && operator == ">")
	}
	return v.settled(), yes, no
}

// compare tells whether two values may be equal, and whether they may differ.
func compare(v, w Value) (equal, differ bool) {
	for _, k := range v.kinds {
		for _, l := range w.kinds {
			e := mayEqual(k, l)
			equal = equal || e
			differ = differ || !e || !sameValue(k, l)
		}
	}
	return equal, differ
}

// sameValue reports whether two kinds are one value each, and the same.
func sameValue(k, l Kind) bool {
	switch k := k.(type) {
	case Nil, Absent:
		return TypeOf(l) == "nil"
	case Bool:
		return TypeOf(l) == "boolean" && k.V == truthy(l)
	case Missing:
		return TypeOf(k) == TypeOf(l) && !truthy(l)
	case Str, Empty:
		s, _ := constantText(k)
		t, ok := constantText(l)
		return ok && s == t
	case Num:
		n, ok := l.(Num)
		return ok && n.F == k.F
	case Builtin, Command:
		return k == l
	}
	return false
}

func constantText(k Kind) (string, bool) {
	switch k := k.(type) {
	case Str:
		return k.S, true
	case Empty:
		return "", true
	}
	return "", false
}

// MayEqual reports whether two values may be equal.
func MayEqual(v, w Value) bool {
	equal, _ := compare(v, w)
	return equal
}

// TypeOf returns what Lua's type() tells of a kind; empty: it may be several things.
func TypeOf(k Kind) string {
	switch k := k.(type) {
	case Nil, Absent:
		return "nil"
	case Missing:
		if k.Nil {
			return "nil"
		}
		return "boolean"
	case Bool:
		return "boolean"
	case Str, Empty, Text, Key:
		return "string"
	case Num, Number:
		return "number"
	case Arg:
		if k.Number {
			return "number"
		}
		return "string"
	case Read:
		if k.Number {
			return "number"
		}
		return "string"
	case Command, Closure:
		return "function"
	case Builtin:
		if _, library := members[k.Name]; library {
			return "table"
		}
		if k.Name == "cjson.null" {
			return "userdata"
		}
		return "function"
	case Ref:
		return "table"
	}
	return ""
}

// mayEqual reports whether a value of each kind may be the same.
func mayEqual(k, l Kind) bool {
	s, t := TypeOf(k), TypeOf(l)
	if s == "" || t == "" {
		return true
	}
	if s != t {
		return false
	}
	switch s {
	case "nil":
		return true
	case "boolean":
		return truthy(k) == truthy(l)
	case "table", "function", "userdata":
		return k == l || s == "table" && isRef(k) && isRef(l) && k == l
	}
	if a, ok := constantText(k); ok {
		if b, ok := constantText(l); ok {
			return a == b
		}
	}
	if a, ok := k.(Num); ok {
		if b, ok := l.(Num); ok {
			return a.F == b.F
		}
	}
	return true
}

func isRef(k Kind) bool { _, is := k.(Ref); return is }

// peek tells what an expression stands for that has just been followed, where that is
// a local or a field of a table that is known. It follows no calls.
func (a *analyzer) peek(st *state, e ast.Expr) (Value, bool) {
	switch n := e.(type) {
	case *ast.IdentExpr:
		if v := a.names.uses[n]; v != nil {
			return a.read(st, v), true
		}
		switch n.Value {
		case "KEYS":
			return a.keys, true
		case "ARGV":
			return a.args, true
		}
	case *ast.StringExpr:
		return Of(Str{S: n.Value}), true
	case *ast.NumberExpr:
		return constant(n.Value), true
	case *ast.AttrGetExpr:
		object, ok := a.peek(st, n.Object)
		if !ok {
			return Value{}, false
		}
		k, single := object.only()
		ref, isTable := k.(Ref)
		index, known := a.peek(st, n.Key)
		if !single || !isTable || !known || st.heap[ref.site] == nil || !st.heap[ref.site].Meta.Bottom() {
			return Value{}, false
		}
		return a.element(st, ref, index), true
	}
	return Value{}, false
}

// narrow drops from what an expression stands for the kinds that it turns out not to be.
func (a *analyzer) narrow(st *state, e ast.Expr, is func(Kind) bool) {
	a.become(st, e, func(v Value) Value { return v.filter(is) })
}

// become replaces what an expression that has just been followed stands for by what it
// turns out to be.
func (a *analyzer) become(st *state, e ast.Expr, to func(Value) Value) {
	switch n := e.(type) {
	case *ast.IdentExpr:
		v := a.names.uses[n]
		if v == nil {
			return
		}
		if !v.captured {
			st.frame[v.slot] = to(st.frame[v.slot])
			return
		}
		at := a.cellOf(v)
		if h := st.cells[at]; !h.many {
			st.cells[at] = held{to(h.Value), false}
		}
	case *ast.UnaryLenOpExpr: // the length tells which table it is
		a.narrow(st, n.Expr, func(k Kind) bool {
			return !isRef(k) || !to(a.lengthOf(st, k)).Bottom()
		})
	case *ast.AttrGetExpr:
		object, ok := a.peek(st, n.Object)
		index, known := a.peek(st, n.Key)
		if !ok || !known {
			return
		}
		i, one := index.only()
		if !one {
			return
		}
		fits := func(k Kind) bool {
			r, isTable := k.(Ref)
			if !isTable || st.heap[r.site] == nil || !st.heap[r.site].Meta.Bottom() {
				return true
			}
			return !to(a.element(st, r, index)).Bottom()
		}
		left := object.filter(fits)
		if !left.equal(object) {
			a.narrow(st, n.Object, fits)
		}
		k, single := left.only()
		if r, isTable := k.(Ref); single && isTable {
			st.heap[r.site] = st.heap[r.site].narrowed(i, to)
		}
	}
}

// narrowed returns the table with what stands at one index narrowed.
func (t *Table) narrowed(index Kind, to func(Value) Value) *Table {
	if t.many || !t.Meta.Bottom() {
		return t
	}
	switch k := index.(type) {
	case Str:
		before := t.field(k.S)
		after := to(before)
		if _, known := t.Fields[k.S]; !known && before.equal(vNil) || after.equal(before) || after.Bottom() {
			return t
		}
		if mayIndex(t.Names, true) {
			return t // the rest may have it as well
		}
		return t.setKind(k, after, true)
	case Num:
		if i := int(k.F); float64(i) == k.F && 1 <= i && i <= len(t.Items) {
			after := to(t.Items[i-1])
			if after.Bottom() {
				return t
			}
			u := *t
			u.Items = slices.Clone(t.Items)
			u.Items[i-1] = after
			return &u
		}
	}
	return t
}

// narrowTo narrows an expression that is equal to a value, or is not. other is the
// expression that it was compared with, which was followed as well.
func (a *analyzer) narrowTo(st *state, e, other ast.Expr, to Value, equal bool) {
	if !a.steady(e, other) {
		return
	}
	if !equal {
		l, one := to.only()
		a.narrow(st, e, func(k Kind) bool { return !one || !sameValue(k, l) })
		return
	}
	a.become(st, e, func(v Value) Value {
		return v.mapped(func(k Kind) Value {
			var met Value
			for _, l := range to.kinds {
				if mayEqual(k, l) && !a.never(k, l) && !a.never(l, k) {
					met = Join(met, Of(meet(k, l)))
				}
			}
			return met
		})
	})
}

// meet returns the one of two kinds that are equal which says more.
func meet(k, l Kind) Kind {
	switch l := l.(type) {
	case Str:
		switch k.(type) {
		case Str, Empty:
		default:
			return Str{S: l.S}
		}
	case Num:
		if _, ok := k.(Num); !ok {
			return Num{F: l.F}
		}
	case Key:
		switch k.(type) {
		case Text, Arg, Read:
			return l
		}
	}
	return k
}

// steady reports whether what an expression stands for cannot be changed by following
// the others: no call in them can reach it.
func (a *analyzer) steady(e ast.Expr, others ...ast.Expr) bool {
	if name, ok := e.(*ast.IdentExpr); ok {
		if v := a.names.uses[name]; v != nil && (!v.captured || !v.assigned) {
			return true
		}
	}
	for _, other := range others {
		switch other.(type) {
		case ast.ConstExpr, *ast.IdentExpr:
			continue
		case *ast.AttrGetExpr:
			if !callFree(other) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// callFree reports whether an expression is made of names and fields only.
func callFree(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.IdentExpr, ast.ConstExpr:
		return true
	case *ast.AttrGetExpr:
		return callFree(e.Object) && callFree(e.Key)
	}
	return false
}

// element returns what a table holds at an index.
func (a *analyzer) element(st *state, r Ref, index Value) Value {
	t := st.heap[r.site]
	v := t.get(index)
	if t.shrunk || t.many {
		return v
	}
	// An index that is no larger than the length of the list is never behind its end.
	if !index.All(func(k Kind) bool { n, ok := k.(Number); return ok && n.Within == r.site }) {
		return v
	}
	if n, _ := index.kinds[0].(Number); len(index.kinds) == 1 && n.Least > 1 && t.Pairs == nil {
		behind := *t
		behind.Items = t.Items[min(n.Least-1, len(t.Items)):]
		v = behind.anyItem()
	}
	return v.filter(func(k Kind) bool { _, is := k.(Absent); return !is })
}

// never reports whether an argument cannot be that string.
func (a *analyzer) never(k, l Kind) bool {
	arg, ok := k.(Arg)
	text, isText := constantText(l)
	if !ok || !isText || arg.Number {
		return false
	}
	t, known := a.declared(arg.Index)
	return known && text == "" && t.Base != "string" && t.Base != "bytes"
}

// narrowType narrows x in type(x) == 'table'.
func (a *analyzer) narrowType(st *state, n *ast.RelationalOpExpr, left, right Value, equal bool) {
	for _, side := range []struct {
		e, other ast.Expr
		want     Value
	}{{n.Lhs, n.Rhs, right}, {n.Rhs, n.Lhs, left}} {
		call, ok := side.e.(*ast.FuncCallExpr)
		if !ok || call.Func == nil || len(call.Args) != 1 {
			continue
		}
		if fn, ok := call.Func.(*ast.IdentExpr); !ok || fn.Value != "type" || a.names.uses[fn] != nil {
			continue
		}
		if name, isConstant := side.want.Str(); isConstant && literal(side.other) {
			a.narrow(st, call.Args[0], func(k Kind) bool {
				t := TypeOf(k)
				return t == "" || (t == name) == equal
			})
		}
	}
}

// emptyCompared notes that an optional argument is compared with the empty string.
func (a *analyzer) emptyCompared(v, with Value) {
	if !with.mayBe(func(k Kind) bool { s, ok := constantText(k); return ok && s == "" }) {
		return
	}
	for _, k := range v.kinds {
		switch k := k.(type) {
		case Arg:
			a.facts.Compared[k.Index] = true
		case Empty:
			a.facts.Compared[k.Index] = true
		}
	}
}

// less follows what metatables make of <, <=, > and >=: Lua turns the operands round for
// the last two, and asks __lt where there is no __le.
func (a *analyzer) less(st *state, n ast.Expr, operator string, left, right Value) Value {
	if operator == ">" || operator == ">=" {
		left, right = right, left
	}
	if operator == "<" || operator == ">" {
		return a.event(st, n, "__lt", left, right)
	}
	return Join(a.event(st, n, "__le", left, right), a.event(st, n, "__lt", right, left))
}

// event follows what a metatable makes of an operation, for each operand that has one.
func (a *analyzer) event(st *state, n ast.Expr, name string, operands ...Value) Value {
	var result Value
	for _, v := range operands {
		for _, k := range v.kinds {
			r, ok := k.(Ref)
			if !ok || st.heap[r.site] == nil || st.heap[r.site].Meta.Bottom() {
				continue
			}
			handler := a.handler(st, st.heap[r.site].Meta, name)
			if !handler.mayBe(truthy) {
				continue
			}
			after := st.clone()
			l := a.call(after, n, handler.filter(truthy), List{Items: operands})
			if joined := joinStates(st.clone(), after); joined != nil {
				*st = *joined
			}
			result = Join(result, l.at(0))
		}
	}
	return result
}

// test notes a comparison or a condition, for all ways to it.
func (a *analyzer) test(e ast.Expr, t Test) {
	if known := a.tests[e]; known != nil {
		known.Left, known.Right = Join(known.Left, t.Left), Join(known.Right, t.Right)
		return
	}
	a.tests[e] = &t
}

// literal reports whether an expression is a constant of the text.
func literal(e ast.Expr) bool { _, is := e.(ast.ConstExpr); return is }
