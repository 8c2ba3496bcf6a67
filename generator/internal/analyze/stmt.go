package analyze

import (
	"slices"

	"github.com/yuin/gopher-lua/ast"
)

// block follows statements. A nil state says that the script never reaches their end.
func (a *analyzer) block(st *state, stmts []ast.Stmt) *state {
	for _, stmt := range stmts {
		if st = a.stmt(st, stmt); st == nil {
			return nil
		}
	}
	a.forget(st, stmts)
	return st
}

// forget drops the locals of a block. The analysis then knows that unreachable tables are gone.
func (a *analyzer) forget(st *state, stmts []ast.Stmt) {
	for _, stmt := range stmts {
		if _, ok := stmt.(*ast.LocalAssignStmt); ok {
			for _, v := range a.names.locals[stmt] {
				st.frame[v.slot] = Value{}
				st.forgetCounts(place{run: a.run, slot: v.slot})
			}
		}
	}
}

func (a *analyzer) stmt(st *state, stmt ast.Stmt) *state {
	a.step(stmt.Line())
	a.mayRaise(st)
	st = a.statement(st, stmt)
	if st == nil || st.dead {
		return nil
	}
	a.mayRaise(st)
	return st
}

// mayRaise notes that the script may raise an error here.
func (a *analyzer) mayRaise(st *state) {
	if n := len(a.caught); n > 0 && !st.dead {
		c := a.caught[n-1]
		now := st.clone()
		now.frame = nil
		if c.state == nil {
			c.state = now
			return
		}
		c.state.joinShared(now)
	}
}

func (a *analyzer) statement(st *state, stmt ast.Stmt) *state {
	switch n := stmt.(type) {
	case *ast.LocalAssignStmt:
		declared := a.names.locals[n]
		if len(n.Exprs) == 1 && len(declared) == 1 {
			if fn, ok := n.Exprs[0].(*ast.FunctionExpr); ok {
				a.declare(st, declared[0], a.closure(fn))
				return st
			}
		}
		values := a.counted(st, n.Exprs)
		for i, v := range declared {
			a.declare(st, v, values.at(i))
			a.copyCount(st, v, a.hidden(2*i), 0)
		}
		a.forgetHidden(st, max(len(declared), len(n.Exprs)))
	case *ast.AssignStmt:
		a.assign(st, n)
	case *ast.FuncCallStmt:
		if call, ok := n.Expr.(*ast.FuncCallExpr); ok {
			a.callExpr(st, call)
		} else {
			a.expr(st, n.Expr)
		}
	case *ast.DoBlockStmt:
		return a.block(st, n.Stmts)
	case *ast.WhileStmt:
		return a.fix(st, n.Line(), func(st *state) (again, out *state) {
			_, again, out = a.cond(st, n.Condition)
			return a.blockOf(again, n.Stmts), out
		})
	case *ast.RepeatStmt:
		return a.fix(st, n.Line(), func(st *state) (again, out *state) {
			for _, s := range n.Stmts {
				if st = a.stmt(st, s); st == nil {
					return nil, nil
				}
			}
			_, out, again = a.cond(st, n.Condition)
			for _, s := range []*state{out, again} {
				if s != nil {
					a.forget(s, n.Stmts)
				}
			}
			return again, out
		})
	case *ast.IfStmt:
		yes, no := a.decide(st, n)
		a.reach.yes[n], a.reach.no[n] = a.reach.yes[n] || yes != nil, a.reach.no[n] || no != nil
		return joinStates(a.blockOf(yes, n.Then), a.blockOf(no, n.Else))
	case *ast.NumberForStmt:
		return a.numberFor(st, n)
	case *ast.GenericForStmt:
		return a.genericFor(st, n)
	case *ast.FuncDefStmt:
		a.define(st, n)
	case *ast.ReturnStmt:
		a.returns(st, n)
		return nil
	case *ast.BreakStmt:
		if n := len(a.run.loops); n > 0 {
			a.run.loops[n-1] = joinStates(a.run.loops[n-1], st)
		}
		return nil
	case *ast.LabelStmt, *ast.GotoStmt: // a finding, at any place
	default:
		a.stop(stmt.Line(), "a statement of a form that is not followed")
	}
	return st
}

