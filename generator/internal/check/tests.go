package check

import (
	"cmp"
	"maps"
	"slices"

	"github.com/rlock-go/toolkit/generator/internal/analyze"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// tests finds conditions and comparisons that always have the same outcome, or ask something else than they
// seem to.
func (c *checker) tests() {
	c.optional()
	c.measured()
	for _, t := range c.facts.Tests {
		c.ask(ruleTests)
		if !c.order(t) && (t.Always || t.Never) {
			c.findf(t.Pos, "%s", c.settled(t))
		}
	}
}

// optional finds arithmetic with arguments that may be absent.
func (c *checker) optional() {
	for _, pos := range inOrder(c.facts.Needed) {
		c.ask(ruleOptional)
		if index := c.facts.Needed[pos]; !c.facts.Compared[index] {
			p := c.entry(index)
			c.findf(pos, "ARGV%s %s is optional: if it is absent, it is the empty string, and counting with it is "+
				"an error; ask first: if ARGV%[1]s ~= '' then …", p, p.Name)
		}
	}
}

func inOrder[V any](at map[script.Pos]V) []script.Pos {
	return slices.SortedFunc(maps.Keys(at), func(a, b script.Pos) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// order finds numbers that the script compares as texts, letter by letter. It also finds comparisons of a
// text with a number, which raise an error. It reports whether it has a finding.
func (c *checker) order(t analyze.Test) bool {
	if !slices.Contains([]string{"<", "<=", ">", ">="}, t.Operator) {
		return false
	}
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
		c.findf(t.Pos, "%s is a string, and comparing a string with a number is an error; write tonumber(…)",
			analyze.DescribeValue(side))
		return true
	}
	for _, v := range []analyze.Value{t.Left, t.Right} {
		if k := counts(v); k != nil && text(t.Left) && text(t.Right) {
			c.findf(t.Pos, "%s is compared as text, letter by letter, so that '9' is above '10'; write tonumber(…) "+
				"on both sides", analyze.Describe(k))
			return true
		}
	}
	return false
}
