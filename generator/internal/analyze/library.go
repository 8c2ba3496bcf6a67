package analyze

import (
	"math"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

func (a *analyzer) stringCall(st *state, n ast.Expr, name string, args List) List {
	switch name {
	case "format":
		return one(a.format(args))
	case "len":
		return one(a.length(st, args.at(0)))
	case "byte":
		return List{Rest: Of(Number{Class: Integer}), Open: true}
	case "find":
		return List{Items: []Value{Of(Number{Class: Integer}, Nil{})},
			Rest: Of(Number{Class: Integer}, Text{Class: Built}), Open: true}
	case "match":
		return captures(hasPlaces(args.at(1)), onlyDigits(args.at(1), true), a.rewritten(args.at(0)))
	case "gmatch", "gfind":
		next := "gmatch.next"
		if a.rewritten(args.at(0)) != None {
			next = "gmatch.counted"
		} else if hasPlaces(args.at(1)) {
			next = "gmatch.places"
		} else if onlyDigits(args.at(1), false) {
			next = "gmatch.digits"
		}
		return List{Items: []Value{Of(Builtin{next}), vNil, vNil}}
	case "gsub":
		for _, k := range args.at(2).kinds {
			switch captured := Of(Text{Class: Built}, Number{Class: Integer}); {
			case isUnknown(k):
				a.unknownCall(n, k.(Unknown))
			case isRef(k): // its metatable may answer too
				a.repeatedly(st, n, func(st *state) Value { return a.lookUp(st, n, Of(k), captured) })
			case holds(k):
				a.perhaps(st, n, Of(k), List{Rest: captured, Open: true})
			}
		}
		return List{Items: []Value{Of(Text{Class: Built, Unit: a.rewritten(args.at(0), args.at(2))}),
			Of(Number{Class: Integer})}}
	case "lower", "upper":
		return one(args.at(0).each(func(k Kind) Value {
			switch text, known := constantText(k); {
			case known && name == "upper":
				return Of(Str{S: mapBytes(text, 'a', 'z', 'A')})
			case known:
				return Of(Str{S: mapBytes(text, 'A', 'Z', 'a')})
			}
			return Of(Text{Class: Built, Unit: a.rewritten(Of(k))})
		}))
	}
	return one(Of(Text{Class: Built, Unit: a.rewritten(args.at(0))}))
}

// perhaps follows a call that happens any number of times, or never.
func (a *analyzer) perhaps(st *state, n ast.Expr, callee Value, args List) Value {
	return a.repeatedly(st, n, func(st *state) Value {
		l := a.call(st, n, callee, args)
		return l.at(0)
	})
}

// repeatedly follows an action that happens any number of times, or never.
func (a *analyzer) repeatedly(st *state, n ast.Expr, once func(*state) Value) Value {
	var result Value
	for pass := 0; ; pass++ {
		if pass > mostPasses {
			a.stop(n.Line(), "what is called here does not settle; call it in a loop of its own")
		}
		after := st.clone()
		v := once(after)
		if after.dead {
			return result
		}
		result = Join(result, v)
		joined := joinStates(st.clone(), after)
		if pass > 1 {
			widenState(st, joined)
		}
		if joined.equal(st) {
			return result
		}
		*st = *joined
	}
}

// tables returns the tables that a value may be; alone: the value is certainly one table.
func (a *analyzer) tables(st *state, v Value) (refs []Ref, alone bool) {
	for _, k := range v.kinds {
		if r, ok := k.(Ref); ok && st.heap[r.site] != nil {
			refs = append(refs, r)
		}
	}
	return refs, len(v.kinds) == 1 && len(refs) == 1
}

// change replaces each table that a value may be. by is the number of additional elements, or unsure.
func (a *analyzer) change(st *state, v Value, by int, to func(*Table) *Table) {
	refs, alone := a.tables(st, v)
	for _, r := range refs {
		t := st.heap[r.site]
		after := to(t)
		if !alone || t.many {
			after, by = joinTables(t, after), unsure
		}
		st.replace(r.site, after, by)
	}
}

func (a *analyzer) tableCall(st *state, n ast.Expr, name string, args List) List {
	x := args.at(0)
	refs, _ := a.tables(st, x)
	switch name {
	case "insert":
		for _, k := range x.kinds {
			a.keepError(n, k, "has something stored in it")
		}
		a.insert(st, n, x, args)
		return List{}
	case "remove":
		a.useAll(x)
		a.storeAll(n, x, st, true)
		removed := a.removed(st, x, args)
		a.change(st, x, unsure, func(t *Table) *Table {
			u := *t
			last := len(t.Items) - 1
			u.shrunk, u.some = true, false
			if t.Exact && t.Rest.Bottom() && last >= 0 && len(args.Items) == 1 && !args.Open {
				u.Items = slices.Clone(t.Items[:last])
				return &u
			}
			// The elements behind a place that is certainly filled move forward by one.
			if at, known := whole(args.at(1)); known && len(args.Items) == 2 && !args.Open && t.gapless() && 1 <= at &&
				at <= t.sure() {
				u.Items, u.Pairs = slices.Delete(slices.Clone(t.Items), at-1, at), nil
				return &u
			}
			w := t.shuffled(false, a.script.Pos(n))
			w.shrunk, w.some = true, false
			return w
		})
		return removed
	case "sort":
		a.sort(st, n, x, args.at(1))
		return List{}
	case "concat":
		a.useWhole(n, x)
		var all Value
		for _, r := range refs {
			all = Join(all, present(st.heap[r.site].anyItem()))
		}
		if all.All(wording) {
			return one(Of(Text{Class: Wording}))
		}
		return one(Of(Text{Class: Built, Unit: a.rewritten(all, args.at(1))}))
	case "getn":
		return one(a.length(st, x))
	case "maxn": // the largest number that is an index, even a fraction
		if length := a.length(st, x); length.All(func(k Kind) bool { _, known := k.(Num); return known }) {
			return one(length)
		}
		return one(Of(Number{Class: Fraction}))
	case "foreach", "foreachi":
		a.useAll(x)
		found := a.repeatedly(st, n, func(st *state) Value { // the function may change the table
			l := a.next(st, n, x)
			if name == "foreachi" { // foreachi fixes the number of its calls at the start
				l = a.nextItem(st, x)
				l.Items[1] = Join(l.Items[1], trusted(vNil))
			}
			called := a.call(st, n, args.at(1), l)
			return called.at(0)
		})
		// It answers nothing if the function answers nothing or nil.
		return List{Rest: present(found), Open: true, lone: true}
	}
	return List{}
}

// structUnpack returns the values of struct.unpack for a format.
func (a *analyzer) structUnpack(format Value) List {
	unknown := List{Rest: Of(Text{Class: Any}, Number{Class: Any}), Open: true}
	pattern, known := format.Str()
	if !known {
		return unknown
	}
	var l List
	for _, c := range pattern {
		switch {
		case strings.ContainsRune("<>=! 0123456789x", c):
		case strings.ContainsRune("bBhHlLTiI", c):
			l.Items = append(l.Items, anyIndex)
		case strings.ContainsRune("fd", c):
			l.Items = append(l.Items, Of(Number{Class: Decimal}))
		case strings.ContainsRune("s", c):
			l.Items = append(l.Items, Of(Text{Class: Any}))
		default: // c0 takes the number before it as its length
			return unknown
		}
	}
	l.Items = append(l.Items, anyIndex) // the place after the last value
	return l
}

// counting is a number with the unit of the arguments.
func (a *analyzer) counting(args List, class Class, undefined bool) Value {
	v := Of(Number{Class: class, Undefined: undefined})
	for _, k := range args.all().kinds {
		if q, ok := a.operandOf(k); ok && q.unit != None {
			v = Join(v, Of(Number{Class: class, Unit: q.unit, Undefined: undefined}))
		}
	}
	return v
}

func (a *analyzer) mathCall(name string, args List) Value {
	switch name {
	case "max", "min":
		var v Value
		known, best := !args.Open && len(args.Items) > 0, 0.0
		for i, x := range args.Items {
			f, isNum := x.Num()
			known = known && isNum
			if i == 0 || name == "max" && f > best || name == "min" && f < best {
				best = f
			}
		}
		if known {
			return Of(Num{F: best})
		}
		for _, k := range args.all().kinds {
			if q, ok := a.operandOf(k); ok {
				if q.known {
					v = Join(v, Of(Num{F: q.value}))
				} else {
					v = Join(v, Of(Number{Class: q.class, Unit: q.unit, Undefined: q.undefined}))
				}
			}
		}
		if v.Bottom() {
			return Of(Number{Class: Any})
		}
		return v
	case "floor", "ceil", "abs":
		v := args.at(0).each(func(k Kind) Value {
			q, ok := a.operandOf(k)
			switch {
			case !ok:
				return Value{}
			case q.known && name == "floor":
				return Of(Num{F: math.Floor(q.value)})
			case q.known && name == "ceil" && -1 < q.value && q.value < 0: // its text is -0
				return Of(Number{Class: Integer})
			case q.known && name == "ceil":
				return Of(Num{F: math.Ceil(q.value)})
			case q.known:
				return Of(Num{F: math.Abs(q.value)})
			case name == "abs":
				return Of(Number{Class: q.class, Unit: q.unit, Undefined: q.undefined})
			case q.class == Binary:
				return Of(Number{Class: Binary})
			}
			return Of(Number{Class: Integer, Unit: q.unit, Undefined: q.undefined})
		})
		if v.Bottom() {
			return Of(Number{Class: Integer})
		}
		return v
	case "random":
		if len(args.Items) > 0 {
			return a.counting(args, Integer, false)
		}
		return Of(Number{Class: Fraction})
	case "fmod", "mod":
		v := args.at(0).each(func(k Kind) Value {
			q, _ := a.operandOf(k)
			return Of(Number{Class: Fraction, Unit: unitOf("%", q, quantity{}), Undefined: true})
		})
		if !v.Bottom() {
			return v
		}
	}
	return Of(Number{Class: Fraction, Undefined: true})
}

// statusReply makes the answer of redis.status_reply. For several values, or a value that is not a string, it
// is an error.
func (a *analyzer) statusReply(st *state, n ast.Expr, args List) Value {
	v := args.at(0)
	word := v.each(func(k Kind) Value {
		switch TypeOf(k) {
		case "string":
			return Of(k)
		case "":
			return Of(Text{Class: Built})
		}
		return Value{}
	})
	var reply Value
	if !word.Bottom() {
		reply = a.alloc(st, n, 1, &Table{Exact: true, Fields: map[string]Value{"ok": word}})
	}
	if !word.equal(v) || args.Open || len(args.Items) != 1 {
		reply = Join(reply, a.alloc(st, n, 4,
			&Table{Exact: true, Fields: map[string]Value{"err": Of(Text{Class: Wording})}}))
	}
	return reply
}

func (a *analyzer) redisCall(st *state, n ast.Expr, name string, args List) List {
	switch name {
	case "error_reply", "status_reply":
		if name == "status_reply" {
			return one(a.statusReply(st, n, args))
		}
		text := args.at(0).each(errorText)
		a.makesError(n, text)
		return one(a.alloc(st, n, 1, &Table{Exact: true, Fields: map[string]Value{"err": text}}))
	case "sha1hex":
		return one(Of(Text{Class: Built}))
	case "setresp":
		switch f, known := args.at(0).Num(); {
		case known && f == 2:
			st.protocol = resp2
		case known && f == 3:
			st.protocol = resp3
		default:
			st.protocol = resp2 | resp3
		}
		return List{}
	case "set_repl":
		if f, known := args.at(0).Num(); !known || f != replication["redis.REPL_ALL"] {
			a.misuse(n, "redis.set_repl may keep later writes from replicas, or from the log of the "+
				"server, so a failover or a restart loses them; leave it out, or pass redis.REPL_ALL")
		}
		return List{}
	case "replicate_commands", "acl_check_cmd", "breakpoint":
		if name == "acl_check_cmd" { // an operator may change the rights of the user
			a.random(n, "redis."+name)
		}
		return one(Of(Bool{V: true}, Bool{}))
	}
	return List{}
}
