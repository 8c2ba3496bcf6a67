package analyze

import (
	"cmp"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// reach is what of the text was followed.
type reach struct {
	exprs   map[ast.Expr]bool // names and fields that were read; the calls are in callees
	made    map[*function]bool
	entered map[*function]bool
	handed  map[*function]bool // to something other than the script's own text, which may call them
	yes, no map[*ast.IfStmt]bool
	varied  map[*variable]bool // parameters that are given something other than a constant of the text
	direct  *ast.FuncCallExpr  // the call that is followed next, if it names its function
}

func newReach() reach {
	return reach{
		exprs: map[ast.Expr]bool{}, made: map[*function]bool{}, entered: map[*function]bool{},
		handed: map[*function]bool{},
		yes:    map[*ast.IfStmt]bool{}, no: map[*ast.IfStmt]bool{}, varied: map[*variable]bool{},
	}
}

// bind notes which parameters of a function a call gives a constant of the text, or nothing. A call
// that is not in the text, such as one of a metatable's function, gives anything.
func (a *analyzer) bind(fn *function, call *ast.FuncCallExpr) {
	for i, p := range fn.params {
		if call == nil || !givesConstant(call.Args, i) {
			a.reach.varied[p] = true
		}
	}
}

func givesConstant(args []ast.Expr, i int) bool {
	if i < len(args) {
		return literal(args[i])
	}
	if len(args) == 0 {
		return true
	}
	switch args[len(args)-1].(type) {
	case *ast.FuncCallExpr, *ast.Comma3Expr: // which may bring it
		return false
	}
	return true
}

// closure makes a function of the script's text.
func (a *analyzer) closure(n *ast.FunctionExpr) Value {
	fn := a.names.functions[n]
	a.reach.made[fn] = true
	return Of(Closure{fn, a.run.env})
}

// callbacks are the functions of Lua that call what they are given.
var callbacks = []string{"pcall", "xpcall", "table.sort", "table.foreach", "table.foreachi", "string.gsub"}

// handOver notes functions that something other than the script's own text may call.
func (a *analyzer) handOver(v Value) {
	for _, k := range v.kinds {
		if c, ok := k.(Closure); ok {
			a.reach.handed[c.fn] = true
		}
	}
}

// events are the fields of a metatable whose functions are followed where Lua calls them.
var events = strings.Fields("__add __call __concat __div __eq __index __le __lt __metatable __mod __mul " +
	"__newindex __pow __sub __tostring __unm")

// handOverEvents notes the functions of a metatable that nothing here knows when Lua calls, if it does.
func (a *analyzer) handOverEvents(t *Table) {
	for name, v := range t.Fields {
		if strings.HasPrefix(name, "__") && !slices.Contains(events, name) {
			a.handOver(v)
		}
	}
}

// unreached finds calls of commands in the text that were never followed, so that nothing is known of
// them. That such a call is never made is no more certain than all else that is known: what is
// proved of the script shall not lean on it. A function that nothing calls is left alone.
func (a *analyzer) unreached() {
	if a.facts.Overrun != nil {
		return
	}
	t := &reader{analyzer: a, values: map[*variable]ast.Expr{}, asked: map[*variable]int{},
		stands: map[*variable]int{}, asking: map[*function]bool{}}
	for _, v := range a.names.uses {
		t.stands[v]++
	}
	t.gather()
	t.report(a.names.main.stmts)
	for n, fn := range a.names.functions {
		if a.reach.entered[fn] {
			t.report(n.Stmts)
		}
	}
	slices.SortFunc(a.facts.Unreached, func(p, q script.Pos) int {
		return cmp.Or(cmp.Compare(p.Line, q.Line), cmp.Compare(p.Column, q.Column))
	})
	a.facts.Unreached = slices.Compact(a.facts.Unreached)
}

// reader tells of parts of the text whether they may call a command, by what stands there alone.
type reader struct {
	*analyzer
	values  map[*variable]ast.Expr // what a local is declared with
	asked   map[*variable]int      // how often a field of a local is read
	stands  map[*variable]int      // how often a local stands in the text
	methods []string               // that the text defines
	asking  map[*function]bool     // whether the text of a function may call a command
}

func (t *reader) gather() {
	read := func(e ast.Expr, by int) bool {
		if field, ok := e.(*ast.AttrGetExpr); ok {
			if name, ok := field.Object.(*ast.IdentExpr); ok {
				t.asked[t.names.uses[name]] += by
			}
		}
		return true
	}
	i := &inspector{expr: func(e ast.Expr) bool { return read(e, 1) }, stmt: func(stmt ast.Stmt) ways {
		switch n := stmt.(type) {
		case *ast.AssignStmt:
			for _, target := range n.Lhs { // which is no reading
				read(target, -1)
			}
		case *ast.LocalAssignStmt:
			for i, v := range t.names.locals[stmt] {
				if i < len(n.Exprs) && !v.assigned {
					t.values[v] = n.Exprs[i]
				}
			}
		case *ast.FuncDefStmt:
			t.methods = append(t.methods, n.Name.Method)
		}
		return everywhere
	}}
	i.block(t.names.main.stmts)
	for changed := true; changed; {
		changed = false
		for n, fn := range t.names.functions {
			if !t.asking[fn] && t.asks(n) {
				t.asking[fn], changed = true, true
			}
		}
	}
}

// report notes what was never followed in a function that was.
func (t *reader) report(stmts []ast.Stmt) {
	i := &inspector{stmt: t.ways}
	i.expr = func(e ast.Expr) bool {
		asks := false
		switch n := e.(type) {
		case *ast.FunctionExpr:
			fn := t.names.functions[n]
			return !t.reach.entered[fn] && (!t.reach.made[fn] || t.reach.handed[fn])
		case *ast.FuncCallExpr:
			_, followed := t.callees[n]
			asks = !followed && t.mayAsk(n)
		case *ast.LogicalOpExpr:
			if !t.reach.exprs[n.Rhs] && t.isConstant(n.Lhs) {
				return false
			}
		case *ast.IdentExpr, *ast.AttrGetExpr:
			asks = !t.reach.exprs[e] && t.isAsking(e)
		}
		if asks {
			t.facts.Unreached = append(t.facts.Unreached, t.script.Pos(e))
		}
		return true
	}
	i.block(stmts)
}

// ways tells where commands must have been followed. A branch of an if that constants of the text
// decide is certainly dead: a helper has such branches for other callers, and a script for a switch
// of its own.
func (t *reader) ways(stmt ast.Stmt) ways {
	n, ok := stmt.(*ast.IfStmt)
	if !ok || !t.isConstant(n.Condition) {
		return everywhere
	}
	yes, no := t.reach.yes[n], t.reach.no[n]
	if !yes && !no { // the if itself was never followed
		return everywhere
	}
	return ways{yes, no, yes && no || yes && !leaves(n.Then) || no && !leaves(n.Else)}
}

// leaves reports whether statements end with a return or a break.
func leaves(stmts []ast.Stmt) bool {
	if len(stmts) == 0 {
		return false
	}
	switch stmts[len(stmts)-1].(type) {
	case *ast.ReturnStmt, *ast.BreakStmt:
		return true
	}
	return false
}

// isConstant reports whether nothing but constants of the text decide what an expression is.
func (t *reader) isConstant(e ast.Expr) bool {
	switch n := e.(type) {
	case ast.ConstExpr:
		return true
	case *ast.IdentExpr:
		v := t.names.uses[n]
		switch {
		case v == nil || v.assigned:
			return false
		case v.param > 0:
			return !t.reach.varied[v]
		}
		return literal(t.values[v])
	case *ast.AttrGetExpr: // of a table that nothing changes
		name, isName := n.Object.(*ast.IdentExpr)
		key, isText := n.Key.(*ast.StringExpr)
		if !isName || !isText {
			return false
		}
		v := t.names.uses[name]
		table, ok := t.values[v].(*ast.TableExpr)
		return ok && t.asked[v] == t.stands[v] && slices.ContainsFunc(table.Fields, func(f *ast.Field) bool {
			k, named := f.Key.(*ast.StringExpr)
			return named && k.Value == key.Value && literal(f.Value)
		})
	case *ast.UnaryNotOpExpr:
		return t.isConstant(n.Expr)
	case *ast.LogicalOpExpr: // the second may never be asked
		return t.isConstant(n.Lhs) && (t.isConstant(n.Rhs) || !t.reach.exprs[n.Rhs])
	case *ast.RelationalOpExpr:
		return t.isConstant(n.Lhs) && t.isConstant(n.Rhs)
	}
	return false
}

// mayAsk reports whether a call may be one of a command.
func (t *reader) mayAsk(n *ast.FuncCallExpr) bool {
	if n.Func == nil { // a method of a string, if it can be nothing else
		return !slices.Contains(members["string"], n.Method) || slices.Contains(t.methods, n.Method) ||
			slices.Contains(t.names.texts, n.Method)
	}
	if name, ok := n.Func.(*ast.IdentExpr); ok && t.names.uses[name] == nil &&
		(name.Value == "pcall" || name.Value == "xpcall") {
		return slices.ContainsFunc(n.Args[:min(len(n.Args), 2)],
			func(e ast.Expr) bool { return !literal(e) && t.mayBeAsking(e) })
	}
	return t.mayBeAsking(n.Func)
}

// mayBeAsking reports whether what an expression stands for may call a command.
func (t *reader) mayBeAsking(e ast.Expr) bool {
	switch n := e.(type) {
	case *ast.FunctionExpr: // its own text is walked as well
		return false
	case *ast.IdentExpr:
		v := t.names.uses[n]
		if v == nil {
			return false
		}
		value := t.values[v]
		if fn, ok := value.(*ast.FunctionExpr); ok {
			return t.asking[t.names.functions[fn]]
		}
		return value == nil || t.mayBeAsking(value)
	case *ast.AttrGetExpr:
		library := t.library(n.Object)
		name, constant := n.Key.(*ast.StringExpr)
		return library == "" || isServer(library) && (!constant || isCommand(name.Value))
	}
	return true
}

// isAsking reports whether what an expression stands for is known to call commands.
func (t *reader) isAsking(e ast.Expr) bool {
	switch n := e.(type) {
	case *ast.IdentExpr:
		switch value := t.values[t.names.uses[n]].(type) {
		case *ast.FunctionExpr:
			return t.asking[t.names.functions[value]]
		case *ast.AttrGetExpr:
			return t.isAsking(value)
		}
	case *ast.AttrGetExpr:
		return isServer(t.library(n.Object)) && t.mayBeAsking(n)
	}
	return false
}

// asks reports whether the text of a function may call a command, as far as is known of the functions
// that it calls.
func (t *reader) asks(n *ast.FunctionExpr) bool {
	found := false
	i := &inspector{}
	i.expr = func(e ast.Expr) bool {
		call, isCall := e.(*ast.FuncCallExpr)
		found = found || t.isAsking(e) || isCall && t.mayAsk(call)
		return !found
	}
	i.block(n.Stmts)
	return found
}

// library returns the name of the library that an expression stands for, or "".
func (t *reader) library(e ast.Expr) string {
	name, ok := e.(*ast.IdentExpr)
	if !ok {
		return ""
	}
	if v := t.names.uses[name]; v != nil {
		return t.library(t.values[v])
	}
	if _, known := members[name.Value]; known || isServer(name.Value) {
		return name.Value
	}
	return ""
}

func isServer(name string) bool  { return name == "redis" || name == "server" }
func isCommand(name string) bool { return name == "call" || name == "pcall" }
