package analyze

import (
	"maps"
	"slices"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// callExpr follows a call in the text.
func (a *analyzer) callExpr(st *state, n *ast.FuncCallExpr) List {
	var callee Value
	var args List
	if n.Func == nil { // receiver:method(…)
		receiver := a.expr(st, n.Receiver)
		callee = a.index(st, n.Receiver, receiver, Of(Str{S: n.Method}))
		args = a.list(st, n.Args)
		args.Items = slices.Concat([]Value{receiver}, args.Items)
		args.pos = slices.Insert(slices.Clone(args.pos), 0, a.script.Pos(n.Receiver))
	} else {
		callee = a.expr(st, n.Func)
		args = a.list(st, n.Args)
	}
	if st.dead {
		return List{}
	}
	a.callees[n] = Join(a.callees[n], callee)
	if n.Func != nil {
		a.reach.direct = n
	}
	result := a.call(st, n, callee, args)
	a.mayRaise(st)
	// redis.pcall answers an error, and the script goes on.
	if callee.All(func(k Kind) bool { return k == Kind(Command{}) }) {
		for _, arg := range n.Args { // any other argument raises an error
			if a.steady(arg, n.Args...) {
				a.narrow(st, arg, sendable)
			}
		}
	}
	return result
}

// sendable reports whether a kind can be an argument of a command.
func sendable(k Kind) bool {
	switch TypeOf(k) {
	case "string", "number", "":
		return true
	}
	return false
}

// call follows a call of each function that callee may be.
func (a *analyzer) call(st *state, n ast.Expr, callee Value, args List) List {
	var result *List
	var after *state
	for i, k := range callee.kinds {
		each := st
		if i < len(callee.kinds)-1 {
			each = st.clone()
		}
		l, called := a.callKind(each, n, k, args)
		if called && !each.dead {
			result = joinLists(result, &l)
			if after == nil {
				after = each
			} else {
				after = joinStates(after, each)
			}
		}
	}
	if after == nil {
		st.dead = true
		return List{}
	}
	if after != st {
		*st = *after
	}
	return *result
}

// callKind follows a call of one kind; false: Lua cannot call it.
func (a *analyzer) callKind(st *state, n ast.Expr, k Kind, args List) (List, bool) {
	direct := a.reach.direct
	a.reach.direct = nil
	switch k := k.(type) {
	case Command:
		return one(a.command(st, n, k.Protected, args)), true
	case Closure:
		a.bind(k.fn, direct)
		return a.invoke(st, n, k, args), true
	case Builtin:
		if members[k.Name] != nil {
			return List{}, false // a library
		}
		if slices.Contains(callbacks, k.Name) {
			a.handOver(args.all())
		}
		return a.builtin(st, n, k.Name, args), true
	case Ref:
		t := st.heap[k.site]
		if t == nil || t.Meta.Bottom() {
			return List{}, false
		}
		// If __call is itself a table, Lua 5.1 does not call it.
		callee := a.handler(st, t.Meta, "__call").filter(func(k Kind) bool { return !isRef(k) })
		with := args
		with.Items = slices.Concat([]Value{Of(k)}, args.Items)
		with.pos = nil
		return a.call(st, n, callee, with), true
	case Unknown:
		a.unknownCall(n, k)
		return List{Rest: Of(k), Open: true}, true
	}
	return List{}, false // raises an error at run time
}

// unknownCall notes a call of an unknown function.
func (a *analyzer) unknownCall(n ast.Expr, k Unknown) {
	if !k.Found {
		a.unknown[Unknown{Pos: a.script.Pos(n), Why: k.reason()}] = true
	}
}

// invoke follows a function of the script with the arguments of one call.
func (a *analyzer) invoke(st *state, n ast.Expr, c Closure, args List) List {
	a.step(n.Line())
	if a.depth++; a.depth > 4*mostDepth {
		a.stop(n.Line(), "calls within calls go too deep here to be followed; use a loop")
	}
	defer func() { a.depth-- }()
	depth := 0
	for r := a.run; r != nil; r = r.outer {
		if r.fn == c.fn && (r.env.outer == c.env || depth > mostDepth) {
			return a.recur(st, r, args)
		}
		if depth++; depth > 2*mostDepth {
			a.stop(n.Line(), "calls within calls go too deep here to be followed; use a loop")
		}
	}
	args = a.ageWithin(st, n, args)
	again := &recursion{args: &args}
	entry := st.clone()
	entry.frame = nil
	for pass := 0; ; pass++ {
		if pass > mostPasses {
			a.stop(n.Line(), "a function that calls itself does not settle here; use a loop")
		}
		again.used = false
		result, live, exit := a.runOnce(entry.clone(), st, n, c, *again.args, again)
		if !again.used {
			l := a.leave(st, result, exit)
			l.live = live
			return l
		}
		// The function called itself. The next pass knows the results of this pass.
		widest := &recursion{args: again.args, result: joinLists(again.result, result),
			exit: joinStates(again.exit.clone(), exit.clone()), used: true}
		if again.entry != nil {
			entry = joinStates(entry, again.entry)
		}
		settled := again.result.equal(widest.result) && (again.exit == nil) == (widest.exit == nil) &&
			(again.exit == nil || again.exit.equal(widest.exit)) && !again.changed
		if pass > 2 && again.exit != nil && widest.exit != nil {
			widenState(again.exit, widest.exit)
			widest.result.widen(again.result)
		}
		if settled {
			return a.leave(st, widest.result, widest.exit)
		}
		widest.entry, again = entry.clone(), widest
	}
}

// recur follows a call of a function that is already running. The result is what earlier passes found.
func (a *analyzer) recur(st *state, r *run, args List) List {
	again := r.again
	again.used = true
	a.did.answered = true
	if joined := joinLists(again.args, &args); !joined.equal(again.args) {
		joined.widen(again.args)
		again.args, again.changed = joined, true
	}
	shared := st.clone()
	shared.frame = nil
	before := again.entry.clone()
	if joined := joinStates(again.entry, shared); before == nil || !joined.equal(before) {
		if before != nil {
			widenState(before, joined)
		}
		again.entry, again.changed = joined, true
	}
	if again.result == nil || again.exit == nil {
		st.dead = true
		return List{}
	}
	return a.leave(st, again.result, again.exit)
}

// leave goes on after a call, in the state that the function left.
func (a *analyzer) leave(st *state, result *List, exit *state) List {
	if exit == nil || result == nil {
		st.dead = true
		return List{}
	}
	st.cells, st.heap, st.lengths = maps.Clone(exit.cells), maps.Clone(exit.heap), maps.Clone(exit.lengths)
	st.progress, st.protocol = exit.progress, exit.protocol
	return *result
}

// runOnce follows the body of a function once.
func (a *analyzer) runOnce(st, caller *state, n ast.Expr, c Closure, args List, again *recursion) (result,
	live *List, exit *state) {
	r := &run{
		fn: c.fn, outer: a.run, args: args, caller: caller, again: again,
		recursive: again.used || again.entry != nil,
		env:       a.interned.env(c.fn, a.interned.context(a.run.env.context, n), c.env),
	}
	a.run = r
	a.reach.entered[c.fn] = true
	defer func() { a.run = r.outer }()
	st.frame, st.run = make([]Value, c.fn.slots), r
	for i, p := range c.fn.params {
		a.declare(st, p, args.at(i))
	}
	if c.fn.varargs {
		r.varargs = args.from(len(c.fn.params))
		a.argTable(st, r)
	}
	if end := a.block(st, c.fn.stmts); end != nil {
		r.returns(end.answer(List{}))
		r.exit = joinStates(r.exit, end)
	}
	if r.exit != nil {
		r.exit.frame = nil
		r.exit.forgetRun(r)
	}
	return r.result, r.live, r.exit
}

// returns notes the values that a function returns.
func (r *run) returns(values List) {
	r.result = joinLists(r.result, &values)
	if first := values.at(0); !first.equal(vNil) && !first.Bottom() {
		r.live = joinLists(r.live, &values)
	}
}

// answer marks the values that a function returns, or their absence, with a kept guard. A caller that sees
// them then knows that the guard is kept.
func (s *state) answer(values List) List {
	if s.progress == Unchecked {
		return values
	}
	return values.proving()
}

// argTable declares arg. Lua 5.1 gives arg to variadic functions that do not use the three dots.
func (a *analyzer) argTable(st *state, r *run) {
	if r.fn.dots {
		a.declare(st, r.fn.arg, vNil)
		return
	}
	t := (&Table{Exact: true}).with(r.varargs, script.Pos{Line: r.fn.line}, false)
	t.Fields = map[string]Value{"n": Of(Number{Class: Integer})}
	a.declare(st, r.fn.arg, a.alloc(st, r.fn, 0, t))
}

// protected follows pcall and xpcall. answer returns the value that the call answers for an error.
func (a *analyzer) protected(st *state, n ast.Expr, callee Value, args List,
	answer func(raised Value) Value) List {
	id := a.pcall(n)
	a.did.answered = true
	st.age(func(call int) bool { return call == id })
	failed := &caught{}
	before := st.clone()
	a.caught = append(a.caught, failed)
	a.mayRaise(st)
	l := a.call(st, n, callee, args)
	a.caught = a.caught[:len(a.caught)-1]
	if c, one := callee.only(); one {
		if fn, ok := c.(Closure); ok && a.neverRaises(st, fn.fn, nil) {
			l.Items = slices.Concat([]Value{Of(Bool{V: true, Call: id})}, l.Items)
			return l
		}
	}
	raised := Raised{Call: id, Script: callee.mayBe(func(k Kind) bool { _, is := k.(Command); return !is })}
	if st.dead { // the call always raises an error
		*st = *before
		if failed.state != nil {
			st.take(failed.state)
		}
		return List{Items: []Value{Of(Bool{Call: id}), answer(Join(Of(raised), failed.thrown))}}
	}
	if failed.state != nil {
		st.joinShared(failed.state)
	}
	answered := answer(Join(Of(raised), failed.thrown))
	result := List{Items: []Value{Of(Bool{V: true, Call: id}, Bool{Call: id})}, Rest: l.Rest, Open: true}
	for i, v := range l.Items {
		if i == 0 {
			v = Join(v, answered)
		} else {
			v = Join(v, vNil)
		}
		result.Items = append(result.Items, v)
	}
	if len(l.Items) == 0 {
		result.Rest = Join(result.Rest, answered)
	}
	return result
}

// neverRaises reports whether a function only returns values, and makes them without an error. caught is its
// parameter with an error of Lua or of a command, if there is one.
func (a *analyzer) neverRaises(st *state, fn *function, caught *variable) bool {
	plain := func(v Value) bool {
		k, _ := v.only()
		r, ok := k.(Ref)
		return ok && st.heap[r.site].Meta.Bottom()
	}
	if len(fn.stmts) != 1 || !plain(a.keys) || !plain(a.args) || a.deep() {
		return false
	}
	returned, ok := fn.stmts[0].(*ast.ReturnStmt)
	return ok && a.allQuiet(returned.Exprs, caught)
}

// mostCalls is far below the 200 nested C calls that fill Lua's stack. Each pcall is a C call, and so is each
// function that a library or a metatable calls.
const mostCalls = 50

// deep reports whether the stack may be full, because then every call raises an error. The stack may be full
// in a recursive function, or in many nested calls.
func (a *analyzer) deep() bool {
	depth := len(a.caught)
	for r := a.run; r != nil; r = r.outer {
		if depth++; r.recursive {
			return true
		}
	}
	return depth > mostCalls
}

func (a *analyzer) allQuiet(list []ast.Expr, caught *variable) bool {
	return !slices.ContainsFunc(list, func(e ast.Expr) bool { return !a.quiet(e, caught) })
}

// quiet reports whether an expression certainly raises no error.
func (a *analyzer) quiet(e ast.Expr, caught *variable) bool {
	switch e := e.(type) {
	case *ast.IdentExpr, *ast.FunctionExpr, *ast.Comma3Expr, ast.ConstExpr:
		return true
	case *ast.AttrGetExpr: // of KEYS or ARGV, which are tables, or of an error, which is a text or a table
		object, isName := e.Object.(*ast.IdentExpr)
		if _, constant := e.Key.(ast.ConstExpr); !isName || !constant {
			return false
		}
		variable := a.names.uses[object]
		return variable == nil && (object.Value == "KEYS" || object.Value == "ARGV") ||
			variable != nil && variable == caught
	case *ast.TableExpr:
		return !slices.ContainsFunc(e.Fields, func(f *ast.Field) bool {
			_, named := f.Key.(*ast.StringExpr)
			return f.Key != nil && !named || !a.quiet(f.Value, caught)
		})
	case *ast.FuncCallExpr:
		if of, is := e.Func.(*ast.AttrGetExpr); is {
			return a.makesReply(of) && a.allQuiet(e.Args, caught)
		}
		called, isName := e.Func.(*ast.IdentExpr)
		return isName && a.names.uses[called] == nil && called.Value == "tostring" && len(e.Args) == 1 &&
			a.plainText(e.Args[0], caught)
	case *ast.StringConcatOpExpr:
		return a.joinable(e.Lhs, caught) && a.joinable(e.Rhs, caught)
	}
	return false
}

// makesReply reports whether an expression is a function that accepts all arguments. It answers wrong
// arguments with an error reply.
func (a *analyzer) makesReply(e *ast.AttrGetExpr) bool {
	object, isName := e.Object.(*ast.IdentExpr)
	name, isText := e.Key.(*ast.StringExpr)
	return isName && isText && a.names.uses[object] == nil && object.Value == "redis" &&
		(name.Value == "error_reply" || name.Value == "status_reply")
}

// plainText reports whether tostring of an expression calls no function of the script.
func (a *analyzer) plainText(e ast.Expr, caught *variable) bool {
	name, isName := e.(*ast.IdentExpr)
	_, constant := e.(ast.ConstExpr)
	return constant || isName && caught != nil && a.names.uses[name] == caught
}

// joinable reports whether .. raises no error for an expression.
func (a *analyzer) joinable(e ast.Expr, caught *variable) bool {
	switch e.(type) {
	case *ast.StringExpr, *ast.NumberExpr:
		return true
	case *ast.FuncCallExpr, *ast.StringConcatOpExpr:
		return a.quiet(e, caught)
	}
	return false
}

func (s *state) take(from *state) {
	s.cells, s.heap, s.lengths = from.cells, from.heap, from.lengths
	s.progress, s.protocol = from.progress, from.protocol
}

// pcall numbers the pcalls of the script. The number ties together the values that one pcall answers.
func (a *analyzer) pcall(n ast.Expr) int {
	at := callKey{n, a.run.env.context}
	if a.pcalls[at] == 0 {
		a.pcalls[at] = len(a.pcalls) + 1
		a.pcallWays = append(a.pcallWays, at.context)
	}
	return a.pcalls[at]
}

// age notes that the script makes some pcalls again. Their earlier answers say nothing about later answers.
func (s *state) age(is func(call int) bool) {
	for i, v := range s.frame {
		s.frame[i] = older(v, is)
	}
	for at, h := range s.cells {
		s.cells[at] = held{older(h.Value, is), h.many}
	}
	for at, t := range s.heap {
		s.heap[at] = t.mapped(func(v Value) Value { return older(v, is) })
	}
}

// older returns a value in which the answers of some pcalls no longer name their pcall.
func older(v Value, is func(call int) bool) Value {
	named := func(k Kind) bool { call := answerOf(k); return call > 0 && is(call) }
	if !v.mayBe(named) {
		return v
	}
	return v.mapped(func(k Kind) Value {
		if named(k) {
			switch answer := k.(type) {
			case Bool:
				return Of(Bool{V: answer.V})
			case Raised:
				return Of(Raised{Script: answer.Script, Raw: answer.Raw})
			}
		}
		return Of(k)
	})
}

// answerOf returns the number of the pcall that answered a kind; 0: unknown.
func answerOf(k Kind) int {
	switch k := k.(type) {
	case Bool:
		return k.Call
	case Raised:
		return k.Call
	}
	return 0
}

// forgotten is older for all pcalls.
func forgotten(v Value) Value { return older(v, func(int) bool { return true }) }

// ageWithin ages the pcalls in a function that the script calls again.
func (a *analyzer) ageWithin(st *state, n ast.Expr, args List) List {
	way := a.interned.contexts[contextKey{a.run.env.context, n}]
	if way == nil || !slices.ContainsFunc(a.pcallWays, func(c *context) bool { return c.under(way) }) {
		return args
	}
	st.age(func(call int) bool { return a.pcallWays[call-1].under(way) })
	args.Items = slices.Clone(args.Items)
	for i, v := range args.Items {
		args.Items[i] = forgotten(v)
	}
	args.Rest, args.first = forgotten(args.Rest), nil
	return args
}
