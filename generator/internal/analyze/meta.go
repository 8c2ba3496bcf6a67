package analyze

import "github.com/yuin/gopher-lua/ast"

// less follows <, <=, > and >= of metatables. Lua swaps the operands of the last two. If there is no __le,
// Lua calls __lt.
func (a *analyzer) less(st *state, n ast.Expr, operator string, left, right Value) Value {
	if operator == ">" || operator == ">=" {
		left, right = right, left
	}
	if operator == "<" || operator == ">" {
		return a.event(st, n, "__lt", left, right)
	}
	return Join(a.event(st, n, "__le", left, right), a.event(st, n, "__lt", right, left))
}

// event follows an operation in the metatable of each operand that has one. Lua passes the operand of a minus
// sign twice.
func (a *analyzer) event(st *state, n ast.Expr, name string, operands ...Value) Value {
	var result Value
	args := List{Items: operands}
	if len(operands) == 1 && name == "__unm" {
		args.Items = []Value{operands[0], operands[0]}
	}
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
			a.did.eventful = true
			after := st.clone()
			l := a.call(after, n, handler.filter(truthy), args)
			if joined := joinStates(st.clone(), after); joined != nil {
				*st = *joined
			}
			result = Join(result, l.at(0))
		}
	}
	return result
}

// lookUp follows object[key] for each kind of object. It reads a table once, even if several metatables lead
// to the table.
func (a *analyzer) lookUp(st *state, n ast.Expr, object, key Value) Value {
	return a.lookUpIn(st, n, object, key, map[*site]bool{})
}

func (a *analyzer) lookUpIn(st *state, n ast.Expr, object, key Value, seen map[*site]bool) Value {
	return object.each(func(k Kind) Value {
		switch k := k.(type) {
		case Ref:
			t := st.heap[k.site]
			if t == nil {
				return a.lost(n, "what this table holds was never learned")
			}
			v := a.element(st, k, key)
			here := !v.Bottom() && !v.mayBe(func(k Kind) bool { t := TypeOf(k); return t == "nil" || t == "" })
			if t.Meta.Bottom() || seen[k.site] || here {
				return v
			}
			seen[k.site] = true
			return Join(v, a.inherited(st, n, k, t.Meta, key, seen))
		case Builtin:
			return a.member(n, k, key)
		case Text:
			v := a.method(n, key)
			if k.Class == Any { // stored or decoded
				return trusted(v)
			}
			return v
		case Str, Empty, Key:
			return a.method(n, key)
		case Arg, Read:
			if isNumber(k) {
				return Value{}
			}
			return a.method(n, key)
		case Raised: // a text, or a table with err
			v := Join(a.method(n, key), Of(Text{Class: Built}, Nil{}))
			if k.Raw {
				v = Join(v, rawError.at(key))
			}
			return v
		case Unknown:
			return Of(k)
		}
		return Value{} // raises an error at run time
	})
}

// handler returns the field of a metatable for an event.
func (a *analyzer) handler(st *state, meta Value, event string) Value {
	return meta.each(func(k Kind) Value {
		switch k := k.(type) {
		case Ref:
			if t := st.heap[k.site]; t != nil {
				return t.field(event)
			}
		case Unknown:
			return Of(k)
		}
		return vNil
	})
}

// inherited returns the value that a metatable gives for an index.
func (a *analyzer) inherited(st *state, n ast.Expr, object Ref, meta, key Value, seen map[*site]bool) Value {
	return a.handler(st, meta, "__index").each(func(k Kind) Value {
		switch k := k.(type) {
		case Ref:
			a.useEntries(n, st, Of(k), key)
			return a.lookUpIn(st, n, Of(k), key, seen)
		case Command, Closure, Unknown:
		default:
			if TypeOf(k) == "nil" {
				return vNil
			} else if TypeOf(k) != "function" { // Lua reads the key of any other value, such as a library or a text
				return a.lookUpIn(st, n, Of(k), key, seen)
			}
		}
		// A call gives one value here, for each kind of callee.
		a.did.eventful = true
		after := st.clone()
		l := a.call(after, n, Of(k), List{Items: []Value{Of(object), key}})
		if joined := joinStates(st.clone(), after); joined != nil {
			*st = *joined
		}
		return l.at(0)
	})
}

// newIndex follows a store into a table with a metatable.
func (a *analyzer) newIndex(st *state, target ast.Expr, object Ref, meta, key, v Value) {
	handler := a.handler(st, meta, "__newindex")
	for _, k := range handler.kinds {
		after := st.clone()
		if _, isTable := k.(Ref); isTable {
			if a.depth++; a.depth > 4*mostDepth {
				a.stop(target.Line(), "the metatables here lead to one another")
			}
			a.store(after, target, Of(k), key, v)
			a.depth--
		} else if truthy(k) {
			a.call(after, target, Of(k), List{Items: []Value{Of(object), key, v}})
		}
		*st = *joinStates(st.clone(), after)
	}
}

// becomesMeta notes tables that are metatables from now on.
func (a *analyzer) becomesMeta(st *state, n ast.Expr, meta Value) {
	for _, k := range meta.kinds {
		if r, ok := k.(Ref); ok {
			a.metas[r.site] = true
		}
	}
	if a.handler(st, meta, "__mode").mayBe(truthy) {
		a.weak(n)
	}
}

// metaStored finds stores into a metatable that make its tables weak.
func (a *analyzer) metaStored(target ast.Expr, r Ref, key, v Value) {
	if a.metas[r.site] && v.mayBe(truthy) &&
		key.mayBe(func(k Kind) bool { return mayEqual(k, Str{S: "__mode"}) }) {
		a.weak(target)
	}
}

func (a *analyzer) weak(n ast.Expr) {
	a.misuse(n, "a metatable has __mode here, or may have it, so elements of its tables may disappear at "+
		"any time; write its fields by their names, and leave __mode out")
}

func (a *analyzer) setMeta(st *state, n ast.Expr, x, meta Value) {
	single := len(x.kinds) == 1
	for _, k := range x.kinds {
		a.keepError(n, k, "is given a metatable")
		r, ok := k.(Ref)
		if !ok || st.heap[r.site] == nil {
			continue
		}
		u := *st.heap[r.site]
		after := meta
		for _, k := range meta.kinds {
			if m, ok := k.(Ref); ok && st.heap[m.site] != nil {
				a.handOverEvents(st.heap[m.site])
			}
		}
		if meta.equal(vNil) {
			after = Value{}
		}
		if u.many || !single {
			after = joinMeta(u.Meta, after)
		}
		u.Meta = after
		st.heap[r.site] = &u
	}
}
