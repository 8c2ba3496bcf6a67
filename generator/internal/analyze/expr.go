package analyze

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// list follows expressions. The last may have any number of values.
func (a *analyzer) list(st *state, exprs []ast.Expr) List { return a.listOf(st, exprs, func(int) {}) }

// listOf is list, and calls each after every expression with one value.
func (a *analyzer) listOf(st *state, exprs []ast.Expr, each func(i int)) List {
	var l List
	for i, e := range exprs {
		pos := a.script.Pos(e)
		if i == len(exprs)-1 {
			var more List
			var many bool
			if did := a.during(func() { more, many = a.several(st, e) }); many {
				l.forget(did.answered)
				if i == 0 {
					l.first = more.first
				}
				for j, v := range more.Items {
					l.Items = append(l.Items, v)
					at := pos
					if _, dots := e.(*ast.Comma3Expr); dots { // the place is that of the caller's argument
						at = more.place(j, pos)
					}
					l.pos = append(l.pos, at)
				}
				l.Rest, l.Open, l.lone, l.Pairs, l.cut, l.end = more.Rest, more.Open, more.lone, more.Pairs, more.cut, pos
				if _, dots := e.(*ast.Comma3Expr); dots && more.end.Line > 0 {
					l.end = more.end
				}
				return l
			}
		}
		var v Value
		did := a.during(func() { v = a.expr(st, e) })
		l.forget(did.answered)
		l.Items = append(l.Items, v)
		each(i)
		l.pos = append(l.pos, a.origin(e, pos))
	}
	return l
}

// origin returns the place that the value of an expression comes from. For a parameter, it is the place of
// the caller's argument.
func (a *analyzer) origin(e ast.Expr, pos script.Pos) script.Pos {
	if name, ok := e.(*ast.IdentExpr); ok {
		if v := a.names.uses[name]; v != nil && v.param > 0 && !v.assigned && v.owner == a.run.fn {
			return a.run.args.place(v.param-1, pos)
		}
	}
	return pos
}

// several follows an expression that may have several values.
func (a *analyzer) several(st *state, e ast.Expr) (List, bool) {
	switch n := e.(type) {
	case *ast.FuncCallExpr:
		if !n.AdjustRet {
			return a.callExpr(st, n), true
		}
	case *ast.Comma3Expr:
		if !n.AdjustRet {
			return a.run.varargs, true
		}
	}
	return List{}, false
}

// expr follows an expression, and returns its value.
func (a *analyzer) expr(st *state, e ast.Expr) Value {
	a.step(e.Line())
	if a.depth++; a.depth > 4*mostDepth {
		a.stop(e.Line(), "this is nested too deeply to be followed; give its parts names")
	}
	defer func() { a.depth-- }()
	a.reach.exprs[e] = true
	switch n := e.(type) {
	case *ast.NilExpr:
		return vNil
	case *ast.TrueExpr:
		return Of(Bool{V: true})
	case *ast.FalseExpr:
		return Of(Bool{})
	case *ast.StringExpr:
		return Of(Str{S: n.Value})
	case *ast.NumberExpr:
		return constant(n.Value)
	case *ast.Comma3Expr:
		return a.run.varargs.at(0)
	case *ast.IdentExpr:
		return a.name(st, n)
	case *ast.AttrGetExpr:
		var object, key, v Value
		did := a.during(func() {
			object, key = a.expr(st, n.Object), a.expr(st, n.Key)
			object = a.late(st, n.Object, object)
			v = a.index(st, n, object, key)
			a.field(st, n, object, key, v)
		})
		if did.eventful {
			a.eventful[n] = true
		}
		if v.mayBe(isAbsent) && a.isElement(st, n, object, key) {
			v = v.filter(func(k Kind) bool { return !isAbsent(k) })
		}
		if a.isName(st, n, object) {
			v = present(v)
		}
		return v
	case *ast.TableExpr:
		return a.table(st, n)
	case *ast.FunctionExpr:
		return a.closure(n)
	case *ast.FuncCallExpr:
		l := a.callExpr(st, n)
		return l.at(0)
	case *ast.LogicalOpExpr, *ast.RelationalOpExpr, *ast.UnaryNotOpExpr:
		v, yes, no := a.condition(st, e, passedOn)
		after := joinStates(yes, no)
		if after == nil {
			st.dead = true
			return v
		}
		*st = *after
		return v
	case *ast.StringConcatOpExpr:
		return a.concat(st, n)
	case *ast.ArithmeticOpExpr:
		left, right := a.expr(st, n.Lhs), a.expr(st, n.Rhs)
		left = a.late(st, n.Lhs, left)
		var v Value
		if did := a.during(func() { v = a.arithmetic(st, n, n.Operator, left, right) }); !did.eventful {
			a.operate(st, n.Lhs, n.Rhs)
		}
		return v
	case *ast.UnaryMinusOpExpr:
		return a.arithmetic(st, n, "-", Of(Num{}), a.expr(st, n.Expr))
	case *ast.UnaryLenOpExpr:
		v := a.expr(st, n.Expr)
		a.listed(st, n, v)
		return a.length(st, v)
	}
	return a.lost(e, "an expression of this form is not followed")
}