// blockOf follows statements, even if the script never reaches their start.
func (a *analyzer) blockOf(st *state, stmts []ast.Stmt) *state {
	if st == nil || st.dead {
		return nil
	}
	return a.block(st, stmts)
}

// loop follows the body of a loop, and joins the states of its breaks into out.
func (a *analyzer) loop(out **state, body func()) {
	a.run.loops = append(a.run.loops, nil)
	body()
	last := len(a.run.loops) - 1
	*out = joinStates(*out, a.run.loops[last])
	a.run.loops = a.run.loops[:last]
}

// fix follows a loop until a pass teaches nothing new. once follows one pass. It returns again, the state
// before the next pass, and out, the state after the loop.
func (a *analyzer) fix(st *state, line int, once func(*state) (again, out *state)) *state {
	for pass := 0; ; pass++ {
		if pass > mostPasses {
			a.stop(line, "what this loop does does not settle; do less in it, or in a function of its own")
		}
		before := st.clone()
		var again, out *state
		a.loop(&out, func() {
			var ended *state
			again, ended = once(st)
			out = ended
		})
		if again == nil || again.dead {
			return out
		}
		head := joinStates(before.clone(), again)
		if pass > 1 {
			widenState(before, head)
		}
		if head.equal(before) {
			return out
		}
		st = head
	}
}

const mostUnrolled = 128 // runs of a body one by one, over all loops around it

// unroll runs body, and counts count runs of it for the loops inside.
func (a *analyzer) unroll(count int, body func()) bool {
	if count == 0 {
		return true
	}
	if a.unrolled*count > mostUnrolled {
		return false
	}
	a.unrolled *= count
	body()
	a.unrolled /= count
	return true
}

func (a *analyzer) numberFor(st *state, n *ast.NumberForStmt) *state {
	counter := a.names.locals[n][0]
	hidden := a.hidden(loopCounters + counter.slot)
	init := a.expr(st, n.Init)
	st.note(hidden, a.differences(st, n.Init))
	limit, step := a.expr(st, n.Limit), Of(Num{F: 1})
	if n.Step != nil {
		step = a.expr(st, n.Step)
	}
	if st.dead {
		return nil
	}
	stride, strideKnown := whole(step)
	from, fromKnown := init.Num()
	to, toKnown := limit.Num()
	by, byKnown := step.Num()
	if fromKnown && toKnown && byKnown && by != 0 {
		if indices := counterOf(from, to, by); len(indices) <= mostUnrolled {
			var out *state
			st.startCount(hidden, init)
			if a.unroll(len(indices), func() {
				a.loop(&out, func() {
					for _, i := range indices {
						a.declare(st, counter, Of(Num{F: i}))
						a.copyCount(st, counter, hidden, 0)
						if st = a.block(st, n.Stmts); st == nil {
							return
						}
						st.advanceCount(hidden, stride, strideKnown)
					}
				})
			}) {
				return a.endCount(joinStates(out, st), counter, hidden)
			}
		}
	}
	index := Number{Class: Any}
	if fractional := func(k Kind) bool {
		q, ok := a.operandOf(k)
		return ok &&
			q.class == Fraction
	}; init.mayBe(fractional) || step.mayBe(fractional) {
		index.Class = Fraction
	}
	if a.whole(init) && a.whole(step) {
		index.Class = Integer
		index = a.counter(index, init, limit, step)
	}
	st.startCount(hidden, init)
	return a.endCount(a.fix(st, n.Line(), func(st *state) (again, out *state) {
		out = st.clone()
		a.declare(st, counter, Of(index))
		a.copyCount(st, counter, hidden, 0)
		if again = a.block(st, n.Stmts); again != nil {
			again.frame[counter.slot] = Value{}
			again.advanceCount(hidden, stride, strideKnown)
		}
		return again, out
	}), counter, hidden)
}

