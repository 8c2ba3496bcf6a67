package check

import (
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

func (f *follower) call(n *ast.FuncCallExpr) value {
	if n.Func == nil { // receiver:method(…)
		f.value(n.Receiver)
		f.values(n.Args)
		return unknown
	}
	switch fn := f.expr(n.Func); fn.kind {
	case caller:
		return f.command(n.Args, f.script.Pos(n))
	case closure:
		f.enter(fn.fn)
		for i, e := range n.Args {
			v := f.expr(e)
			if i < len(fn.fn.params) && f.spread(e).kind == nothing {
				f.learn(&fn.fn.params[i].value, v)
			} else {
				f.escape(e, v)
			}
		}
		return fn.fn.result
	case builtin:
		return f.builtin(fn.texts[0], n)
	default:
		f.escape(n.Func, fn)
		f.values(n.Args)
		return unknown
	}
}

// builtin follows calls of the functions that matter to keys.
func (f *follower) builtin(name string, n *ast.FuncCallExpr) value {
	args := make([]value, len(n.Args))
	for i, e := range n.Args {
		args[i] = f.expr(e)
	}
	switch {
	case (name == "pcall" || name == "xpcall") && len(args) > 0 && args[0].kind == caller:
		return f.command(n.Args[1:], f.script.Pos(n))
	case (name == "unpack" || name == "table.unpack") && len(args) > 0:
		f.whole(args[0], n.Args[0])
		return args[0].elements()
	case name == "table.insert" && len(args) > 1 && args[0].kind == made:
		f.learn(&args[0].table.elements, args[len(args)-1])
		return value{}
	case name == "table.remove" && len(args) > 0:
		f.whole(args[0], n.Args[0])
		return args[0].elements()
	case name == "tostring" && len(args) == 1:
		return args[0]
	case name == "tonumber" && len(args) > 0:
		v := args[0]
		v.numeric = v.kind == arg || v.kind == read
		return v
	}
	if (name == "error" || name == "assert") && len(args) > 0 && args[len(args)-1].kind == text {
		f.note(func(facts *facts) {
			facts.raised = append(facts.raised, raise{args[len(args)-1].texts, f.script.Pos(n)})
		})
	}
	for i, v := range args {
		if v.kind == made && !changes[name] {
			continue // most functions of the sandbox only look at a table
		}
		f.escape(n.Args[i], v)
	}
	if name == "assert" && len(args) > 0 {
		return args[0]
	}
	return unknown
}

// spread returns the elements that an expression in the last place brings, as in
// {unpack(KEYS)}; nothing when it brings one value.
func (f *follower) spread(e ast.Expr) value {
	switch n := e.(type) {
	case *ast.Comma3Expr:
		return unknown
	case *ast.FuncCallExpr:
		if len(n.Args) > 0 && f.isBuiltin(n.Func, "unpack") {
			return f.again(n.Args[0]).elements()
		}
	}
	return value{}
}

// bringsMany reports whether an expression in the last place may bring any number
// of values.
func (f *follower) bringsMany(e ast.Expr) bool {
	n, isCall := e.(*ast.FuncCallExpr)
	if !isCall || n.Func == nil {
		_, dots := e.(*ast.Comma3Expr)
		return isCall || dots
	}
	switch fn := f.again(n.Func); fn.kind {
	case caller:
		return false
	case builtin:
		library, member, isMember := strings.Cut(fn.texts[0], ".")
		switch {
		case !isMember:
			return !single[library]
		case library == "math" || library == "cjson" || library == "redis" || library == "bit":
			return false
		}
		return member != "format" && member != "rep" && member != "sub" && member != "len" && member != "lower" && member != "upper" && member != "concat" && member != "pack"
	}
	return true
}

// command notes a call of a Redis command.
func (f *follower) command(args []ast.Expr, pos script.Pos) value {
	c := call{place: f.here(), pos: pos}
	for i, e := range args {
		w := word{expr: e, value: f.expr(e), pos: f.script.Pos(e)}
		if i == len(args)-1 {
			if open := f.spread(e); open.kind != nothing {
				w.value, w.open = open, true
			} else {
				w.open = i > 0 && f.bringsMany(e)
			}
		}
		f.whole(w.value, e)
		c.words = append(c.words, w)
	}
	if len(c.words) > 0 && c.words[0].value.kind == text {
		c.names = c.words[0].value.texts
	}
	if len(c.words) > 0 && c.words[0].value.kind == arg {
		if n := c.words[0].value.index; n >= 1 && n <= len(f.script.Args) {
			c.names = f.script.Args[n-1].Type.Values // an enum lists them
		}
	}
	f.note(func(facts *facts) { facts.calls = append(facts.calls, c) })
	if len(c.words) > 1 && c.words[1].value.kind == key && len(c.names) == 1 {
		return value{kind: read, index: c.words[1].value.index, texts: []string{strings.ToLower(c.names[0])}}
	}
	return unknown
}

// changes are the global functions that change a table, or keep it.
var changes = map[string]bool{"setmetatable": true, "rawset": true, "table.insert": true, "table.foreach": true, "table.foreachi": true}

// single are the global functions and members that bring one value.
var single = map[string]bool{"tostring": true, "tonumber": true, "type": true, "assert": true, "rawget": true}
