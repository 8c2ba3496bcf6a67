package check

import (
	"fmt"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// follow walks a script and collects facts. It keeps Lua's scopes and knows what
// locals, parameters, and tables of the script stand for, so that aliases, loops
// over KEYS and helper functions are followed. It is insensitive to order: a local
// stands for all values that it is ever given. The walk is repeated until nothing
// new is learned; only then are facts noted.
func follow(s *script.Script) *facts {
	f := &follower{
		script:    s,
		bindings:  map[site]*binding{},
		tables:    map[*ast.TableExpr]*table{},
		functions: map[*ast.FunctionExpr]*function{},
	}
	const enough = 50 // passes; what is known only ever shrinks, so few are needed
	for pass := 0; pass == 0 || f.changed && pass < enough; pass++ {
		f.walk()
	}
	f.facts = &facts{fallsThrough: !ends(s.Body)}
	f.walk()
	f.facts.values = f.known
	return f.facts
}

type scope struct {
	outer  *scope
	locals map[string]*binding
}

type follower struct {
	script    *script.Script
	facts     *facts // nil until nothing new is learned
	scope     *scope
	bindings  map[site]*binding
	tables    map[*ast.TableExpr]*table
	functions map[*ast.FunctionExpr]*function
	current   *function // the function around the current line; nil in the script itself
	top       int       // statement of the script itself that the current line is part of
	part      part
	method    *ast.FunctionExpr // the function being defined as a method, which has a self
	loops     int
	fixed     bool // in a function that takes no ...
	changed   bool
	known     map[ast.Expr]value // what this pass has followed
}

func (f *follower) walk() {
	f.changed = false
	f.scope = nil
	f.known = map[ast.Expr]value{}
	f.inside(func() {
		for i, stmt := range f.script.Body {
			f.top, f.part = i, whole
			if n, ok := stmt.(*ast.IfStmt); ok {
				f.part = condition
				f.value(n.Condition)
				f.part = thenBranch
				f.block(n.Then)
				f.part = elseBranch
				f.block(n.Else)
				continue
			}
			f.stmt(stmt)
		}
	})
}

// here is where the current line stands.
func (f *follower) here() place { return place{f.top, f.part, f.current} }

// note runs record when facts are taken.
func (f *follower) note(record func(*facts)) {
	if f.facts != nil {
		record(f.facts)
	}
}

// misuse notes what Redis does not take.
func (f *follower) misuse(pos script.Pos, format string, args ...any) {
	f.note(func(facts *facts) { facts.misuses = append(facts.misuses, misuse{fmt.Sprintf(format, args...), pos}) })
}

// declare makes a local known in the current scope.
func (f *follower) declare(node ast.PositionHolder, index int, name string) *binding {
	at := site{node, index}
	b := f.bindings[at]
	if b == nil {
		b = &binding{}
		f.bindings[at] = b
	}
	f.scope.locals[name] = b
	return b
}

// learn adds a value to what a variable may stand for.
func (f *follower) learn(known *value, v value) {
	joined := join(*known, v)
	if joined.equal(*known) {
		if joined.kind == anything {
			f.release(v)
		}
		return
	}
	before := *known
	*known = joined
	f.changed = true
	if joined.kind == anything {
		f.release(before)
		f.release(v)
	}
}

// release gives up what is known of a table or a function that may be changed or
// called out of sight.
func (f *follower) release(v value) {
	give := func(known *value) {
		if known.kind != anything {
			before := *known
			*known = unknown
			f.changed = true
			f.release(before)
		}
	}
	switch v.kind {
	case made:
		give(&v.table.elements)
		for name, known := range v.table.fields { // a table may be a field of itself
			if known.kind != anything {
				v.table.fields[name] = unknown
				f.changed = true
				f.release(known)
			}
		}
	case closure:
		for _, p := range v.fn.params {
			give(&p.value)
		}
		f.enter(v.fn) // whoever has it may call it
	}
}

// enter notes that a function may be called from the current line.
func (f *follower) enter(fn *function) {
	f.note(func(facts *facts) { facts.entries = append(facts.entries, entry{f.here(), fn}) })
}

func (f *follower) lookup(name string) *binding {
	for s := f.scope; s != nil; s = s.outer {
		if b := s.locals[name]; b != nil {
			return b
		}
	}
	return nil
}

func (f *follower) inside(body func()) {
	f.scope = &scope{outer: f.scope, locals: map[string]*binding{}}
	body()
	f.scope = f.scope.outer
}

func (f *follower) block(stmts []ast.Stmt) {
	f.inside(func() {
		for _, stmt := range stmts {
			f.stmt(stmt)
		}
	})
}

func (f *follower) stmt(stmt ast.Stmt) {
	switch n := stmt.(type) {
	case *ast.LocalAssignStmt:
		f.local(n)
	case *ast.AssignStmt:
		f.assign(n)
	case *ast.FuncCallStmt:
		if call, ok := n.Expr.(*ast.FuncCallExpr); ok && call.AdjustRet {
			f.misuse(f.script.Tokens.Line(n.Line()), "a call in parentheses is no statement of Lua 5.1; leave them out")
		}
		f.value(n.Expr)
	case *ast.DoBlockStmt:
		f.block(n.Stmts)
	case *ast.WhileStmt:
		f.value(n.Condition)
		f.loop(func() { f.block(n.Stmts) })
	case *ast.RepeatStmt:
		f.loop(func() { // the condition sees the body's locals
			for _, stmt := range n.Stmts {
				f.stmt(stmt)
			}
			f.value(n.Condition)
		})
	case *ast.IfStmt:
		f.value(n.Condition)
		f.block(n.Then)
		f.block(n.Else)
	case *ast.NumberForStmt:
		f.values([]ast.Expr{n.Init, n.Limit, n.Step})
		f.loop(func() {
			f.learn(&f.declare(n, 0, n.Name).value, unknown)
			f.block(n.Stmts)
		})
	case *ast.GenericForStmt:
		f.iterate(n)
	case *ast.FuncDefStmt:
		f.define(n)
	case *ast.ReturnStmt:
		f.result(n)
	case *ast.BreakStmt:
		if f.loops == 0 {
			f.misuse(f.script.Tokens.Line(n.Line()), "break stands outside a loop")
		}
	case *ast.LabelStmt, *ast.GotoStmt:
		f.misuse(f.script.Tokens.Line(n.Line()), "goto and labels are not Lua 5.1, which Redis runs; use a loop or an if")
	}
}

func (f *follower) loop(body func()) {
	f.loops++
	f.inside(body)
	f.loops--
}

// iterate follows for … in …: ipairs and pairs hand out a table's elements.
func (f *follower) iterate(n *ast.GenericForStmt) {
	elements := unknown
	if call, ok := n.Exprs[0].(*ast.FuncCallExpr); ok && len(call.Args) == 1 && f.isBuiltin(call.Func, "ipairs", "pairs") {
		table := f.expr(call.Args[0])
		f.whole(table, call.Args[0])
		elements = table.elements()
	} else {
		f.values(n.Exprs)
	}
	f.loop(func() {
		for i, name := range n.Names {
			v := unknown
			if i == 1 {
				v = elements
			}
			f.learn(&f.declare(n, i, name).value, v)
		}
		f.block(n.Stmts)
	})
}

func (f *follower) result(n *ast.ReturnStmt) {
	if f.current != nil {
		for i, e := range n.Exprs {
			v := f.expr(e)
			if i == 0 {
				f.learn(&f.current.result, v)
			} else {
				f.escape(e, v)
			}
		}
		return
	}
	f.values(n.Exprs)
	f.note(func(facts *facts) { facts.returns = append(facts.returns, f.reply(n)) })
}

// reply describes what the script itself returns.
func (f *follower) reply(n *ast.ReturnStmt) returned {
	r := returned{pos: f.script.Tokens.Line(n.Line()), values: len(n.Exprs)}
	if len(n.Exprs) == 0 {
		return r
	}
	r.pos = f.script.Pos(n.Exprs[0])
	switch e := n.Exprs[0].(type) {
	case *ast.FuncCallExpr:
		fn := f.again(e.Func)
		r.failure = fn.kind == builtin && fn.texts[0] == "redis.error_reply"
	case *ast.TableExpr:
		r.table, r.length = true, len(e.Fields)
		for i, field := range e.Fields {
			r.keyed = r.keyed || field.Key != nil
			if name, ok := field.Key.(*ast.StringExpr); ok && name.Value == "err" {
				r.failure = true
			}
			switch field.Value.(type) {
			case *ast.NilExpr:
				r.nilAt = f.script.Pos(field.Value)
			case *ast.FuncCallExpr, *ast.Comma3Expr:
				r.open = i == len(e.Fields)-1
			}
		}
	case ast.ConstExpr:
		r.scalar = true
		_, r.number = e.(*ast.NumberExpr)
	}
	return r
}
