package analyze

import "github.com/yuin/gopher-lua/ast"

func (a *analyzer) store(st *state, target ast.Expr, object, key, v Value) {
	a.storeAt(st, target, object, position{key: key}, v)
}

// position is the index of a store.
type position struct {
	key    Value
	at     place // the place of the key's number at the time of its evaluation
	behind bool  // the key is #list + 1 of the list
	last   bool  // the key is #list of the list
}

func (a *analyzer) storeAt(st *state, target ast.Expr, object Value, index position, v Value) {
	key := index.key
	if st.dead {
		return
	}
	single := len(object.kinds) == 1
	for _, k := range object.kinds {
		switch k := k.(type) {
		case Ref:
			t := st.heap[k.site]
			if t == nil {
				continue
			}
			if t.Origin == Keys {
				a.facts.Stores = append(a.facts.Stores, Use{Name: "KEYS", Pos: a.script.Pos(target)})
			}
			a.metaStored(target, k, key, v)
			after, by := a.stored(st, target, k, single, index, v)
			a.handOverEvents(after)
			if !single || a.handler(st, t.Meta, "__newindex").mayBe(truthy) {
				after, by = joinTables(t, after), unsure
			}
			st.replace(k.site, after, by)
			if !t.Meta.Bottom() {
				a.newIndex(st, target, k, t.Meta, key, v)
			}
		case Raised:
			a.keepError(target, k, "has something stored in it")
		case Builtin:
			if members[k.Name] == nil {
				continue // raises an error at run time
			}
			a.facts.Stores = append(a.facts.Stores, Use{Name: k.Name, Pos: a.script.Pos(target)})
		case Unknown:
			// It hides no table of the script, and must not start to.
			if v.mayBe(holds) {
				a.misuse(target, "a table or a function is stored in something that is not known, so "+
					"that nothing can be proved about it; store it in a table of the script ("+k.reason()+")")
			}
		}
	}
	if !object.Bottom() && !object.mayBe(func(k Kind) bool {
		switch k.(type) {
		case Ref, Builtin, Unknown, Raised:
			return true
		}
		return false
	}) {
		st.dead = true // the store raises an error
	}
}

// stored returns the table after the store of v at an index. It also returns by how much the table is longer.
func (a *analyzer) stored(st *state, target ast.Expr, r Ref, single bool, index position, v Value) (*Table,
	int) {
	t, key := st.heap[r.site], index.key
	single = single && !t.many
	beyond, known := 0, false
	if single {
		if beyond, known = st.lengths[count{index.at, r.site}]; known && t.Exact {
			key = Of(Num{F: float64(len(t.Items) + beyond)})
		}
	}
	within := key.All(func(k Kind) bool { n, ok := k.(Number); return ok && n.Within == r.site && n.Least > 0 })
	switch {
	case known && beyond == 1 && t.Exact:
		return t.place(key, v), grows(v)
	case known && beyond == 1:
		return t.append(v), grows(v)
	case index.behind && !known:
		return t.append(v), unsure
	case (known && beyond == 0 || index.last) && v.equal(vNil):
		return t.place(key, v), unsure
	case (within && !t.shrunk || single && a.inside(st, r.site, beyond, known, key)) && t.gapless() &&
		!v.mayBe(mayVanish):
		return t.place(key, v), 0
	}
	return t.set(key, v, a.script.Pos(target)), unsure
}

// isBehind reports whether an assignment is to list[#list + 1].
func (a *analyzer) isBehind(target *ast.AttrGetExpr) bool {
	sum, ok := target.Key.(*ast.ArithmeticOpExpr)
	if !ok || sum.Operator != "+" {
		return false
	}
	length, isLength := sum.Lhs.(*ast.UnaryLenOpExpr)
	one, isNumber := sum.Rhs.(*ast.NumberExpr)
	return isLength && isNumber && one.Value == "1" && a.sameExpr(length.Expr, target.Object)
}

// isLast reports whether a store is to list[#list], which may take the element away.
func (a *analyzer) isLast(target ast.Expr) bool {
	field, ok := target.(*ast.AttrGetExpr)
	if !ok {
		return false
	}
	length, ok := field.Key.(*ast.UnaryLenOpExpr)
	return ok && a.sameExpr(length.Expr, field.Object)
}

// sameExpr reports whether two expressions are the same name, or the same fields of it.
func (a *analyzer) sameExpr(e, f ast.Expr) bool {
	switch e := e.(type) {
	case *ast.IdentExpr:
		f, ok := f.(*ast.IdentExpr)
		return ok && e.Value == f.Value && a.names.uses[e] == a.names.uses[f]
	case *ast.StringExpr:
		f, ok := f.(*ast.StringExpr)
		return ok && e.Value == f.Value
	case *ast.AttrGetExpr:
		f, ok := f.(*ast.AttrGetExpr)
		return ok && a.sameExpr(e.Object, f.Object) && a.sameExpr(e.Key, f.Key)
	}
	return false
}
