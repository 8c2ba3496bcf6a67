package check

import (
	"slices"
	"strconv"

	"github.com/yuin/gopher-lua/ast"
)

func (f *follower) values(list []ast.Expr) {
	for _, e := range list {
		f.value(e)
	}
}

// value follows an expression whose value goes somewhere out of sight.
func (f *follower) value(e ast.Expr) {
	if e != nil {
		f.escape(e, f.expr(e))
	}
}

// escape notes that a value that was followed so far goes out of sight.
func (f *follower) escape(e ast.Expr, v value) {
	f.whole(v, e)
	f.release(v)
	if v.kind == caller || v.kind == library {
		f.note(func(facts *facts) { facts.calls = append(facts.calls, call{place: f.here(), pos: f.script.Pos(e)}) })
	}
}

// whole notes a use of all of KEYS or ARGV.
func (f *follower) whole(v value, e ast.Expr) {
	f.note(func(facts *facts) {
		switch v.kind {
		case keysTable:
			facts.keys.whole = append(facts.keys.whole, f.script.Pos(e))
		case argvTable:
			facts.argv.whole = append(facts.argv.whole, f.script.Pos(e))
		}
	})
}

// again returns what this pass knows of an expression that it has followed.
func (f *follower) again(e ast.Expr) value { return f.known[e] }

// isBuiltin reports whether an expression is one of some global functions.
func (f *follower) isBuiltin(e ast.Expr, names ...string) bool {
	name, ok := e.(*ast.IdentExpr)
	return ok && slices.Contains(names, name.Value) && f.lookup(name.Value) == nil
}

// expr follows an expression and tells what is known of its value.
func (f *follower) expr(e ast.Expr) value {
	v := f.follow(e)
	f.known[e] = v
	return v
}

func (f *follower) follow(e ast.Expr) value {
	switch n := e.(type) {
	case *ast.IdentExpr:
		return f.name(n)
	case *ast.StringExpr:
		f.note(func(facts *facts) { facts.texts = append(facts.texts, n.Value) })
		return value{kind: text, texts: []string{n.Value}}
	case *ast.NumberExpr:
		if i, err := strconv.Atoi(n.Value); err == nil {
			return value{kind: number, index: i}
		}
	case *ast.NilExpr, *ast.FalseExpr:
		return value{}
	case *ast.AttrGetExpr:
		return f.index(n)
	case *ast.FuncCallExpr:
		return f.call(n)
	case *ast.FunctionExpr:
		return f.function(n)
	case *ast.TableExpr:
		return f.table(n)
	case *ast.LogicalOpExpr:
		return f.logical(n)
	case *ast.RelationalOpExpr:
		f.values([]ast.Expr{n.Lhs, n.Rhs})
		return value{kind: verdict, relation: n}
	case *ast.StringConcatOpExpr:
		f.values([]ast.Expr{n.Lhs, n.Rhs})
	case *ast.ArithmeticOpExpr:
		f.values([]ast.Expr{n.Lhs, n.Rhs})
	case *ast.UnaryMinusOpExpr:
		f.value(n.Expr)
	case *ast.UnaryNotOpExpr:
		f.value(n.Expr)
	case *ast.Comma3Expr:
		if f.fixed {
			f.misuse(f.script.Pos(n), "... stands in a function that has no ... among its parameters")
		}
	case *ast.UnaryLenOpExpr:
		f.whole(f.expr(n.Expr), n.Expr) // counting a table lets nothing out
	}
	return unknown
}

func (f *follower) name(n *ast.IdentExpr) value {
	if b := f.lookup(n.Value); b != nil {
		return b.value
	}
	switch n.Value {
	case "KEYS":
		return value{kind: keysTable}
	case "ARGV":
		return value{kind: argvTable}
	case "redis":
		return value{kind: library}
	}
	use := globalUse{n.Value, f.script.Pos(n)}
	switch {
	case !globals[n.Value]:
		f.note(func(facts *facts) { facts.globalReads = append(facts.globalReads, use) })
	case evasive[n.Value]:
		f.note(func(facts *facts) { facts.unsafe = append(facts.unsafe, use) })
	}
	return value{kind: builtin, texts: []string{n.Value}}
}

