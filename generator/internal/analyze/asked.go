package analyze

import (
	"maps"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

// role is what the script does with a value that may be a condition.
type role uint8

const (
	decides  role = iota // decides which way the script goes
	passedOn             // is b in a and b
	standIn              // is a in a or b, where b stands in for a
)

// test notes a comparison or a condition. It joins the values of all ways to it.
func (a *analyzer) test(e ast.Expr, t Test) *Test {
	if known := a.tests[e]; known != nil {
		known.Left, known.Right = Join(known.Left, t.Left), Join(known.Right, t.Right)
		return known
	}
	a.tests[e] = &t
	return &t
}

// came notes the outcomes of a test on one way.
func (t *Test) came(holds, fails bool) {
	t.holds, t.fails = t.holds || holds, t.fails || fails
}

// judge notes which tests always have the same outcome, unless the outcome is intended.
func (a *analyzer) judge() {
	asked := map[*variable]bool{} // locals that some test asks for presence
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
		// Other callers of a function in a fragment may give other values.
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

// asksNil reports whether a test compares a value with nil, and the value is never the false of a command.
func (t *Test) asksNil(side, other Value) bool {
	return side.equal(vNil) && !other.mayBe(func(k Kind) bool { m, is := k.(Missing); return is && !m.Nil })
}

// sides are the expressions in a test.
func sides(e ast.Expr) []ast.Expr {
	if n, ok := e.(*ast.RelationalOpExpr); ok {
		return []ast.Expr{n.Lhs, n.Rhs}
	}
	return []ast.Expr{e}
}

// ofParameter reports whether an expression has a parameter of a function in it.
func (a *analyzer) ofParameter(e ast.Expr) bool {
	if name, ok := e.(*ast.IdentExpr); ok {
		v := a.names.uses[name]
		return v != nil && v.param > 0
	}
	return slices.ContainsFunc(parts(e), func(part ast.Expr) bool { return part != nil && a.ofParameter(part) })
}

// constant reports whether constants of the text alone decide a test. If the test asks for the truth of one
// of several numbers, constants do not decide it.
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

// chosen reports whether a value is the caller's choice from an enum.
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

// presence reports whether a test asks only whether a value is present. The value comes from the caller, or
// is a text that the script may have asked about before.
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

// isFlag reports whether a kind is the caller's false or the caller's absent value. Both are true in Lua.
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

// falseLooking is isFlag, and also finds a text that may be empty. The script never compares the text with
// the empty string.
func (a *analyzer) falseLooking(k Kind) bool {
	arg, ok := k.(Arg)
	t, _ := a.declared(arg.Index)
	text := ok && !arg.Number && (t.Base == "string" || t.Base == "bytes")
	return a.isFlag(k) || text && !a.facts.Compared[arg.Index]
}

// Type returns the type of a value; empty: it may have several types.
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

// answeredBy returns the names of the commands whose reply a table is, or is a part of.
func (a *analyzer) answeredBy(k Kind) []string {
	r, ok := k.(Ref)
	if !ok || r.site.part < 1000 { // the parts of replies begin at 1000
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

// field notes that the script reads a field or an element of a reply.
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

// listed notes that the script takes a reply for a list. In version 3 of the protocol, some replies are not
// lists.
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

// answers notes the commands that answered, and the fields of their reply.
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

// isStatus reports whether a kind is the status of a command. A failed command raises an error in place of
// the status.
func (a *analyzer) isStatus(st *state, k Kind) bool {
	return len(a.answeredBy(k)) > 0 && !st.heap[k.(Ref).site].field("ok").equal(vNil)
}

// perEntry are the commands that answer one value for each key, field or member.
var perEntry = strings.Fields("MGET HMGET SMISMEMBER ZMSCORE GEOPOS GEOHASH")

// countsReply returns a command if an expression is the length of its reply, and that length is the number of
// words in the call.
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

func literal(e ast.Expr) bool { _, is := e.(ast.ConstExpr); return is }
