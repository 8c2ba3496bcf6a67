package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/command"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// guard proves that a guarded script writes nothing before it has compared the
// lock's key with the caller's token, or the remembered fence with the caller's.
//
// Two forms are proofs. Either a statement of the script itself leaves it when the
// comparison fails, and no write stands before; or all writes stand in the branch
// of a statement that is taken when the comparison holds.
func (c *checker) guard() {
	g := c.script.Guard
	if g == nil || len(c.findings) > 0 { // what is not whole cannot be proved
		return
	}
	writes := c.writes()
	for i, stmt := range c.script.Body {
		at := func(parts ...part) bool {
			return slices.ContainsFunc(writes, func(p place) bool { return p.top == i && slices.Contains(parts, p.part) })
		}
		if n, ok := stmt.(*ast.IfStmt); ok {
			proof := false
			switch c.compares(g, n.Condition) {
			case whenBroken:
				proof = ends(n.Then) && !at(condition, thenBranch)
			case neither: // if … then return elseif broken then return end
				proof = c.chained(g, n) && !at(condition, thenBranch, elseBranch)
			case whenKept:
				proof = !slices.ContainsFunc(writes, func(p place) bool { return p.top != i || p.part != thenBranch })
			}
			if proof {
				c.remembers(g)
				return
			}
		}
		if at(whole, condition, thenBranch, elseBranch) {
			c.findf(c.script.Tokens.Line(stmt.Line()), "this can write before the guard has been checked; first %s", c.wanted(g))
			return
		}
	}
	c.findf(g.Pos, "guard: the script never checks it; before the first write, %s", c.wanted(g))
}

// chained reports whether an if and its elseifs all leave the script, up to one that
// does so when the guard is broken.
func (c *checker) chained(g *script.Guard, n *ast.IfStmt) bool {
	if !ends(n.Then) {
		return false
	}
	if c.compares(g, n.Condition) == whenBroken {
		return true
	}
	if len(n.Else) != 1 {
		return false
	}
	next, ok := n.Else[0].(*ast.IfStmt)
	return ok && c.chained(g, next)
}

// wanted shows the check that a guard asks for.
func (c *checker) wanted(g *script.Guard) string {
	if g.Fenced {
		return fmt.Sprintf("compare tonumber(ARGV[%d]) with tonumber() of what GET or HGET reads from KEYS[%d], and return where it is smaller", g.Arg, g.Key)
	}
	return fmt.Sprintf("compare GET of KEYS[%d] with ARGV[%d], as in: if redis.call('GET', KEYS[%[1]d]) ~= ARGV[%[2]d] then return … end", g.Key, g.Arg)
}

// writes returns the places in the script itself from which a write can be
// reached.
func (c *checker) writes() []place {
	var places []place
	within := map[*function]bool{} // functions that can write
	for changed := true; changed; {
		changed = false
		note := func(p place) {
			switch {
			case p.within != nil && !within[p.within]:
				within[p.within] = true
			case p.within == nil && !slices.Contains(places, p):
				places = append(places, p)
			default:
				return
			}
			changed = true
		}
		for _, call := range c.facts.calls {
			if writesData(call) {
				note(call.place)
			}
		}
		for _, e := range c.facts.entries {
			if within[e.fn] {
				note(e.place)
			}
		}
	}
	return places
}

func writesData(call call) bool {
	if len(call.names) == 0 {
		return true
	}
	return slices.ContainsFunc(call.names, func(name string) bool {
		subcommand := ""
		if len(call.words) > 1 && call.words[1].value.kind == text {
			subcommand = call.words[1].value.texts[0]
		}
		known, found := command.Lookup(name, subcommand)
		return !found || known.Flags&command.Write != 0
	})
}

// outcome is when a condition is true.
type outcome int

const (
	neither    outcome = iota // it says nothing of the guard
	whenKept                  // it can only be true when the guard is kept
	whenBroken                // it is always true when the guard is broken
)

// compares tells what a condition says of the guard.
func (c *checker) compares(g *script.Guard, e ast.Expr) outcome {
	switch n := e.(type) {
	case *ast.UnaryNotOpExpr:
		// not (a == b) is true whenever a == b is not: both ways are exact.
		if relation := c.facts.values[n.Expr].relation; relation != nil {
			switch c.relation(g, relation) {
			case whenKept:
				return whenBroken
			case whenBroken:
				return whenKept
			}
		}
	case *ast.LogicalOpExpr:
		left, right := c.compares(g, n.Lhs), c.compares(g, n.Rhs)
		switch {
		case n.Operator == "and" && (left == whenKept || right == whenKept):
			return whenKept
		case n.Operator == "or" && (left == whenBroken || right == whenBroken):
			return whenBroken
		case n.Operator == "and" && left == whenBroken && c.present(g, n.Rhs), n.Operator == "and" && right == whenBroken && c.present(g, n.Lhs):
			return whenBroken
		}
	default:
		if relation := c.facts.values[e].relation; relation != nil {
			return c.relation(g, relation)
		}
	}
	return neither
}

// present reports whether an expression asks no more than that a fence is there:
// where none is, none is larger.
func (c *checker) present(g *script.Guard, e ast.Expr) bool {
	if n, ok := e.(*ast.RelationalOpExpr); ok && n.Operator == "~=" {
		if c.facts.values[n.Rhs].kind != nothing { // nil or false
			return false
		}
		e = n.Lhs
	}
	v := c.facts.values[e]
	return g.Fenced && v.kind == read && v.index == g.Key
}

func (c *checker) relation(g *script.Guard, n *ast.RelationalOpExpr) outcome {
	left, right, operator := c.facts.values[n.Lhs], c.facts.values[n.Rhs], n.Operator
	if left.kind == read && right.kind == arg { // turned round, so that the argument stands left
		left, right = right, left
		operator = map[string]string{"<": ">", ">": "<", "<=": ">=", ">=": "<="}[operator]
		if operator == "" {
			operator = n.Operator
		}
	}
	if left.kind != arg || left.index != g.Arg || right.kind != read || right.index != g.Key {
		return neither
	}
	if !g.Fenced {
		if len(right.texts) != 1 || right.texts[0] != "get" || left.numeric || right.numeric || right.defaulted {
			return neither // a token is a string, and the whole value of the key
		}
		return map[string]outcome{"==": whenKept, "~=": whenBroken}[operator]
	}
	if !left.numeric || !right.numeric || len(right.texts) != 1 || !slices.Contains([]string{"get", "hget"}, right.texts[0]) {
		return neither // strings compare by their first letters
	}
	return map[string]outcome{">": whenKept, ">=": whenKept, "<": whenBroken, "<=": whenBroken}[operator]
}

// remembers checks that a fenced script stores the fence that it let pass.
func (c *checker) remembers(g *script.Guard) {
	if !g.Fenced {
		return
	}
	for _, call := range c.facts.calls {
		if len(call.words) < 3 || !writesData(call) || call.words[1].value.kind != key || call.words[1].value.index != g.Key {
			continue
		}
		if slices.ContainsFunc(call.words[2:], func(w word) bool { return w.value.kind == arg && w.value.index == g.Arg }) &&
			!slices.ContainsFunc(call.names, func(name string) bool { return strings.EqualFold(name, "DEL") }) {
			return
		}
	}
	c.findf(g.Pos, "guard: ARGV[%d] is compared but never stored in KEYS[%d], so that an older fence would pass later; SET or HSET it", g.Arg, g.Key)
}
