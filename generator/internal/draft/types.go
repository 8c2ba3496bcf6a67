package draft

import (
	"slices"

	"github.com/rlock-go/toolkit/generator/internal/analyze"
	"github.com/rlock-go/toolkit/generator/internal/check"
)

func (d *draft) chooseTypes() {
	s, _ := d.parse()
	facts := analyze.Analyze(s)
	for i := range d.args {
		p := &d.args[i]
		if p.typ == "" {
			continue
		}
		set := func(typ string) { p.typ = typ }
		if d.isSpan(p) {
			continue
		}
		index := p.index
		if p.variadic {
			index = 0
		}
		switch u := d.uses[index]; {
		case d.isNumber(p):
			d.choose(set, "float", "int")
		case isFlag(facts, p.index) && !p.variadic && !u.number:
			d.choose(set, "bool", "string")
		case isChannel(facts, p.index):
			d.choose(set, "channel", "channel?", "string")
		case u.number:
			d.choose(set, "int", "float", "string")
		case u.json:
			d.choose(set, "json", "string")
		case u.bytes:
			d.choose(set, "bytes", "string")
		}
	}
}

// isNumber reports whether a command takes the argument in a place for numbers only.
func (d *draft) isNumber(p *param) bool {
	text := d.count(check.RuleNumber)
	p.typ = "float"
	number := d.count(check.RuleNumber)
	p.typ = "int"
	number = min(number, d.count(check.RuleNumber))
	p.typ = "string"
	return number < text
}

// isSpan sets the type duration or time if a command or the reply takes the argument as milliseconds. The
// rule on units then has findings for one of the two types only. If both types have findings, the argument
// has another unit, such as seconds.
func (d *draft) isSpan(p *param) bool {
	wrong := func(typ string) int {
		p.typ = typ
		return d.count(check.RuleUnits)
	}
	duration, time := wrong("duration"), wrong("time")
	switch {
	case duration < time:
		p.typ = "duration"
	case time < duration:
		p.typ = "time"
	default:
		p.typ = "string"
		return false
	}
	typ := p.typ
	d.choose(func(typ string) { p.typ = typ }, typ, typ+"?", "int", "string")
	if p.typ == "string" {
		return false
	}
	if p.typ != typ {
		return true
	}
	if d.comparedWithNothing(p.index) {
		p.typ += "?"
	}
	return true
}

// comparedWithNothing reports whether the script compares an argument with the empty string.
func (d *draft) comparedWithNothing(index int) bool {
	s, _ := d.parse()
	for _, t := range analyze.Analyze(s).Tests {
		if _, other, ok := compared(t, index); ok &&
			other.MayBe(func(k analyze.Kind) bool { s, is := k.(analyze.Str); return is && s.S == "" }) {
			return true
		}
	}
	return false
}

// compared returns the sides of a comparison, if one side is the argument as a text.
func compared(t analyze.Test, index int) (arg, other analyze.Value, ok bool) {
	isArg := func(v analyze.Value) bool {
		return v.All(func(k analyze.Kind) bool {
			a, is := k.(analyze.Arg)
			return is && a.Index == index &&
				!a.Number
		})
	}
	switch {
	case t.Operator != "==" && t.Operator != "~=":
	case isArg(t.Left):
		return t.Left, t.Right, true
	case isArg(t.Right):
		return t.Right, t.Left, true
	}
	return analyze.Value{}, analyze.Value{}, false
}

// isFlag reports whether the script compares an argument only with '1' or '0'.
func isFlag(facts *analyze.Facts, index int) bool {
	found := false
	for _, t := range facts.Tests {
		_, other, ok := compared(t, index)
		if !ok {
			continue
		}
		if !other.All(func(k analyze.Kind) bool {
			s, is := k.(analyze.Str)
			return is &&
				(s.S == "1" || s.S == "0")
		}) {
			return false
		}
		found = true
	}
	return found
}

// isChannel reports whether a command publishes to an argument.
func isChannel(facts *analyze.Facts, index int) bool {
	return slices.ContainsFunc(facts.Calls, func(c *analyze.Call) bool {
		names, _ := c.Names()
		return len(c.Words) > 1 && slices.ContainsFunc(names, func(name string) bool {
			return slices.Contains([]string{"publish", "spublish", "PUBLISH", "SPUBLISH"}, name)
		}) &&
			c.Words[1].MayBe(func(k analyze.Kind) bool { a, is := k.(analyze.Arg); return is && a.Index == index })
	})
}
