package check

import (
	"cmp"
	"maps"
	"slices"

	"github.com/rlock-go/toolkit/generator/internal/analyze"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// tests finds conditions and comparisons that do not ask what they seem to.
func (c *checker) tests() {
	before := len(c.findings)
	defer func() { c.dead = len(c.findings) > before }()
	c.optional()
	c.measured()
	for _, t := range c.facts.Tests {
		c.ask(ruleTests)
		switch t.Operator {
		case "":
			c.condition(t)
		case "==", "~=":
			c.equality(t)
		case "+", "-":
		default:
			c.order(t)
		}
	}
}

// optional finds arithmetic with arguments that may be absent.
func (c *checker) optional() {
	for _, pos := range inOrder(c.facts.Needed) {
		c.ask(ruleOptional)
		if index := c.facts.Needed[pos]; !c.facts.Compared[index] {
			p := c.entry(index)
			c.findf(pos, "ARGV%s %s is optional: where it is absent it is the empty string, and counting with it is an error; ask first: if ARGV%[1]s ~= '' then …", p, p.Name)
		}
	}
}

func inOrder[V any](at map[script.Pos]V) []script.Pos {
	return slices.SortedFunc(maps.Keys(at), func(a, b script.Pos) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// condition finds arguments that are true whatever was passed.
func (c *checker) condition(t analyze.Test) {
	if t.Left.MayBe(func(k analyze.Kind) bool { return analyze.TypeOf(k) == "nil" }) {
		return // it asks whether there is an argument at all
	}
	for _, k := range t.Left.Kinds() {
		switch k := k.(type) {
		case analyze.Arg:
			p := c.entry(k.Index)
			if p != nil && p.Type.Base == "bool" {
				c.findf(t.Pos, "ARGV%s %s is a bool, which is sent as '1' or '0', and both are true in Lua; write ARGV%[1]s == '1'", p, p.Name)
				return
			}
		case analyze.Empty:
			p := c.entry(k.Index)
			c.findf(t.Pos, "ARGV%s %s is optional: where it is absent it is the empty string, which is true in Lua; write ARGV%[1]s ~= ''", p, p.Name)
			return
		}
	}
}

// argument returns the declared argument that a value is, and may be nothing else.
func (c *checker) argument(v analyze.Value) *script.Param {
	var found *script.Param
	for _, k := range v.Kinds() {
		index := 0
		switch k := k.(type) {
		case analyze.Arg:
			if k.Number {
				return nil
			}
			index = k.Index
		case analyze.Empty:
			index = k.Index
		default:
			return nil
		}
		p := c.entry(index)
		if p == nil || found != nil && found != p {
			return nil
		}
		found = p
	}
	return found
}

// equality finds comparisons that never hold, as text is never equal to a number.
func (c *checker) equality(t analyze.Test) {
	left, right := t.Left, t.Right
	if c.argument(right) != nil {
		left, right = right, left
	}
	p := c.argument(left)
	if p != nil && p.Type.Base == "bool" && right.All(func(k analyze.Kind) bool {
		s, ok := k.(analyze.Str)
		_, isBool := k.(analyze.Bool)
		_, isNum := k.(analyze.Num)
		return ok && s.S != "0" && s.S != "1" || isBool || isNum
	}) {
		c.findf(t.Pos, "ARGV%s %s is a bool, which is sent as the string '1' or '0', so that it is never equal to %s; write ARGV%[1]s == '1'", p, p.Name, analyze.DescribeValue(right))
		return
	}
	if analyze.MayEqual(left, right) || len(left.Kinds()) == 0 || len(right.Kinds()) == 0 {
		return
	}
	l, r := types(left), types(right)
	switch {
	case p != nil && r == "number":
		c.findf(t.Pos, "ARGV%s %s is a string here, as all arguments are, so that it is never equal to a number; write tonumber(ARGV%[1]s)", p, p.Name)
	case p != nil && r == "boolean":
		c.findf(t.Pos, "ARGV%s %s is a string here, as all arguments are, so that it is never equal to %s; compare it with a string, or declare ARGV%[1]s as a bool and write == '1'", p, p.Name, analyze.DescribeValue(right))
	case l == "nil" && hasMissing(right) || r == "nil" && hasMissing(left):
		c.findf(t.Pos, "a command answers false where there is nothing, never nil, so that this never holds; compare with false, or write not")
	case l == "table" && r == "string" || l == "string" && r == "table":
		c.findf(t.Pos, "a table is never equal to a string; a status is a table whose field ok has the text: compare that")
	case l != r && l != "nil" && r != "nil" && l != "" && r != "":
		c.findf(t.Pos, "%s is never equal to %s, as their types differ; convert one with tonumber or tostring", analyze.DescribeValue(t.Left), analyze.DescribeValue(t.Right))
	}
}

func hasMissing(v analyze.Value) bool {
	return v.MayBe(func(k analyze.Kind) bool { m, ok := k.(analyze.Missing); return ok && !m.Nil })
}

// types returns the type of a value; empty: it may have several.
func types(v analyze.Value) string {
	name := ""
	for _, k := range v.Kinds() {
		t := analyze.TypeOf(k)
		if name != "" && t != name {
			return ""
		}
		name = t
	}
	return name
}

// order finds numbers that are compared as texts, letter by letter, and comparisons of
// a text with a number, which are errors.
func (c *checker) order(t analyze.Test) {
	text := func(v analyze.Value) bool {
		return v.MayBe(func(k analyze.Kind) bool { return analyze.TypeOf(k) == "string" })
	}
	number := func(v analyze.Value) bool {
		return v.MayBe(func(k analyze.Kind) bool { return analyze.TypeOf(k) == "number" })
	}
	counts := func(v analyze.Value) analyze.Kind {
		for _, k := range v.Kinds() {
			class, _, ok := analyze.Quantity(c.script, k)
			_, constant := k.(analyze.Str)
			if ok && !constant && analyze.TypeOf(k) == "string" && class != analyze.Any {
				return k
			}
		}
		return nil
	}
	if text(t.Left) && number(t.Right) || number(t.Left) && text(t.Right) {
		side := t.Left
		if !text(side) {
			side = t.Right
		}
		c.findf(t.Pos, "%s is a string, and comparing a string with a number is an error; write tonumber(…)", analyze.DescribeValue(side))
		return
	}
	for _, v := range []analyze.Value{t.Left, t.Right} {
		if k := counts(v); k != nil && text(t.Left) && text(t.Right) {
			c.findf(t.Pos, "%s is compared as text, letter by letter, so that '9' is above '10'; write tonumber(…) on both sides", analyze.Describe(k))
			return
		}
	}
}
