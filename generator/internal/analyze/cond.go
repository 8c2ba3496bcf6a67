package analyze

import "github.com/yuin/gopher-lua/ast"

// cond follows a condition: its value, and the states in which it is true and not. A
// state is nil where the condition never comes out so. It takes st over.
func (a *analyzer) cond(st *state, e ast.Expr) (v Value, yes, no *state) {
	return a.condition(st, e, true)
}

// condition is cond; tested says that the expression decides something, rather than
// being passed on as b is in a and b.
func (a *analyzer) condition(st *state, e ast.Expr, tested bool) (v Value, yes, no *state) {
	a.reach.exprs[e] = true
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
	for at, t := range s.heap {
		s.heap[at] = t.mapped(func(v Value) Value { return v.filter(not) })
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
	right = a.defaulted(left, right)
	if passed {
		right = right.proving()
	}
	return Join(left.filter(truthy), right), joinStates(yes, second), neither
}

// defaulted marks what stands in for what was not there: constants, and the caller's fence.
func (a *analyzer) defaulted(left, right Value) Value {
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
		case Arg:
			if g := a.script.Guard; g != nil && g.Fenced && k.Index == g.Arg {
				k.Default = source
				return Of(k)
			}
		}
		return Of(k)
	})
}

var turned = map[string]string{"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "~=": "~="}

func (a *analyzer) relation(st *state, n *ast.RelationalOpExpr) (Value, *state, *state) {
	left := a.expr(st, n.Lhs)
	right := a.expr(st, n.Rhs)
	left = a.late(st, n.Lhs, left)
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
		a.notZero(no, n.Lhs, n.Rhs, right)
		a.notZero(no, n.Rhs, n.Lhs, left)
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

// equalsTruth follows v == true and v == false: what v proves is proved then. A value that
// is not true may still count as true, and one that is not false as false.
func (a *analyzer) equalsTruth(v, constant Value, yes, no *state) {
	k, _ := constant.only()
	b, ok := k.(Bool)
	if !ok {
		return
	}
	notBoolean := func(k Kind) bool { return TypeOf(k) != "boolean" }
	isTrue, isFalse := yes, no
	if !b.V {
		isTrue, isFalse = no, yes
	}
	if isTrue != nil && (b.V || !v.filter(falsy).mayBe(notBoolean)) {
		if v.provesTrue {
			isTrue.pass()
		}
		if call := pcallOf(v, true); call > 0 {
			isTrue.without(call)
		}
	}
	if isFalse != nil && v.provesFalse && (!b.V || !v.filter(truthy).mayBe(notBoolean)) {
		isFalse.pass()
	}
}

// order follows <, <=, > and >=.
func (a *analyzer) order(st *state, n *ast.RelationalOpExpr, left, right Value) (Value, *state, *state) {
	if !left.mayBe(operand) || !right.mayBe(operand) {
		st.dead = true // an error
		return Value{}, nil, nil
	}
	v := Of(Bool{V: true}, Bool{})
	if l, ok := left.Num(); ok {
		if r, ok := right.Num(); ok {
			holds := map[string]bool{"<": l < r, "<=": l <= r, ">": l > r, ">=": l >= r}[n.Operator]
			v = Of(Bool{V: holds})
		}
	}
	a.operate(st, n.Lhs, n.Rhs)
	operator, lhs, rhs := n.Operator, left, right
	a.candidate(left, right)
	a.candidate(right, left)
	if a.fenceReadings(left) && a.callersFence(right) {
		left, right, operator = right, left, turned[operator]
	}
	if a.callersFence(left) && a.fenceReadings(right) {
		v.provesTrue = v.provesTrue || operator == ">" || operator == ">="
		v.provesFalse = v.provesFalse || operator == "<" || operator == "<="
	}
	fenced := a.callersFence(left) && a.fenceReadings(right) && !right.mayBe(standsIn)
	var yes, no *state
	if v.mayBe(truthy) {
		yes = st.clone()
		if v.provesTrue {
			yes.pass()
		}
		yes.same(fenced && operator == "<=")
		switch n.Operator {
		case "<", "<=":
			a.notBeyond(yes, n.Lhs, n.Rhs)
			a.above(yes, n.Rhs, n.Lhs, lhs, n.Operator == "<=")
		case ">", ">=":
			a.notBeyond(yes, n.Rhs, n.Lhs)
			a.above(yes, n.Lhs, n.Rhs, rhs, n.Operator == ">=")
		}
	}
	if v.mayBe(falsy) {
		no = st
		if v.provesFalse {
			no.pass()
		}
		no.same(fenced && operator == ">")
		switch n.Operator {
		case "<", "<=":
			a.above(no, n.Lhs, n.Rhs, rhs, n.Operator == "<")
		case ">", ">=":
			a.above(no, n.Rhs, n.Lhs, lhs, n.Operator == ">")
		}
	}
	return v.settled(), yes, no
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