func (f *follower) index(n *ast.AttrGetExpr) value {
	object := f.expr(n.Object)
	switch object.kind {
	case keysTable:
		return f.element(n, func(facts *facts) *uses { return &facts.keys }, key)
	case argvTable:
		return f.element(n, func(facts *facts) *uses { return &facts.argv }, arg)
	case library:
		return f.member(n)
	case builtin: // math.max, table.insert
		if field, ok := n.Key.(*ast.StringExpr); ok {
			name := object.texts[0] + "." + field.Value
			f.exists(object.texts[0], field, n)
			if name == "math.random" || name == "os.clock" {
				f.note(func(facts *facts) { facts.random = append(facts.random, globalUse{name, f.script.Pos(n)}) })
			}
			return value{kind: builtin, texts: []string{name}}
		}
	case made:
		if field, ok := n.Key.(*ast.StringExpr); ok {
			return object.table.fields[field.Value]
		}
		f.value(n.Key)
		return object.elements()
	}
	f.value(n.Key)
	return object.elements()
}

// element follows KEYS[…] or ARGV[…].
func (f *follower) element(n *ast.AttrGetExpr, of func(*facts) *uses, k kind) value {
	index := f.expr(n.Key)
	pos := f.script.Pos(n)
	if index.kind == number {
		f.note(func(facts *facts) {
			u := of(facts)
			u.constant = append(u.constant, constantUse{index.index, pos})
		})
		return value{kind: k, index: max(index.index, 0)}
	}
	f.escape(n.Key, index)
	f.note(func(facts *facts) {
		u := of(facts)
		u.whole = append(u.whole, pos)
	})
	return value{kind: k}
}

func (f *follower) member(n *ast.AttrGetExpr) value {
	field, ok := n.Key.(*ast.StringExpr)
	if !ok {
		f.value(n.Key)
		f.escape(n, value{kind: library})
		return unknown
	}
	switch field.Value {
	case "call", "pcall":
		return value{kind: caller}
	}
	f.exists("redis", field, n)
	return value{kind: builtin, texts: []string{"redis." + field.Value}}
}

// exists finds members that a library does not have.
func (f *follower) exists(library string, field *ast.StringExpr, n *ast.AttrGetExpr) {
	if known, ok := members[library]; ok && !slices.Contains(known, field.Value) {
		f.misuse(f.script.Pos(n), "%s has no %s in Redis scripts; mend its spelling, or declare a local function of that name", library, field.Value)
	}
}

func (f *follower) table(n *ast.TableExpr) value {
	t := f.tables[n]
	if t == nil {
		t = &table{fields: map[string]value{}}
		f.tables[n] = t
	}
	for _, field := range n.Fields {
		if name, ok := field.Key.(*ast.StringExpr); ok {
			known := t.fields[name.Value]
			f.learn(&known, f.expr(field.Value))
			t.fields[name.Value] = known
			continue
		}
		if field.Key != nil {
			f.value(field.Key)
		}
		v := f.expr(field.Value)
		if open := f.spread(field.Value); open.kind != nothing {
			v = open
		}
		f.learn(&t.elements, v)
	}
	return value{kind: made, table: t}
}

// logical follows a and b, a or b. A nil or false on the way is no key, so a and
// b is b, and a or b is either.
func (f *follower) logical(n *ast.LogicalOpExpr) value {
	left, right := f.expr(n.Lhs), f.expr(n.Rhs)
	if n.Operator == "and" {
		f.whole(left, n.Lhs)
		return right
	}
	if left.kind == read && (right.kind == number || right.kind == text) {
		left.defaulted = true // for what is not there yet
		return left
	}
	joined := join(left, right)
	if joined.kind == anything {
		f.release(left)
		f.release(right)
	}
	return joined
}

func (f *follower) function(n *ast.FunctionExpr) value {
	fn := f.functions[n]
	if fn == nil {
		fn = &function{}
		f.functions[n] = fn
	}
	outer, loops, fixed := f.current, f.loops, f.fixed
	f.current, f.loops, f.fixed = fn, 0, !n.ParList.HasVargs
	f.inside(func() {
		if f.method == n {
			f.learn(&f.declare(n, -1, "self").value, unknown)
		}
		fn.params = fn.params[:0]
		for i, name := range n.ParList.Names {
			fn.params = append(fn.params, f.declare(n, i, name))
		}
		f.block(n.Stmts)
	})
	f.current, f.loops, f.fixed = outer, loops, fixed
	return value{kind: closure, fn: fn}
}