// late returns the value of an operand when Lua does the operation. Lua reads a local of the running function
// only then, and a call in between may have changed it.
func (a *analyzer) late(st *state, e ast.Expr, v Value) Value {
	name, ok := e.(*ast.IdentExpr)
	if !ok || st.dead {
		return v
	}
	if local := a.names.uses[name]; local != nil && local.captured && local.assigned {
		return Join(v, a.read(st, local))
	}
	return v
}

// constant reads a number as Lua does.
func constant(text string) Value {
	if f, err := strconv.ParseFloat(text, 64); err == nil && !math.IsInf(f, 0) && !math.IsNaN(f) {
		return Of(Num{F: f})
	}
	if n, err := strconv.ParseUint(strings.TrimPrefix(strings.TrimPrefix(text, "0x"), "0X"), 16,
		64); err == nil {
		return Of(Num{F: float64(n)})
	}
	return Of(Number{Class: Any})
}

func (a *analyzer) name(st *state, n *ast.IdentExpr) Value {
	if v := a.names.uses[n]; v != nil {
		value := a.read(st, v)
		if value.Bottom() && !st.dead {
			return a.lost(n, "what "+n.Value+" stands for was never learned")
		}
		return value
	}
	switch n.Value {
	case "KEYS":
		return a.keys
	case "ARGV":
		return a.args
	}
	if !globals[n.Value] || evasive[n.Value] { // a finding, at any place
		return Of(Unknown{Pos: a.script.Pos(n), Why: n.Value + " is not known", Found: true})
	}
	if n.Value == "_VERSION" {
		return Of(Text{Class: Label})
	}
	return Of(Builtin{n.Value})
}

func (a *analyzer) table(st *state, n *ast.TableExpr) Value {
	t := &Table{Exact: true}
	var items []ast.Expr
	var indexed []func() // stores by index beside list items: Lua may store either first
	listed := slices.ContainsFunc(n.Fields, func(f *ast.Field) bool { return f.Key == nil })
	for i, field := range n.Fields {
		var key, v Value
		var more List
		many := false
		did := a.during(func() {
			if field.Key != nil {
				key = a.expr(st, field.Key)
			} else if i == len(n.Fields)-1 {
				more, many = a.several(st, field.Value)
			}
			if !many {
				v = a.expr(st, field.Value)
			}
		})
		t = t.after(did)
		if field.Key != nil {
			key = a.late(st, field.Key, key)
			if listed && mayIndex(key, false) {
				indexed = append(indexed,
					func() { t = joinTables(t, t.set(forgotten(key), forgotten(v), a.script.Pos(field.Key))) })
				continue
			}
			t = t.set(key, v, a.script.Pos(field.Key))
			continue
		}
		items = append(items, field.Value)
		if many {
			t = t.with(more, a.script.Pos(field.Value), a.isUnpack(field.Value))
			continue
		}
		t = t.with(one(v), a.script.Pos(field.Value), true)
	}
	for _, store := range indexed {
		store()
	}
	if i := followed(t.Items, mayIndex(t.Names, false)); i >= 0 && i < len(items) && !a.inOrder(st, items[i:]) {
		u := *t
		u.Gap = u.Gap.first(Gap{a.script.Pos(items[i]), true})
		t = &u
	}
	if text, named := t.Fields["err"]; named {
		a.makesError(n, text)
	}
	return a.alloc(st, n, 0, t)
}

