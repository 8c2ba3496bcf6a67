package analyze

import (
	"slices"

	"github.com/yuin/gopher-lua/ast"
)

// peek returns the value of an expression after the analysis followed it. The expression is a constant, a
// local or a field of a known table. peek follows no calls.
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

// narrow drops kinds from the value of an expression, because a test excludes them.
func (a *analyzer) narrow(st *state, e ast.Expr, is func(Kind) bool) {
	a.become(st, e, func(v Value) Value { return v.filter(is) })
}

// become replaces the value of an expression by what a test says about it. The analysis must have followed
// the expression directly before.
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
		a.isIndex(st, n.Key, object, index, to)
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

// isIndex notes that a number is the index of an element, because the element is not nil. Only an index leads
// to an element in a list without a gap.
func (a *analyzer) isIndex(st *state, e ast.Expr, list, index Value, to func(Value) Value) {
	k, one := list.only()
	ref, isTable := k.(Ref)
	if _, name := e.(*ast.IdentExpr); !name || !one || !isTable || !st.heap[ref.site].gapless() ||
		!st.heap[ref.site].Meta.Bottom() || !to(Join(absent, vNil)).Bottom() {
		return
	}
	if !index.mayBe(func(k Kind) bool { _, ok := k.(Num); return ok }) {
		a.become(st, e, func(v Value) Value { return withinList(v, ref.site) })
	}
}

func withinList(v Value, at *site) Value {
	return v.mapped(func(k Kind) Value {
		switch n := k.(type) {
		case Number:
			if n.Within == nil && n.Unit == None {
				return Of(Number{Class: Integer, Within: at, Least: 1})
			}
		case Num:
			if _, ok := whole(Of(k)); ok {
				return Of(Number{Class: Integer, Within: at, Least: 1})
			}
		}
		return Of(k)
	})
}

// narrowed returns the table with a narrower value at one index.
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
			return t // the rest may have the name too
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

// narrowTo narrows an expression that is equal to a value, or differs from it. other is the other side of the
// comparison.
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

// steady reports whether the other expressions leave the value of an expression unchanged. No call in them
// can change it.
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
			if !a.callFree(other) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// callFree reports whether an expression has only names and fields, and no metatable called a function for
// them. The analysis must have followed the expression directly before.
func (a *analyzer) callFree(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.IdentExpr, ast.ConstExpr:
		return true
	case *ast.AttrGetExpr:
		return !a.eventful[e] && a.callFree(e.Object) && a.callFree(e.Key)
	}
	return false
}

// element returns the value of a table at an index.
func (a *analyzer) element(st *state, r Ref, index Value) Value {
	t := st.heap[r.site]
	v := t.get(index)
	if t.shrunk || !t.gapless() {
		return v
	}
	// An index that is not above the length of the list is an element. The length itself is 0 if the list is
	// empty.
	if !index.All(func(k Kind) bool {
		n, ok := k.(Number)
		return ok && n.Within == r.site && (n.Least > 0 || n.isLengthOf(r.site) && t.holds())
	}) {
		return v
	}
	if n, _ := index.kinds[0].(Number); len(index.kinds) == 1 && n.Least > 1 && t.Pairs == nil {
		behind := *t
		behind.Items = t.Items[min(n.Least-1, len(t.Items)):]
		v = behind.anyItem()
	}
	return v.filter(func(k Kind) bool { return !isAbsent(k) })
}

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