// counterOf returns the numbers of a loop. If they are too many to unroll, it returns the first of them. Lua
// adds the step to the last number, so the errors of fractions add up.
func counterOf(from, to, by float64) []float64 {
	var all []float64
	for i := from - by + by; (by > 0 && i <= to || by < 0 && to <= i) && len(all) <= mostUnrolled; i += by {
		all = append(all, i)
	}
	return all
}

// endCount forgets the counter of an ended loop.
func (a *analyzer) endCount(st *state, counter *variable, hidden place) *state {
	if st != nil {
		st.frame[counter.slot] = Value{}
		st.forgetCounts(hidden)
		st.forgetCounts(place{run: a.run, slot: counter.slot})
	}
	return st
}

// whole reports whether a value is a whole number, if it is a number.
func (a *analyzer) whole(v Value) bool {
	return !v.mayBe(func(k Kind) bool {
		q, ok := a.quantity(k)
		return ok && !isWhole(q.class)
	})
}

func (a *analyzer) genericFor(st *state, n *ast.GenericForStmt) *state {
	values := a.list(st, n.Exprs)
	if st.dead {
		return nil
	}
	next, over := values.at(0), values.at(1)
	vars := a.names.locals[n]
	control := vars[len(vars)-1].slot
	st.frame[control] = values.at(2)
	vars = vars[:len(vars)-1]
	clear := func(s *state) *state {
		if s != nil {
			for _, v := range vars {
				s.frame[v.slot] = Value{}
				s.forgetCounts(place{run: a.run, slot: v.slot})
			}
			s.frame[control] = Value{}
		}
		return s
	}
	if result, done := a.walkList(st.clone(), n, next, over, clear); values.at(2).equal(Of(Num{})) && done {
		return result
	}
	a.walks(vars[0], next, over)
	hidden := a.hidden(loopCounters + control)
	if next.equal(Of(Builtin{"ipairs.next"})) {
		st.startCount(hidden, values.at(2))
	}
	st = a.fix(st, n.Line(), func(st *state) (again, out *state) {
		list := a.iterate(st, n, next, over, st.frame[control])
		out = st.clone()
		first := list.at(0).filter(func(k Kind) bool {
			switch k.(type) {
			case Nil, Absent:
				return false
			}
			return true
		})
		if first.Bottom() || st.dead {
			return nil, out
		}
		st.frame[control] = first
		for i, v := range vars {
			value := list.at(i)
			if i == 0 {
				value = first
			}
			a.declare(st, v, value)
		}
		a.copyCount(st, vars[0], hidden, 1)
		again = a.block(st, n.Stmts)
		if again != nil {
			for _, v := range vars {
				again.frame[v.slot] = Value{}
			}
			again.advanceCount(hidden, 1, true)
		}
		return again, clear(out)
	})
	if st != nil {
		st.forgetCounts(hidden)
	}
	return clear(st)
}

// walkList follows ipairs over a list of known length, item by item.
func (a *analyzer) walkList(st *state, n *ast.GenericForStmt, next, over Value,
	clear func(*state) *state) (*state, bool) {
	f, _ := next.only()
	t, _ := over.only()
	ref, isTable := t.(Ref)
	if f != Kind(Builtin{"ipairs.next"}) || !isTable {
		return nil, false
	}
	table := st.heap[ref.site]
	if table == nil || !table.Exact || !table.Rest.Bottom() {
		return nil, false
	}
	vars := a.names.locals[n]
	vars = vars[:len(vars)-1]
	count := len(table.Items)
	var out *state
	done := a.unroll(count, func() {
		a.loop(&out, func() {
			for i := range count {
				item := st.heap[ref.site].item(float64(i + 1)) // the body may change the item
				out = joinStates(out, whenNil(st, item))
				item = present(item)
				if item.Bottom() {
					st = nil
					return
				}
				a.declare(st, vars[0], Of(Num{F: float64(i + 1)}))
				for j, v := range vars[1:] {
					if j == 0 {
						a.declare(st, v, item)
					} else {
						a.declare(st, v, vNil)
					}
				}
				if st = clear(a.block(st, n.Stmts)); st == nil {
					return
				}
			}
		})
	})
	if !done {
		return nil, false
	}
	if st != nil && (st.heap[ref.site].mayGrow(count)) {
		// The body appended to the list, so the caller follows the loop as a whole.
		return nil, false
	}
	return clear(joinStates(out, st)), true
}

