package analyze

import (
	"maps"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

// role is what becomes of a value that may be a condition.
type role uint8

const (
	decides  role = iota // which way the script goes
	passedOn             // b in a and b
	standIn              // a in a or b, where b is what stands in for a
)

// test notes a comparison or a condition, for all ways to it.
func (a *analyzer) test(e ast.Expr, t Test) *Test {
	if known := a.tests[e]; known != nil {
		known.Left, known.Right = Join(known.Left, t.Left), Join(known.Right, t.Right)
		return known
	}
	a.tests[e] = &t
	return &t
}

// came notes how a test has come out on one way.
func (t *Test) came(holds, fails bool) {
	t.holds, t.fails = t.holds || holds, t.fails || fails
}

// judge tells how a test always comes out, unless that is as it should be.
func (a *analyzer) judge() {
	asked := map[*variable]bool{} // locals of which a test tells whether there is anything
	for e, t := range a.tests {
		if !t.holds || !t.fails || t.Operator != "" && !t.Right.mayBe(falsy) && !t.Left.mayBe(falsy) {
			continue
		}
		for _, side := range sides(e) {
			if name, ok := side.(*ast.IdentExpr); ok {
				asked[a.names.uses[name]] = true
			}
		}
	}
	for e, t := range a.looks {
		t.Pos, t.Never = a.script.Pos(e), !t.holds && !(a.script.Included(a.script.Pos(e)) && a.ofParameter(e))
	}
	for e, t := range a.tests {
		t.Pos = a.script.Pos(e)
		if t.Counts != "" {
			t.Always = true
		}
		if t.Counts != "" || t.holds == t.fails || t.standIn && !t.Left.mayBe(a.isFlag) {
			continue
		}
		sides := sides(e)
		// The other callers of a fragment's function give other values.
		elsewhere := a.script.Included(t.Pos) && slices.ContainsFunc(sides, a.ofParameter)
		again := slices.ContainsFunc(sides, func(side ast.Expr) bool {
			name, ok := side.(*ast.IdentExpr)
			return ok && asked[a.names.uses[name]] &&
				(t.Operator == "" || t.asksNil(t.Left, t.Right) || t.asksNil(t.Right, t.Left))
		})
		t.Fragile = slices.ContainsFunc(sides, func(side ast.Expr) bool { return a.fragile[side] })
		meant := a.constant(t) || t.presence(e) && !(t.Operator == "" && t.Left.mayBe(a.falseLooking))
		if !elsewhere && !again && (t.Fragile || !meant) {
			t.Always, t.Never = t.holds, t.fails
		}
	}
}

// asksNil reports whether a test compares with nil what a command does not answer as false.
func (t *Test) asksNil(side, other Value) bool {
	return side.equal(vNil) && !other.mayBe(func(k Kind) bool { m, is := k.(Missing); return is && !m.Nil })
}

// sides are the expressions that a test is about.
func sides(e ast.Expr) []ast.Expr {
	if n, ok := e.(*ast.RelationalOpExpr); ok {
		return []ast.Expr{n.Lhs, n.Rhs}
	}
	return []ast.Expr{e}
}

// ofParameter reports whether an expression is about a parameter of a function.
func (a *analyzer) ofParameter(e ast.Expr) bool {
	if name, ok := e.(*ast.IdentExpr); ok {
		v := a.names.uses[name]
		return v != nil && v.param > 0
	}
	return slices.ContainsFunc(parts(e), func(part ast.Expr) bool { return part != nil && a.ofParameter(part) })
}

// constant reports whether nothing but constants of the text decide a test. A number that is one of
// several is none, where only its truth is asked.
func (a *analyzer) constant(t *Test) bool {
	isNum := func(k Kind) bool { _, is := k.(Num); return is }
	switch {
	case t.Operator == "":
		return t.Left.All(isConstant) && !(len(t.Left.kinds) > 1 && t.Left.All(isNum))
	case a.chosen(t.Left) || a.chosen(t.Right):
		return false
	}
	l, r := t.Left.Type(), t.Right.Type()
	comparable := l == r || l == "" || r == "" || l == "nil" || r == "nil"
	return comparable && t.Left.All(isConstant) && t.Right.All(isConstant)
}

// chosen reports whether a value is what the caller chooses of an enum.
func (a *analyzer) chosen(v Value) bool {
	return slices.ContainsFunc(a.argsTable().Items, func(item Value) bool {
		return len(item.kinds) > 1 && slices.Equal(item.kinds, v.kinds)
	})
}

func isConstant(k Kind) bool {
	switch k := k.(type) {
	case Nil, Absent, Bool, Str, Num, Empty, Command, Closure, Builtin:
		return true
	case Ref:
		_, entries := k.site.node.(string) // KEYS and ARGV
		return entries
	}
	return false
}

// presence reports whether a test asks only whether there is a value at all: the caller's, or a text
// that may have been looked at before.
func (t *Test) presence(e ast.Expr) bool {
	sent := func(k Kind) bool {
		switch k.(type) {
		case Arg, Key:
			return true
		}
		return false
	}
	texts := func(k Kind) bool {
		_, read := k.(Read)
		return read || TypeOf(k) == "string"
	}
	switch {
	case t.Operator == "":
		_, field := e.(*ast.AttrGetExpr)
		return t.Left.All(func(k Kind) bool {
			_, read := k.(Read)
			return read || sent(k) || isConstant(k) || field && TypeOf(k) != "number"
		}) && t.Left.mayBe(func(k Kind) bool { return !isConstant(k) })
	case t.Operator != "==" && t.Operator != "~=":
		return false
	}
	empty := func(v Value) bool { s, constant := v.Str(); return constant && s == "" }
	isArg := func(k Kind) bool { _, is := k.(Arg); return is }
	if empty(t.Left) && t.Right.All(isArg) || empty(t.Right) && t.Left.All(isArg) {
		return true
	}
	return t.Left.Type() == "nil" && t.Right.All(func(k Kind) bool { return sent(k) || texts(k) }) ||
		t.Right.Type() == "nil" && t.Left.All(func(k Kind) bool { return sent(k) || texts(k) })
}

// isFlag reports whether a kind is what the caller sends for no, or for nothing, which is true in Lua.
func (a *analyzer) isFlag(k Kind) bool {
	switch k := k.(type) {
	case Empty:
		return true
	case Arg:
		t, _ := a.declared(k.Index)
		return t.Base == "bool"
	}
	return false
}

// falseLooking is isFlag, also for a text that may be empty and is never compared with that.
func (a *analyzer) falseLooking(k Kind) bool {
	arg, ok := k.(Arg)
	t, _ := a.declared(arg.Index)
	text := ok && !arg.Number && (t.Base == "string" || t.Base == "bytes")
	return a.isFlag(k) || text && !a.facts.Compared[arg.Index]
}

// Type returns the type of a value; empty: it may have several.
func (v Value) Type() string {
	name := ""
	for _, k := range v.kinds {
		t := TypeOf(k)
		if name != "" && t != name {
			return ""
		}
		name = t
	}
	return name
}

// answeredBy returns the names of the commands of which a table is the reply, or a part of it.
func (a *analyzer) answeredBy(k Kind) []string {
	r, ok := k.(Ref)
	if !ok || r.site.part < 1000 { // the parts of replies begin there
		return nil
	}
	for at, call := range a.calls {
		if at.node == r.site.node && at.context == r.site.context {
			names, _ := call.Names()
			return names
		}
	}
	return nil
}

// field notes that a reply was asked for a field, or for an element.
func (a *analyzer) field(st *state, n *ast.AttrGetExpr, object, key, v Value) {
	missing := func(k Kind) bool { _, is := k.(Missing); return is }
	reply := func(k Kind) bool { return len(a.answeredBy(k)) > 0 }
	rest := object.filter(func(k Kind) bool { return !missing(k) })
	if object.mayBe(missing) && rest.All(reply) {
		a.fragile[n] = true
	}
	if t := a.looks[n]; t != nil || rest.All(reply) {
		if t == nil {
			t = &Test{Operator: "."}
			a.looks[n] = t
		}
		t.Left, t.Right = Join(t.Left, rest), Join(t.Right, key)
		t.came(v.mayBe(func(k Kind) bool { return TypeOf(k) != "nil" }) || !rest.All(reply), true)
		t.answers(st, a, rest)
	}
	if key.All(isNumber) {
		a.listed(st, n, object)
	}
}

// listed notes that a reply is taken for a list. In version 3 of the protocol, some are none.
func (a *analyzer) listed(st *state, e ast.Expr, v Value) {
	for _, k := range v.kinds {
		if len(a.answeredBy(k)) == 0 {
			continue
		}
		table := st.heap[k.(Ref).site]
		if table == nil || !table.Rest.Bottom() || len(table.Items) > 0 {
			continue
		}
		if _, isStatus := table.Fields["ok"]; len(table.Fields) == 1 && !isStatus {
			t := &Test{Operator: "#", fails: true}
			t.answers(st, a, Of(k))
			a.looks[e] = t
		}
	}
}

// answers notes which commands have answered, and which fields the reply has.
func (t *Test) answers(st *state, a *analyzer, v Value) {
	for _, k := range v.kinds {
		names := a.answeredBy(k)
		for _, name := range names {
			if name = strings.ToUpper(name); !slices.Contains(t.Commands, name) {
				t.Commands = append(t.Commands, name)
			}
		}
		if r, ok := k.(Ref); ok && len(names) > 0 && st.heap[r.site] != nil {
			table := st.heap[r.site]
			for _, name := range slices.Sorted(maps.Keys(table.Fields)) {
				if !slices.Contains(t.Fields, name) {
					t.Fields = append(t.Fields, name)
				}
			}
		}
	}
}

// isStatus reports whether a kind is a status that a command has answered: where it fails, there is an error.
func (a *analyzer) isStatus(st *state, k Kind) bool {
	return len(a.answeredBy(k)) > 0 && !st.heap[k.(Ref).site].field("ok").equal(vNil)
}

// perEntry are the commands that answer one value for each key, field or member.
var perEntry = strings.Fields("MGET HMGET SMISMEMBER ZMSCORE GEOPOS GEOHASH")

// countsReply returns the command of which an expression is the length of the reply, if that is the number
// of the words that it was given.
func (a *analyzer) countsReply(st *state, e ast.Expr) string {
	length, ok := e.(*ast.UnaryLenOpExpr)
	if !ok {
		return ""
	}
	var names []string
	if call, direct := length.Expr.(*ast.FuncCallExpr); direct {
		if c := a.calls[callKey{call, a.run.env.context}]; c != nil {
			names, _ = c.Names()
		}
	} else if v, known := a.peek(st, length.Expr); known {
		if k, one := v.only(); one {
			names = a.answeredBy(k)
		}
	}
	if len(names) == 1 && slices.Contains(perEntry, strings.ToUpper(names[0])) {
		return strings.ToUpper(names[0])
	}
	return ""
}

// literal reports whether an expression is a constant of the text.
func literal(e ast.Expr) bool { _, is := e.(ast.ConstExpr); return is }