// after returns a table whose values were known before the effects.
func (t *Table) after(did effects) *Table {
	if !did.answered {
		return t
	}
	return t.mapped(forgotten)
}

// with returns the table of a constructor with the next values. ordered says that all values after the first
// missing one are missing too.
func (t *Table) with(values List, pos script.Pos, ordered bool) *Table {
	u := *t
	u.Items = slices.Concat(t.Items, values.Items)
	for _, v := range values.Items {
		u.Exact = u.Exact && present(v).equal(v) && !v.mayBe(isUnknown)
	}
	if values.Open {
		u.Exact, u.Rest, u.Names = false, Join(u.Rest, present(values.Rest)), Join(u.Names, anyIndex)
	}
	if values.Rest.mayBe(Vanishes) ||
		!ordered && (values.Rest.mayBe(isAbsent) || followed(values.Items, values.Open) >= 0) {
		u.Gap = u.Gap.first(Gap{pos, true})
	}
	return &u
}

// inOrder reports whether expressions are elements of one list, in rising order. If one is behind the end of
// the list, the next ones are too.
func (a *analyzer) inOrder(st *state, exprs []ast.Expr) bool {
	last := 0
	for i, e := range exprs {
		if i > 0 && i == len(exprs)-1 && a.isUnpack(e) {
			return false
		}
		field, ok := e.(*ast.AttrGetExpr)
		if !ok || !a.sameExpr(field.Object, exprs[0].(*ast.AttrGetExpr).Object) {
			return false
		}
		list, known := a.peek(st, field.Object)
		k, one := list.only()
		ref, isTable := k.(Ref)
		index, constant := a.constantOf(st, field.Key)
		if !known || !one || !isTable || st.heap[ref.site] == nil || st.heap[ref.site].Gap != (Gap{}) ||
			!constant || index <= last {
			return false
		}
		last = index
	}
	return true
}

// isUnpack reports whether a followed expression is a call of unpack.
func (a *analyzer) isUnpack(e ast.Expr) bool {
	call, ok := e.(*ast.FuncCallExpr)
	return ok && a.callees[call].equal(Of(Builtin{"unpack"}))
}

func isUnknown(k Kind) bool { _, is := k.(Unknown); return is }

func (a *analyzer) index(st *state, n ast.Expr, object, key Value) Value {
	a.useEntries(n, st, object, key)
	a.noField(n, object, key)
	v := a.lookUp(st, n, object, key)
	if v.Bottom() && !object.Bottom() {
		a.noIndex(n, object)
		st.dead = true
	}
	return v
}

// method returns a function of strings, as in ("x"):upper().
func (a *analyzer) method(n ast.Expr, key Value) Value {
	return key.each(func(k Kind) Value {
		if s, ok := k.(Str); ok {
			if slices.Contains(members["string"], s.S) {
				return Of(Builtin{"string." + s.S})
			}
			return vNil
		}
		if TypeOf(k) == "string" || TypeOf(k) == "" {
			return a.lost(n, "a string is indexed by something that is not known")
		}
		return vNil
	})
}

// holds reports whether other code can change a kind, or can call it.
func holds(k Kind) bool {
	switch k.(type) {
	case Ref, Closure, Command, Builtin:
		return true
	}
	return false
}