// mayGrow reports whether the list may be longer than length.
func (t *Table) mayGrow(length int) bool { return len(t.Items) > length || mayIndex(t.Names, false) }

// whenNil returns the state in which a nil item ends the loop.
func whenNil(st *state, item Value) *state {
	if present(item).equal(item) {
		return nil
	}
	return st.clone()
}

func (a *analyzer) assign(st *state, n *ast.AssignStmt) {
	type target struct {
		object Value
		index  position
	}
	targets := make([]target, len(n.Lhs))
	for i, lhs := range n.Lhs {
		if field, ok := lhs.(*ast.AttrGetExpr); ok {
			at := a.hidden(2*i + 1)
			did := a.during(func() {
				targets[i] = target{a.expr(st, field.Object), position{key: a.expr(st, field.Key), at: at}}
				st.note(at, a.differences(st, field.Key))
			})
			if !did.eventful { // otherwise each answer may be another list
				targets[i].index.behind, targets[i].index.last = a.isBehind(field), a.isLast(field)
			}
		}
	}
	values := a.counted(st, n.Rhs)
	if st.dead {
		return
	}
	for i, lhs := range slices.Backward(n.Lhs) { // Lua assigns in this order
		a.mayRaise(st) // the next store may fail after the earlier ones
		switch t := lhs.(type) {
		case *ast.IdentExpr:
			if v := a.names.uses[t]; v != nil {
				now := values.at(i)
				if before := a.read(st, v); !before.mayBe(truthy) { // such as if not seen then seen = '0' end
					now = a.defaulted(before, now)
				}
				a.write(st, v, now)
				a.copyCount(st, v, a.hidden(2*i), 0)
			}
		case *ast.AttrGetExpr:
			if targets[i].index.behind { // a shorter list has another end
				targets[i].index.behind = !a.mayShrink(st, targets[i].object, n.Rhs)
			}
			if targets[i].index.last { // a longer list has another end too
				targets[i].index.last = !slices.ContainsFunc(n.Rhs, func(e ast.Expr) bool { return !a.calm(e) })
			}
			object, key := a.late(st, t.Object, targets[i].object), a.late(st, t.Key, targets[i].index.key)
			if !object.equal(targets[i].object) || !key.equal(targets[i].index.key) {
				targets[i] = target{object, position{key: key}}
			}
			a.storeAt(st, t, targets[i].object, targets[i].index, values.at(i))
		}
	}
	a.forgetHidden(st, max(len(n.Lhs), len(n.Rhs)))
}

func (a *analyzer) define(st *state, n *ast.FuncDefStmt) {
	fn := a.closure(n.Func)
	if n.Name.Method != "" {
		a.store(st, n.Name.Receiver, a.expr(st, n.Name.Receiver), Of(Str{S: n.Name.Method}), fn)
		return
	}
	switch t := n.Name.Func.(type) {
	case *ast.IdentExpr:
		if v := a.names.uses[t]; v != nil {
			a.write(st, v, fn)
		}
	case *ast.AttrGetExpr:
		a.store(st, t, a.expr(st, t.Object), a.expr(st, t.Key), fn)
	}
}

func (a *analyzer) returns(st *state, n *ast.ReturnStmt) {
	values := a.list(st, n.Exprs)
	if st.dead {
		return
	}
	if a.run.outer == nil {
		pos := a.script.Tokens.Line(n.Line())
		if len(n.Exprs) > 0 {
			pos = a.script.Pos(n.Exprs[0])
		}
		a.facts.Returns = append(a.facts.Returns,
			&Return{Pos: pos, Exprs: n.Exprs, Values: values, Progress: st.progress, Heap: Heap{st.clone().heap},
				Version3: st.protocol&resp3 != 0})
		return
	}
	a.run.returns(st.answer(values))
	a.run.exit = joinStates(a.run.exit, st)
}
