package analyze

import (
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// variable is one local of the script, or one parameter.
type variable struct {
	name     string
	owner    *function
	slot     int
	captured bool // a function inside of the owner uses it
	assigned bool // the script assigns to it after its declaration
	param    int  // its place among the parameters, from 1; 0: it is not a parameter
}

// function is one function in the text. The script itself is the first function.
type function struct {
	id      int
	outer   *function
	stmts   []ast.Stmt
	params  []*variable
	varargs bool
	arg     *variable // the table of varargs in Lua 5.1
	dots    bool      // it uses ..., so arg is nil
	slots   int
	line    int
}

// names is the knowledge from the text alone. It has the variable of each name, and each fault that does not
// depend on the run.
type names struct {
	main      *function
	functions map[*ast.FunctionExpr]*function
	locals    map[ast.Stmt][]*variable // that a statement declares
	uses      map[*ast.IdentExpr]*variable
	texts     []string
	mentions  map[string]map[int]bool // KEYS and ARGV -> the constant indices in the text
	others    map[string]int          // KEYS and ARGV -> how often the text has them without a constant index
	misuses   []Misuse
	reads     []Use // of globals that do not exist
	writes    []Use // of globals
	unsafe    []Use // of functions that run code that the text does not show
}

type resolver struct {
	*names
	script  *script.Script
	current *function
	scope   *scope
	loops   int
	forms   map[int][]bool // line -> for each local on it, whether it declares a function
}

type scope struct {
	outer  *scope
	locals map[string]*variable
}

// resolve walks the whole text once.
func resolve(s *script.Script) *names {
	main := &function{stmts: s.Body}
	r := &resolver{
		names: &names{
			main:      main,
			functions: map[*ast.FunctionExpr]*function{},
			locals:    map[ast.Stmt][]*variable{},
			uses:      map[*ast.IdentExpr]*variable{},
			mentions:  map[string]map[int]bool{"KEYS": {}, "ARGV": {}},
			others:    map[string]int{},
		},
		script:  s,
		current: main,
		forms:   localForms(s.Source),
	}
	r.block(s.Body)
	return r.names
}

// localForms tells local function f from local f = function, because the tree does not. Only the first form
// may call itself by its name.
func localForms(source string) map[int][]bool {
	if strings.HasPrefix(source, "#!") {
		source = "--" + source[2:]
	}
	forms := map[int][]bool{}
	scanner, lexer := parse.NewScanner(strings.NewReader(source), ""), &parse.Lexer{}
	line := 0 // of a local whose next token follows
	for {
		token, err := scanner.Scan(lexer)
		if err != nil || token.Type == parse.EOF {
			return forms
		}
		lexer.PrevTokenType = token.Type
		if line > 0 {
			forms[line] = append(forms[line], token.Type == parse.TFunction)
			line = 0
		}
		if token.Type == parse.TLocal {
			line = token.Pos.Line
		}
	}
}

func (r *resolver) misuse(pos script.Pos, message string) {
	r.misuses = append(r.misuses, Misuse{Message: message, Pos: pos})
}

func (r *resolver) inside(body func()) {
	r.scope = &scope{outer: r.scope, locals: map[string]*variable{}}
	body()
	r.scope = r.scope.outer
}

func (r *resolver) declare(name string) *variable {
	v := &variable{name: name, owner: r.current, slot: r.current.slots}
	r.current.slots++
	r.scope.locals[name] = v
	return v
}

func (r *resolver) declareAll(at ast.Stmt, list []string) {
	for _, name := range list {
		r.locals[at] = append(r.locals[at], r.declare(name))
	}
}

func (r *resolver) lookup(name string) *variable {
	for s := r.scope; s != nil; s = s.outer {
		if v := s.locals[name]; v != nil {
			return v
		}
	}
	return nil
}

func (r *resolver) block(stmts []ast.Stmt) {
	r.inside(func() {
		for _, stmt := range stmts {
			r.stmt(stmt)
		}
	})
}

func (r *resolver) loop(body func()) {
	r.loops++
	r.inside(body)
	r.loops--
}

func (r *resolver) stmt(stmt ast.Stmt) {
	switch n := stmt.(type) {
	case *ast.LocalAssignStmt:
		if r.isFunction(n) {
			r.declareAll(n, n.Names)
			r.exprs(n.Exprs)
			return
		}
		r.exprs(n.Exprs)
		r.declareAll(n, n.Names)
	case *ast.AssignStmt:
		for _, target := range n.Lhs {
			if name, ok := target.(*ast.IdentExpr); ok && r.lookup(name.Value) == nil {
				r.writes = append(r.writes, Use{Name: name.Value, Pos: r.script.Pos(name)})
				continue
			}
			r.expr(target)
			if name, ok := target.(*ast.IdentExpr); ok {
				r.uses[name].assigned = true
			}
		}
		r.exprs(n.Rhs)
	case *ast.FuncCallStmt:
		if call, ok := n.Expr.(*ast.FuncCallExpr); ok && call.AdjustRet {
			r.misuse(r.script.Tokens.Line(n.Line()),
				"a call in parentheses is no statement of Lua 5.1; leave them out")
		}
		r.expr(n.Expr)
	case *ast.DoBlockStmt:
		r.block(n.Stmts)
	case *ast.WhileStmt:
		r.expr(n.Condition)
		r.loop(func() { r.block(n.Stmts) })
	case *ast.RepeatStmt:
		r.loop(func() { // the condition sees the locals of the body
			for _, s := range n.Stmts {
				r.stmt(s)
			}
			r.expr(n.Condition)
		})
	case *ast.IfStmt:
		r.expr(n.Condition)
		r.block(n.Then)
		r.block(n.Else)
	case *ast.NumberForStmt:
		r.exprs([]ast.Expr{n.Init, n.Limit, n.Step})
		r.loop(func() {
			r.declareAll(n, []string{n.Name})
			r.block(n.Stmts)
		})
	case *ast.GenericForStmt:
		r.exprs(n.Exprs)
		r.loop(func() {
			r.declareAll(n, n.Names)
			r.locals[n] = append(r.locals[n], r.declare("(for control)"))
			r.block(n.Stmts)
		})
	case *ast.FuncDefStmt:
		switch target := n.Name.Func.(type) {
		case *ast.IdentExpr:
			if r.lookup(target.Value) == nil {
				r.writes = append(r.writes, Use{Name: target.Value, Pos: r.script.Pos(target)})
			} else {
				r.expr(target)
				r.uses[target].assigned = true
			}
		default:
			r.expr(n.Name.Func)
		}
		r.expr(n.Name.Receiver)
		r.function(n.Func, n.Name.Method != "")
	case *ast.ReturnStmt:
		r.exprs(n.Exprs)
	case *ast.BreakStmt:
		if r.loops == 0 {
			r.misuse(r.script.Tokens.Line(n.Line()), "break stands outside a loop; leave it out, or return")
		}
	case *ast.LabelStmt, *ast.GotoStmt:
		r.misuse(r.script.Tokens.Line(n.Line()),
			"goto and labels are not Lua 5.1, which Redis runs; use a loop or an if")
	}
}

// isFunction takes the form of the next local on a line.
func (r *resolver) isFunction(n *ast.LocalAssignStmt) bool {
	forms := r.forms[n.Line()]
	if len(forms) == 0 {
		return false
	}
	r.forms[n.Line()] = forms[1:]
	return forms[0]
}

func (r *resolver) exprs(list []ast.Expr) {
	for _, e := range list {
		r.expr(e)
	}
}

func (r *resolver) expr(expr ast.Expr) {
	switch n := expr.(type) {
	case *ast.IdentExpr:
		r.name(n)
	case *ast.StringExpr:
		r.texts = append(r.texts, n.Value)
	case *ast.Comma3Expr:
		r.current.dots = true
		if !r.current.varargs && r.current.outer != nil { // the script itself gets no varargs, and may use them
			r.misuse(r.script.Pos(n), "... stands in a function that has no ... among its parameters; add it to "+
				"them, or name the values")
		}
	case *ast.AttrGetExpr:
		r.exprs(parts(n))
		r.mention(n)
	case *ast.FunctionExpr:
		r.function(n, false)
	default:
		r.exprs(parts(n))
	}
}

// mention notes a constant index of KEYS or ARGV.
func (r *resolver) mention(n *ast.AttrGetExpr) {
	table, isName := n.Object.(*ast.IdentExpr)
	index, isNumber := n.Key.(*ast.NumberExpr)
	if !isName || !isNumber || r.mentions[table.Value] == nil || r.lookup(table.Value) != nil {
		return
	}
	if f, known := constant(index.Value).Num(); known {
		r.mentions[table.Value][int(f)] = true
		r.others[table.Value]--
	}
}

func (r *resolver) name(n *ast.IdentExpr) {
	if v := r.lookup(n.Value); v != nil {
		r.uses[n] = v
		v.captured = v.captured || v.owner != r.current
		return
	}
	r.others[n.Value]++
	switch {
	case !globals[n.Value]:
		r.reads = append(r.reads, Use{Name: n.Value, Pos: r.script.Pos(n)})
	case evasive[n.Value]:
		r.unsafe = append(r.unsafe, Use{Name: n.Value, Pos: r.script.Pos(n)})
	}
}

func (r *resolver) function(n *ast.FunctionExpr, method bool) {
	fn := &function{
		id: len(r.functions) + 1, outer: r.current, stmts: n.Stmts, varargs: n.ParList.HasVargs, line: n.Line(),
	}
	r.functions[n] = fn
	loops := r.loops
	r.current, r.loops = fn, 0
	r.inside(func() {
		params := n.ParList.Names
		if method {
			params = slices.Concat([]string{"self"}, params)
		}
		for _, name := range params {
			v := r.declare(name)
			fn.params = append(fn.params, v)
			v.param = len(fn.params)
		}
		if fn.varargs {
			fn.arg = r.declare("arg")
		}
		r.block(n.Stmts)
	})
	r.current, r.loops = fn.outer, loops
}
