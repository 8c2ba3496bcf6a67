package analyze

import "github.com/yuin/gopher-lua/ast"

// cond follows a condition. It returns the value, and the states in which the value is true and false. A
// state is nil if the condition never has that outcome. The caller of cond must not use st again.
func (a *analyzer) cond(st *state, e ast.Expr) (v Value, yes, no *state) {
	return a.condition(st, e, decides)
}

// decide follows the condition of a branch. In if not x then x = 0 end, 0 stands in for x, as in x or 0.
func (a *analyzer) decide(st *state, n *ast.IfStmt) (yes, no *state) {
	if name := filled(n); name != nil {
		a.reach.exprs[n.Condition] = true
		_, no, yes = a.condition(st, name, standIn)
		return yes, no
	}
	_, yes, no = a.cond(st, n.Condition)
	return yes, no
}

// filled returns the local that a branch fills with a value if the local has none. The branch does nothing
// else.
func filled(n *ast.IfStmt) ast.Expr {
	not, ok := n.Condition.(*ast.UnaryNotOpExpr)
	if !ok || len(n.Then) != 1 || len(n.Else) > 0 {
		return nil
	}
	assign, ok := n.Then[0].(*ast.AssignStmt)
	if !ok || len(assign.Lhs) != 1 {
		return nil
	}
	asked, isName := not.Expr.(*ast.IdentExpr)
	given, also := assign.Lhs[0].(*ast.IdentExpr)
	if !isName || !also || asked.Value != given.Value {
		return nil
	}
	return not.Expr
}

// condition is cond for an expression with a role.
func (a *analyzer) condition(st *state, e ast.Expr, as role) (v Value, yes, no *state) {
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
		return a.logical(st, n, as)
	case *ast.RelationalOpExpr:
		return a.relation(st, n)
	}
	v = a.expr(st, e)
	if st.dead {
		return v, nil, nil
	}
	if as != passedOn {
		a.truth(st, e, v, as)
	}
	yes, no = a.split(st, e, v)
	return v, yes, no
}

// split returns the states in which the value of a followed expression is true and false.
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

// pcallOf returns the pcall whose success v tells.
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

// same notes that the caller's fence is not above the stored fence. If it is not below either, the stored
// fence is the caller's.
func (s *state) same(notAbove bool) {
	if notAbove && s.progress == Passed {
		s.progress = Stored
	}
}

// without drops the error of a pcall that succeeded.
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

// nothingThere reports whether v proves that no fence is stored. A missing fence is not above the caller's.
func (a *analyzer) nothingThere(v Value) bool {
	if g := a.script.Guard; g == nil || !g.Fenced || v.Bottom() {
		return false
	}
	return !v.mayBe(func(k Kind) bool {
		m, ok := k.(Missing)
		return !ok || !a.fence(m.Of)
	})
}

func (a *analyzer) logical(st *state, n *ast.LogicalOpExpr, as role) (Value, *state, *state) {
	first := decides
	if n.Operator == "or" && as != decides && (isAnd(n.Lhs) || !a.asks(n.Rhs)) {
		first = standIn
	}
	left, yes, no := a.condition(st, n.Lhs, first)
	if n.Operator == "and" {
		if yes == nil {
			return left.filter(falsy), nil, no
		}
		passed := yes.progress != Unchecked
		right, both, second := a.condition(yes, n.Rhs, as)
		if passed {
			right = right.proving()
		}
		return Join(left.filter(falsy), right), both, joinStates(no, second)
	}
	if no == nil {
		return left, yes, nil
	}
	passed := no.progress != Unchecked
	right, second, neither := a.condition(no, n.Rhs, as)
	right = a.defaulted(left, right)
	if passed {
		right = right.proving()
	}
	return Join(left.filter(truthy), right), joinStates(yes, second), neither
}

// defaulted marks values that stand in for a missing one: constants, and the caller's fence.
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
	t := a.test(n, Test{Operator: n.Operator, Left: left, Right: right})
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
		t.came(true, true)
		return Of(Bool{V: true}, Bool{}), st.clone(), st
	}
	if n.Operator != "==" && n.Operator != "~=" {
		v, yes, no := a.order(st, n, left, right)
		never, always := a.outside(left, right, n.Operator, true), a.outside(left, right, n.Operator, false)
		t.came(yes != nil && !never, no != nil && !always)
		return v, yes, no
	}
	equal, differ := compare(left, right)
	if meet := equal && a.mayMeet(left, right); n.Operator == "==" {
		t.came(meet, differ)
	} else {
		t.came(differ, meet)
	}
	if t.Counts == "" {
		t.Counts = a.countsReply(st, n.Lhs) + a.countsReply(st, n.Rhs)
	}
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
		if a.nothingThere(left.filter(falsy)) && !right.mayBe(truthy) ||
			a.nothingThere(right.filter(falsy)) && !left.mayBe(truthy) {
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

// equalsTruth follows v == true and v == false. The comparison proves what v proves. A value other than true
// may still be truthy, and a value other than false may still be falsy.
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

func (a *analyzer) order(st *state, n *ast.RelationalOpExpr, left, right Value) (Value, *state, *state) {
	if !left.mayBe(operand) || !right.mayBe(operand) {
		st.dead = true // the comparison raises an error
		return Value{}, nil, nil
	}
	v := Of(Bool{V: true}, Bool{})
	if l, ok := left.Num(); ok {
		if r, ok := right.Num(); ok {
			v = Of(Bool{V: ordered(l, n.Operator, r)})
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

// emptyCompared notes that the script compares an optional argument with the empty string.
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

func ordered(l float64, operator string, r float64) bool {
	return map[string]bool{"<": l < r, "<=": l <= r, ">": l > r, ">=": l >= r}[operator]
}

// outside reports whether a comparison of 0 or 1 with a constant never has this outcome.
func (a *analyzer) outside(left, right Value, operator string, holds bool) bool {
	if _, constant := left.Num(); constant {
		left, right, operator = right, left, turned[operator]
	}
	r, constant := right.Num()
	binary := func(k Kind) bool {
		q, ok := a.quantity(k)
		return ok && q.class == Binary && TypeOf(k) == "number"
	}
	return constant && left.All(binary) && ordered(0, operator, r) != holds && ordered(1, operator, r) != holds
}

// truth notes a test that asks only whether a value is true.
func (a *analyzer) truth(st *state, e ast.Expr, v Value, as role) {
	if v.All(func(k Kind) bool { return a.isStatus(st, k) }) {
		return
	}
	t := a.test(e, Test{Left: v})
	t.standIn = as == standIn
	t.came(v.mayBe(truthy), v.mayBe(falsy))
}

func isAnd(e ast.Expr) bool {
	n, ok := e.(*ast.LogicalOpExpr)
	return ok && n.Operator == "and"
}

// asks reports whether an expression calls a command or a function of the script.
func (a *analyzer) asks(e ast.Expr) bool {
	call, ok := e.(*ast.FuncCallExpr)
	if !ok {
		return false
	}
	switch f := call.Func.(type) {
	case *ast.IdentExpr:
		return a.names.uses[f] != nil
	case *ast.AttrGetExpr:
		library, ok := f.Object.(*ast.IdentExpr)
		return ok && a.names.uses[library] == nil && isServer(library.Value)
	}
	return false
}
