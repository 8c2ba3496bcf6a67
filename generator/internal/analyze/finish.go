package analyze

import (
	"cmp"
	"slices"

	"github.com/yuin/gopher-lua/ast"
)

// finish puts the facts into the order of the text.
func (a *analyzer) finish() {
	f := a.facts
	for _, c := range a.calls {
		f.Calls = append(f.Calls, c)
	}
	slices.SortFunc(f.Calls, func(c, d *Call) int {
		return cmp.Or(cmp.Compare(c.Pos.Line, d.Pos.Line), cmp.Compare(c.Pos.Column, d.Pos.Column),
			cmp.Compare(c.context, d.context))
	})
	a.judge()
	for _, t := range a.tests {
		f.Tests = append(f.Tests, *t)
	}
	for _, t := range a.looks {
		f.Tests = append(f.Tests, *t)
	}
	slices.SortFunc(f.Tests, func(t, u Test) int {
		return cmp.Or(cmp.Compare(t.Pos.Line, u.Pos.Line), cmp.Compare(t.Pos.Column, u.Pos.Column),
			cmp.Compare(t.Operator, u.Operator))
	})
	for u := range a.unknown {
		f.Unknown = append(f.Unknown, u)
	}
	slices.SortFunc(f.Unknown, func(u, v Unknown) int { return u.key().compare(v.key()) })
	a.uncallable()
	a.unreached()
}

// uncallable finds calls and reads of fields that always raise an error.
func (a *analyzer) uncallable() {
	for e, v := range a.callees {
		call, isCall := e.(*ast.FuncCallExpr)
		if v.Bottom() || isCall && v.mayBe(a.callable) {
			continue
		}
		what := "indexed"
		at := ast.Expr(e)
		if isCall {
			what = "called"
			if at = call.Func; at == nil {
				at = call.Receiver
			}
		} else if v.mayBe(func(k Kind) bool { t := TypeOf(k); return t == "table" || t == "string" || t == "" }) {
			continue
		}
		if a.alreadyFound(at) {
			continue
		}
		a.misuse(at, "what is "+what+" here is "+DescribeValue(v)+
			", which is an error whenever it is reached; mend its spelling, or give it a value before")
	}
}

func (a *analyzer) callable(k Kind) bool {
	switch k := k.(type) {
	case Command, Closure, Unknown, Ref:
		return true
	case Builtin:
		return members[k.Name] == nil
	}
	return false
}

// alreadyFound reports whether there is already a finding about the place.
func (a *analyzer) alreadyFound(e ast.Expr) bool {
	pos := a.script.Pos(e)
	for _, uses := range [][]Use{a.facts.Reads, a.facts.Writes, a.facts.Unsafe} {
		if slices.ContainsFunc(uses, func(u Use) bool { return u.Pos == pos }) {
			return true
		}
	}
	return slices.ContainsFunc(a.facts.Misuses, func(m Misuse) bool { return m.Pos == pos })
}
