package analyze

import (
	"math"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

// builtin follows a call of a global function or of a function in a library.
func (a *analyzer) builtin(st *state, n ast.Expr, name string, args List) List {
	library, member, isMember := strings.Cut(name, ".")
	if isMember {
		switch library {
		case "string":
			return a.stringCall(st, n, member, args)
		case "table":
			return a.tableCall(st, n, member, args)
		case "math":
			if member == "modf" {
				part := a.counting(args, Fraction, true)
				return List{Items: []Value{part, part}}
			}
			if member == "frexp" {
				return List{Items: []Value{Of(Number{Class: Fraction}), Of(Number{Class: Fraction})}}
			}
			if member == "randomseed" {
				return List{}
			}
			if member == "random" {
				a.random(n, name)
			}
			return one(indexOf(member, args, a.mathCall(member, args)))
		case "redis":
			return a.redisCall(st, n, member, args)
		}
	}
	x := args.at(0)
	switch name {
	case "assert":
		return a.assert(st, n, args)
	case "error":
		a.raisable(st, n, x)
		a.throw(st, n, x)
		st.dead = true
		return List{}
	case "type":
		return one(x.each(func(k Kind) Value {
			if t := TypeOf(k); t != "" {
				return Of(Str{S: t})
			}
			return Of(Text{Class: Label})
		}))
	case "tostring":
		if x.mayBe(func(k Kind) bool { t := TypeOf(k); return t == "table" || t == "function" }) {
			a.random(n, "tostring of a table or a function")
		}
		a.cutShort(n, x)
		return one(Join(a.event(st, n, "__tostring", x), x.each(a.asText)))
	case "tonumber":
		return one(a.toNumber(st, n, args))
	case "pairs":
		a.useWhole(n, x)
		return List{Items: []Value{Of(Builtin{"pairs.next"}), x, vNil}} // which is not equal to next
	case "ipairs":
		a.useWhole(n, x)
		a.listed(st, n, x)
		return List{Items: []Value{Of(Builtin{"ipairs.next"}), x, Of(Num{})}}
	case "next", "pairs.next":
		l := a.next(st, n, x)
		behind := !args.at(1).equal(vNil) // next(t, k) is nil if k is the last
		if behind || x.mayBe(func(k Kind) bool { r, ok := k.(Ref); return ok && st.heap[r.site].mayBeEmpty() }) {
			// After the last item, next answers one nil.
			return List{Items: l.Items[:1], Rest: l.Items[1], Open: true, lone: true}
		}
		return l
	case "ipairs.next": // after the last item, it answers nothing
		return orNothing(a.nextItem(st, x))
	case "gmatch.next":
		return orNothing(captures(false, false, None))
	case "gmatch.counted": // parts of a time or a duration
		return orNothing(captures(true, false, Lost))
	case "gmatch.digits":
		return orNothing(captures(false, true, None))
	case "gmatch.places":
		return orNothing(captures(true, false, None))
	case "unpack":
		a.listed(st, n, x)
		return a.unpack(st, n, args)
	case "select":
		return a.selectArgs(args)
	case "setmetatable":
		a.becomesMeta(st, n, args.at(1))
		a.setMeta(st, n, x, args.at(1))
		return one(x)
	case "getmetatable":
		return one(x.each(func(k Kind) Value {
			if r, ok := k.(Ref); ok {
				if t := st.heap[r.site]; t != nil && !t.Meta.Bottom() {
					return Join(t.Meta, present(a.handler(st, t.Meta, "__metatable")))
				}
				return vNil
			}
			return a.lost(n, "the metatable of something that is no table of the script")
		}))
	case "rawget":
		a.useEntries(n, st, x, args.at(1))
		return one(x.each(func(k Kind) Value {
			if r, ok := k.(Ref); ok && st.heap[r.site] != nil {
				return st.heap[r.site].get(args.at(1))
			}
			return a.lost(n, "rawget of something that is no table of the script")
		}))
	case "rawset":
		a.store(st, n, x, args.at(1), args.at(2))
		return one(x)
	case "rawequal":
		return one(Of(Bool{V: true}, Bool{}))
	case "pcall":
		return a.protected(st, n, x, args.from(1), func(raised Value) Value { return raised })
	case "xpcall":
		return a.protected(st, n, x, List{},
			func(raised Value) Value { return a.handle(st, n, args.at(1), raised) })
	case "collectgarbage", "gcinfo":
		a.random(n, name)
		return one(Of(Number{Class: Fraction}))
	case "cjson.encode":
		return one(Of(Text{Class: JSON}))
	case "cjson.decode":
		return one(a.data(st, n, Decoded, "cjson.decode", x))
	case "cmsgpack.pack", "struct.pack", "bit.tohex":
		return one(Of(Text{Class: Built}))
	case "struct.unpack":
		return a.structUnpack(args.at(0))
	case "cmsgpack.unpack", "cmsgpack.unpack_one", "cmsgpack.unpack_limit":
		// For an empty text there is no value. The analysis trusts that a text is what the header says.
		v := Join(a.data(st, n, Decoded, name, args.at(0)), trusted(vNil))
		return List{Rest: v, Open: true, first: &v}
	case "struct.size":
		return one(Of(Number{Class: Integer}))
	}
	switch {
	case library == "bit":
		return one(a.counting(args, Integer, false))
	case library == "cjson" && member != "new":
		if to := args.at(0); member == "encode_invalid_numbers" && !to.equal(vNil) && !to.equal(Of(Bool{})) &&
			!to.equal(Of(Str{S: "off"})) && !to.equal(Of(Str{S: "null"})) {
			a.misuse(n, "cjson.encode_invalid_numbers lets cjson.encode write what is no JSON, in this script and in "+
				"all that run after it; send a text or cjson.null in place of such a number")
		}
		return List{Rest: Of(Number{Class: Integer}, Bool{V: true}, Bool{}, Text{Class: Label}), Open: true}
	}
	k := Unknown{Pos: a.script.Pos(n), Why: "what " + name + " answers is not followed"}
	a.unknownCall(n, k)
	return List{Rest: Of(k), Open: true}
}

func (a *analyzer) assert(st *state, n ast.Expr, args List) List {
	x := args.at(0)
	a.mayRaise(st)
	if x.mayBe(falsy) && (len(args.Items) > 1 || args.Open) {
		a.throw(st, n, args.at(1))
	}
	if !x.mayBe(truthy) {
		st.dead = true
		return List{}
	}
	// A method and a metatable's __call pass another value before the arguments in the text.
	direct := a.callees[n].equal(Of(Builtin{"assert"}))
	if call, ok := n.(*ast.FuncCallExpr); ok && direct && call.Func != nil && len(call.Args) > 0 &&
		a.steady(call.Args[0], call.Args[1:]...) {
		switch call.Args[0].(type) {
		case *ast.RelationalOpExpr, *ast.LogicalOpExpr, *ast.UnaryNotOpExpr: // they are tests of their own
		default:
			a.truth(st, call.Args[0], x, decides)
		}
		a.narrow(st, call.Args[0], truthy)
	}
	if x.provesTrue {
		st.pass()
	}
	if len(args.Items) > 0 {
		args.Items = slices.Clone(args.Items)
		args.Items[0] = x.filter(truthy)
	}
	return args
}

// random notes a function that answers differently each time.
func (a *analyzer) random(n ast.Expr, name string) {
	a.facts.Random = append(a.facts.Random, Use{Name: name, Pos: a.script.Pos(n)})
}

// throw notes that the script raises an error with a value.
func (a *analyzer) throw(st *state, n ast.Expr, v Value) {
	a.did.raised = true
	a.mayRaise(st)
	if i := len(a.caught); i > 0 {
		a.caught[i-1].thrown = Join(a.caught[i-1].thrown,
			v.filter(func(k Kind) bool { return TypeOf(k) != "string" }))
	}
	a.facts.Raised = append(a.facts.Raised, Raise{v, a.script.Pos(n), Heap{st.clone().heap}})
}

// raisable finds tables that no script may raise. The server reads err of a raised table, and sets source and
// line, outside of any pcall. No error may happen there.
func (a *analyzer) raisable(st *state, n ast.Expr, v Value) {
	table := func(k Kind) *Table {
		if r, ok := k.(Ref); ok && st.heap[r.site] != nil {
			return st.heap[r.site]
		}
		return nil
	}
	switch {
	case len(a.caught) == 0 && v.All(func(k Kind) bool {
		t := table(k)
		return t != nil && t.Meta.Bottom() && !t.field("err").mayBe(canConcat)
	}):
		a.misuse(n, "a table without err is raised, on which the servers crash; raise error({err = 'CODE text'}), "+
			"or a string")
	case v.mayBe(func(k Kind) bool {
		t := table(k)
		return t != nil && (a.handler(st, t.Meta, "__index").mayBe(truthy) ||
			a.handler(st, t.Meta, "__newindex").mayBe(truthy))
	}):
		a.misuse(n, "a table is raised whose metatable has __index or __newindex, which the server asks for err, "+
			"source and line outside of any pcall; raise one without, as in error({err = 'CODE text'})")
	}
}

func (a *analyzer) toNumber(st *state, n ast.Expr, args List) Value {
	x, base := args.at(0), args.at(1)
	var v Value
	if mayBeOther(base, 10) {
		v = Of(Number{Class: Integer}, Nil{})
		if base.mayBe(isUnknown) || x.mayBe(isUnknown) {
			v = Of(Number{Class: Any}, Nil{})
		}
		if base.All(func(k Kind) bool { f, ok := Of(k).Num(); return ok && f != 10 }) {
			return v
		}
	}
	return Join(v, x.each(func(k Kind) Value {
		switch k := k.(type) {
		case Num, Number:
			return Of(k)
		case Str:
			switch q, ok := a.quantity(k); {
			case !ok:
				return vNil
			case q.known:
				return Of(Num{q.value, k.Default})
			case q.class != Any:
				return Of(Number{Class: q.class})
			}
			return Of(Number{Class: Fraction, Undefined: true}, Nil{})
		case Arg:
			k.Number = true
			switch t, _ := a.declared(k.Index); t.Base {
			case "int", "bool", "float", "duration", "time":
				return Of(k)
			}
			return Of(k, Nil{})
		case Read:
			if k.Number {
				return Of(k)
			}
			k.Number = true
			return Of(k, Missing{Of: k.Source, Nil: true, Malformed: true})
		case Empty:
			return Of(Missing{Of: Source{Command: "argv", Key: k.Index}, Nil: true})
		case Missing:
			return Of(Missing{Of: k.Of, Nil: true})
		case Text:
			if c := numeric(k.Class); c != Any {
				return Of(Number{Class: c, Unit: k.Unit, Undefined: k.Undefined || k.Class == Digits})
			}
			switch k.Class {
			case Wording, Label:
				return vNil
			case Built:
				return Of(Number{Class: Fraction, Unit: k.Unit, Undefined: true}, Nil{})
			}
			return Of(Number{Class: Any, Unit: k.Unit}, Missing{Nil: true, Malformed: true})
		case Key, Raised:
			return Of(Number{Class: Fraction, Undefined: true}, Nil{})
		case Unknown:
			return Of(Number{Class: Any}, Nil{})
		}
		return vNil
	}))
}

// mayBeOther reports whether a value may be anything but nil and one number.
func mayBeOther(v Value, number float64) bool {
	return v.mayBe(func(k Kind) bool {
		f, known := Of(k).Num()
		return truthy(k) && !(known && f == number)
	})
}

// handle follows the handler of an xpcall, which runs where the error was raised. If the handler raises an
// error, Lua calls the handler again.
func (a *analyzer) handle(st *state, n ast.Expr, handler, raised Value) Value {
	raised = raised.mapped(func(k Kind) Value {
		if r, ok := k.(Raised); ok {
			r.Raw = true
			return Of(r)
		}
		return Of(k)
	})
	failed := &caught{}
	a.caught = append(a.caught, failed)
	var v Value
	did := a.during(func() { v = a.perhaps(st, n, handler, one(raised)) })
	a.caught = a.caught[:len(a.caught)-1]
	if failed.state != nil {
		st.joinShared(failed.state)
	}
	if !failed.thrown.Bottom() {
		a.misuse(n, "the handler of xpcall raises a value that is no text, which Lua hands to the handler again; "+
			"let it return the value")
	}
	if v.Bottom() || did.raised || !a.quietHandler(st, handler, raised) {
		v = Join(v, Of(Raised{Script: true}))
	}
	return v
}

// quietHandler reports whether the handler of an xpcall certainly raises no error. After an error in the
// handler, Lua answers a text of its own in place of the handler's value.
func (a *analyzer) quietHandler(st *state, handler, raised Value) bool {
	k, _ := handler.only()
	switch k := k.(type) {
	case Closure:
		var caught *variable
		if len(k.fn.params) > 0 && !raised.mayBe(func(k Kind) bool { _, is := k.(Raised); return !is }) {
			caught = k.fn.params[0]
		}
		return a.neverRaises(st, k.fn, caught)
	case Builtin:
		return (k.Name == "tostring" || k.Name == "type") && !a.deep()
	}
	return false
}

func (a *analyzer) selectArgs(args List) List {
	rest := args.from(1)
	if s, ok := args.at(0).Str(); ok && s == "#" {
		if rest.Open {
			return one(Of(Number{Class: Integer}))
		}
		return one(Of(Num{F: float64(len(rest.Items))}))
	}
	if args.at(0).mayBe(func(k Kind) bool { return mayEqual(k, Str{S: "#"}) }) {
		rest.Rest = Join(rest.Rest, Of(Number{Class: Integer}))
		return List{Rest: rest.all(), Open: true}
	}
	if f, ok := args.at(0).Num(); ok && f >= 1 && f == math.Trunc(f) && f < 1000 {
		return rest.from(int(f) - 1)
	}
	return List{Rest: rest.all(), Open: true}
}

// data makes a value from a text of unknown content. The value has texts, numbers, booleans and tables of
// them, but no functions.
func (a *analyzer) data(st *state, n any, origin Origin, what string, _ Value) Value {
	at := a.site(n, a.run.env.context, 100+int(origin))
	v := Of(Ref{at}, Text{Class: Any}, Number{Class: Any}, Bool{V: true}, Bool{})
	switch {
	case origin != Decoded:
		v = Join(v, Of(Missing{}, Missing{Nil: true, Malformed: true}))
	case what == "cjson.decode":
		v = Join(v, Of(Builtin{"cjson.null"}))
	}
	names := Of(Text{Class: Any}, Number{Class: Integer})
	if what != "cjson.decode" { // JSON has texts and list indices as names only
		names = Join(names, Of(Ref{at}, Number{Class: Fraction}, Bool{V: true}, Bool{}))
	}
	t := &Table{Origin: origin, What: what, Rest: present(v), Names: names, many: true}
	if old := st.heap[at]; old != nil {
		t = joinTables(old, t)
	}
	st.heap[at] = t
	st.resized(at)
	return v
}
