package check

import (
	"strconv"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// follow walks a script once and collects facts. It keeps Lua's scopes, so that
// an alias such as local call = redis.call is known for what it is and a local
// named KEYS is not mistaken for the real one.
func follow(s *script.Script) *facts {
	f := &follower{script: s, facts: &facts{}, assigned: assignedLocals(s.Body)}
	f.scope = &scope{}
	f.block(s.Body)
	f.facts.fallsThrough = !ends(s.Body)
	return f.facts
}

// kind is what the follower knows of a value.
type kind int

const (
	unknown  kind = iota
	keys          // the table KEYS
	argv          // the table ARGV
	library       // the table redis, or server
	function      // redis.call or redis.pcall
)

type scope struct {
	outer  *scope
	locals map[string]kind
}

type follower struct {
	script   *script.Script
	facts    *facts
	scope    *scope
	assigned map[string]bool
	loops    int
	depth    int // functions around the current line
}

func (f *follower) declare(name string, k kind) {
	if f.assigned[name] {
		k = unknown
	}
	f.scope.locals[name] = k
}

func (f *follower) lookup(name string) (kind, bool) {
	for s := f.scope; s != nil; s = s.outer {
		if k, local := s.locals[name]; local {
			return k, true
		}
	}
	return unknown, false
}

func (f *follower) inside(body func()) {
	f.scope = &scope{outer: f.scope, locals: map[string]kind{}}
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

func (f *follower) loop(stmts []ast.Stmt, names ...string) {
	f.loops++
	f.inside(func() {
		for _, name := range names {
			f.declare(name, unknown)
		}
		f.block(stmts)
	})
	f.loops--
}

func (f *follower) stmt(stmt ast.Stmt) {
	switch n := stmt.(type) {
	case *ast.LocalAssignStmt:
		f.local(n)
	case *ast.AssignStmt:
		f.assign(n)
	case *ast.FuncCallStmt:
		f.value(n.Expr)
	case *ast.DoBlockStmt:
		f.block(n.Stmts)
	case *ast.WhileStmt:
		f.value(n.Condition)
		f.loop(n.Stmts)
	case *ast.RepeatStmt:
		f.repeat(n)
	case *ast.IfStmt:
		f.value(n.Condition)
		f.block(n.Then)
		f.block(n.Else)
	case *ast.NumberForStmt:
		f.values([]ast.Expr{n.Init, n.Limit, n.Step})
		f.loop(n.Stmts, n.Name)
	case *ast.GenericForStmt:
		f.values(n.Exprs)
		f.loop(n.Stmts, n.Names...)
	case *ast.FuncDefStmt:
		f.define(n)
	case *ast.ReturnStmt:
		f.result(n)
	case *ast.BreakStmt:
		if f.loops == 0 {
			f.facts.strayBreaks = append(f.facts.strayBreaks, f.script.Tokens.Line(n.Line()))
		}
	case *ast.LabelStmt, *ast.GotoStmt:
		f.facts.gotos = append(f.facts.gotos, f.script.Tokens.Line(n.Line()))
	}
}

// repeat keeps the body's locals visible in the condition, as Lua does.
func (f *follower) repeat(n *ast.RepeatStmt) {
	f.loops++
	f.inside(func() {
		for _, stmt := range n.Stmts {
			f.stmt(stmt)
		}
		f.value(n.Condition)
	})
	f.loops--
}

// local follows aliases: binding KEYS or redis.call to a name is not a use of it.
func (f *follower) local(n *ast.LocalAssignStmt) {
	kinds := make([]kind, len(n.Names))
	if len(n.Exprs) == 1 && len(n.Names) == 1 {
		if fn, ok := n.Exprs[0].(*ast.FunctionExpr); ok {
			f.declare(n.Names[0], unknown) // a local function may call itself
			f.function(fn)
			return
		}
	}
	for i, e := range n.Exprs {
		k := f.expr(e)
		if i < len(kinds) && !f.assigned[n.Names[i]] {
			kinds[i] = k
		} else {
			f.escapes(e, k)
		}
	}
	for i, name := range n.Names {
		f.declare(name, kinds[i])
	}
}

func (f *follower) assign(n *ast.AssignStmt) {
	for _, target := range n.Lhs {
		switch t := target.(type) {
		case *ast.IdentExpr:
			if _, local := f.lookup(t.Value); !local {
				f.facts.globalWrites = append(f.facts.globalWrites, globalUse{t.Value, f.script.Pos(t)})
			}
		case *ast.AttrGetExpr:
			f.field(t)
		}
	}
	f.values(n.Rhs)
}

// field follows an assignment to a field, which no global may have.
func (f *follower) field(t *ast.AttrGetExpr) {
	if name, ok := t.Object.(*ast.IdentExpr); ok {
		if _, local := f.lookup(name.Value); !local {
			f.facts.globalFields = append(f.facts.globalFields, globalUse{name.Value, f.script.Pos(name)})
			f.value(t.Key)
			return
		}
	}
	f.value(t.Object)
	f.value(t.Key)
}

func (f *follower) define(n *ast.FuncDefStmt) {
	target := n.Name.Func
	if target == nil {
		target = n.Name.Receiver
	}
	switch t := target.(type) {
	case *ast.IdentExpr:
		if _, local := f.lookup(t.Value); !local {
			f.facts.globalWrites = append(f.facts.globalWrites, globalUse{t.Value, f.script.Pos(t)})
		}
	case *ast.AttrGetExpr:
		f.field(t)
	}
	f.function(n.Func)
}

func (f *follower) function(n *ast.FunctionExpr) {
	loops := f.loops
	f.loops = 0
	f.depth++
	f.inside(func() {
		for _, name := range n.ParList.Names {
			f.declare(name, unknown)
		}
		f.block(n.Stmts)
	})
	f.depth--
	f.loops = loops
}

func (f *follower) values(list []ast.Expr) {
	for _, e := range list {
		f.value(e)
	}
}

// value follows an expression whose value goes somewhere unknown.
func (f *follower) value(e ast.Expr) {
	if e != nil {
		f.escapes(e, f.expr(e))
	}
}

// escapes notes that a table that was followed so far may now be read anywhere.
func (f *follower) escapes(e ast.Expr, k kind) {
	switch k {
	case keys:
		f.facts.keys.whole = append(f.facts.keys.whole, f.script.Pos(e))
	case argv:
		f.facts.argv.whole = append(f.facts.argv.whole, f.script.Pos(e))
	case function, library:
		f.facts.calls = append(f.facts.calls, call{pos: f.script.Pos(e)})
	}
}

// expr follows an expression and tells what is known of its value.
func (f *follower) expr(e ast.Expr) kind {
	switch n := e.(type) {
	case *ast.IdentExpr:
		return f.name(n)
	case *ast.AttrGetExpr:
		return f.index(n)
	case *ast.FuncCallExpr:
		f.call(n)
	case *ast.FunctionExpr:
		f.function(n)
	case *ast.TableExpr:
		for _, field := range n.Fields {
			f.value(field.Key)
			f.value(field.Value)
		}
	case *ast.LogicalOpExpr:
		f.values([]ast.Expr{n.Lhs, n.Rhs})
	case *ast.RelationalOpExpr:
		f.values([]ast.Expr{n.Lhs, n.Rhs})
	case *ast.StringConcatOpExpr:
		f.values([]ast.Expr{n.Lhs, n.Rhs})
	case *ast.ArithmeticOpExpr:
		f.values([]ast.Expr{n.Lhs, n.Rhs})
	case *ast.UnaryMinusOpExpr:
		f.value(n.Expr)
	case *ast.UnaryNotOpExpr:
		f.value(n.Expr)
	case *ast.UnaryLenOpExpr:
		f.value(n.Expr)
	}
	return unknown
}

func (f *follower) name(n *ast.IdentExpr) kind {
	if k, local := f.lookup(n.Value); local {
		return k
	}
	switch n.Value {
	case "KEYS":
		return keys
	case "ARGV":
		return argv
	case "redis", "server":
		return library
	}
	if !globals[n.Value] {
		f.facts.globalReads = append(f.facts.globalReads, globalUse{n.Value, f.script.Pos(n)})
	}
	return unknown
}

func (f *follower) index(n *ast.AttrGetExpr) kind {
	object := f.expr(n.Object)
	switch object {
	case keys:
		f.element(&f.facts.keys, n)
	case argv:
		f.element(&f.facts.argv, n)
	case library:
		if field, ok := n.Key.(*ast.StringExpr); ok {
			if field.Value == "call" || field.Value == "pcall" {
				return function
			}
			return unknown
		}
		f.escapes(n, library)
		f.value(n.Key)
	default:
		f.escapes(n.Object, object)
		f.value(n.Key)
	}
	return unknown
}

func (f *follower) element(u *uses, n *ast.AttrGetExpr) {
	if number, ok := n.Key.(*ast.NumberExpr); ok {
		if index, err := strconv.Atoi(number.Value); err == nil {
			u.constant = append(u.constant, constantUse{index, f.script.Pos(n)})
			return
		}
	}
	u.whole = append(u.whole, f.script.Pos(n))
	f.value(n.Key)
}

func (f *follower) call(n *ast.FuncCallExpr) {
	if n.Func == nil { // receiver:method(…)
		f.value(n.Receiver)
		f.values(n.Args)
		return
	}
	k := f.expr(n.Func)
	if k != function {
		f.escapes(n.Func, k)
		f.values(n.Args)
		return
	}
	f.values(n.Args)
	c := call{args: n.Args, pos: f.script.Pos(n)}
	if len(n.Args) > 0 {
		if name, ok := n.Args[0].(*ast.StringExpr); ok {
			c.name = name.Value
		}
		switch n.Args[len(n.Args)-1].(type) {
		case *ast.FuncCallExpr, *ast.Comma3Expr:
			c.open = true
		}
	}
	f.facts.calls = append(f.facts.calls, c)
}

func (f *follower) result(n *ast.ReturnStmt) {
	f.values(n.Exprs)
	if f.depth > 0 {
		return // a function of the script returns, not the script
	}
	r := returned{pos: f.script.Tokens.Line(n.Line()), values: len(n.Exprs)}
	if len(n.Exprs) > 0 {
		r.pos = f.script.Pos(n.Exprs[0])
		switch e := n.Exprs[0].(type) {
		case *ast.TableExpr:
			f.literal(&r, e)
		case ast.ConstExpr:
			r.scalar = true
		}
	}
	f.facts.returns = append(f.facts.returns, r)
}

func (f *follower) literal(r *returned, table *ast.TableExpr) {
	r.table = true
	for i, field := range table.Fields {
		if field.Key != nil {
			r.keyed = true
		}
		switch field.Value.(type) {
		case *ast.NilExpr:
			r.nilAt = f.script.Pos(field.Value)
		case *ast.FuncCallExpr, *ast.Comma3Expr:
			if i == len(table.Fields)-1 {
				r.open = true
			}
		}
	}
	r.length = len(table.Fields)
}
