package analyze

import (
	"cmp"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// reach notes the parts of the text that the analysis followed.
type reach struct {
	exprs   map[ast.Expr]bool // names and fields that the script read; callees has the calls
	made    map[*function]bool
	entered map[*function]bool
	handed  map[*function]bool // functions that other code than the script's text may call
	yes, no map[*ast.IfStmt]bool
	varied  map[*variable]bool // parameters that get other values than constants of the text
	direct  *ast.FuncCallExpr  // the next call, if it names its function
}

func newReach() reach {
	return reach{
		exprs: map[ast.Expr]bool{}, made: map[*function]bool{}, entered: map[*function]bool{},
		handed: map[*function]bool{},
		yes:    map[*ast.IfStmt]bool{}, no: map[*ast.IfStmt]bool{}, varied: map[*variable]bool{},
	}
}

// bind notes which parameters a call leaves unset or sets to a constant of the text. A call outside of the
// text may pass any value, such as the call of a metatable's function.
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
	case *ast.FuncCallExpr, *ast.Comma3Expr: // their results may reach the parameter
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

// callbacks are the functions of Lua that call their arguments.
var callbacks = []string{"pcall", "xpcall", "table.sort", "table.foreach", "table.foreachi", "string.gsub"}

// handOver notes functions that other code than the script's text may call.
func (a *analyzer) handOver(v Value) {
	for _, k := range v.kinds {
		if c, ok := k.(Closure); ok {
			a.reach.handed[c.fn] = true
		}
	}
}

// events are the fields of a metatable whose calls the analysis follows.
var events = strings.Fields("__add __call __concat __div __eq __index __le __lt __metatable __mod __mul " +
	"__newindex __pow __sub __tostring __unm")

// handOverEvents notes functions of a metatable whose calls the analysis does not follow.
func (a *analyzer) handOverEvents(t *Table) {
	for name, v := range t.Fields {
		if strings.HasPrefix(name, "__") && !slices.Contains(events, name) {
			a.handOver(v)
		}
	}
}

// unreached finds calls of commands that the analysis never followed, so nothing is proved of them. The
// analysis may be wrong about what the script reaches, so a proof must not depend on it. A function that
// nothing calls is no finding.
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

// reader tells from the text alone whether a part of it may call a command.
type reader struct {
	*analyzer
	values  map[*variable]ast.Expr // the declared value of a local
	asked   map[*variable]int      // how often the script reads a field of a local
	stands  map[*variable]int      // how often the text has a local
	methods []string               // methods that the text defines
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
			for _, target := range n.Lhs { // a target is not a read
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

// report notes the parts of a followed function that the analysis never followed.
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

// ways tells which parts the analysis must have followed. If constants of the text decide an if, one branch
// is certainly dead. A helper has dead branches for other callers, and a script has them for its own
// switches.
func (t *reader) ways(stmt ast.Stmt) ways {
	n, ok := stmt.(*ast.IfStmt)
	if !ok || !t.isConstant(n.Condition) {
		return everywhere
	}
	yes, no := t.reach.yes[n], t.reach.no[n]
	if !yes && !no { // the analysis never followed the if
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

// isConstant reports whether constants of the text alone decide the value of an expression.
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
	case *ast.LogicalOpExpr: // Lua may never evaluate the second
		return t.isConstant(n.Lhs) && (t.isConstant(n.Rhs) || !t.reach.exprs[n.Rhs])
	case *ast.RelationalOpExpr:
		return t.isConstant(n.Lhs) && t.isConstant(n.Rhs)
	}
	return false
}

// mayAsk reports whether a call may call a command.
func (t *reader) mayAsk(n *ast.FuncCallExpr) bool {
	if n.Func == nil { // a method of a string, unless the script defines the name
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

// mayBeAsking reports whether the value of an expression may call a command.
func (t *reader) mayBeAsking(e ast.Expr) bool {
	switch n := e.(type) {
	case *ast.FunctionExpr: // report walks its text
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

// isAsking reports whether the value of an expression is known to call commands.
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

// asks reports whether the text of a function may call a command. It uses what is known so far about the
// functions that the text calls.
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

// library returns the library that is the value of an expression, or "".
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
