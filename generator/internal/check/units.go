package check

import (
	"fmt"
	"slices"

	"github.com/rlock-go/toolkit/generator/internal/analyze"
	"github.com/rlock-go/toolkit/generator/internal/command"
)

// measured finds sums, differences and comparisons of units that do not match.
func (c *checker) measured() {
	for _, t := range c.facts.Tests {
		if t.Operator == "" {
			continue
		}
		c.ask(RuleUnits)
		if p, q, wrong := c.unlike(t); wrong {
			c.findf(t.Pos, "%s", unlike(t.Operator, p, q))
		}
	}
}

// unlike returns two units of the operands that do not match, if no other two match.
func (c *checker) unlike(t analyze.Test) (p, q analyze.Unit, wrong bool) {
	for _, k := range t.Left.Kinds() {
		for _, l := range t.Right.Kinds() {
			_, left, ok := analyze.Quantity(c.script, k)
			_, right, also := analyze.Quantity(c.script, l)
			_, fixed := k.(analyze.Num)
			_, alsoFixed := l.(analyze.Num)
			switch {
			case !ok || !also || fixed || alsoFixed: // a constant may stand for a missing value
			case alike(t.Operator, left, right):
				return 0, 0, false
			default:
				p, q, wrong = left, right, true
			}
		}
	}
	return p, q, wrong
}

func alike(operator string, p, q analyze.Unit) bool {
	if p == analyze.None || q == analyze.None || p == analyze.Lost || q == analyze.Lost {
		return true
	}
	switch operator {
	case "+":
		return p.Span() == q.Span() && !(p.Instant() && q.Instant())
	case "-":
		return p.Span() == q.Span() && (p.Instant() || !q.Instant())
	}
	return p == q
}

// unlike says what is wrong with an operation on two units.
func unlike(operator string, p, q analyze.Unit) string {
	switch {
	case p.Span() != q.Span() && (operator == "+" || operator == "-"):
		return fmt.Sprintf("%s and %s are counted together here; convert one of them by 1000", p, q)
	case operator == "+":
		return fmt.Sprintf("%s is added to %s, which makes no time; add a duration, or write a + (b - a) / 2 for "+
			"the middle of both", q, p)
	case operator == "-":
		return fmt.Sprintf("%s is taken from %s, which makes no time; write it the other way round", q, p)
	case p.Instant() != q.Instant():
		return fmt.Sprintf("%s is compared with %s; compare two points in time, as in now + left, or two "+
			"durations, as in at - now", p, q)
	}
	return fmt.Sprintf("%s is compared with %s; convert one of them by 1000", p, q)
}

// alternatives name the command or the option that takes the same value in another unit.
var alternatives = []map[analyze.Unit]string{
	{analyze.Seconds: "EXPIRE", analyze.Milliseconds: "PEXPIRE", analyze.UnixSeconds: "EXPIREAT",
		analyze.UnixMilliseconds: "PEXPIREAT"},
	{analyze.Seconds: "SETEX", analyze.Milliseconds: "PSETEX"},
	{analyze.Seconds: "EX", analyze.Milliseconds: "PX", analyze.UnixSeconds: "EXAT",
		analyze.UnixMilliseconds: "PXAT"},
}

// alternative names the command or the option to use for another unit.
func alternative(name string, unit analyze.Unit) string {
	for _, family := range alternatives {
		for _, member := range family {
			if member == name {
				return family[unit]
			}
		}
	}
	return ""
}

// unit finds times and durations in a unit that the command does not take. It also finds optional arguments
// that may be absent.
func (c *checker) unit(shown string, w analyze.Word, places []*command.Place, m *command.Match) {
	counted := slices.DeleteFunc(slices.Clone(places),
		func(p *command.Place) bool { return analyze.UnitOf(p.Type) == analyze.None })
	if len(counted) == 0 {
		return
	}
	for _, k := range w.Kinds() {
		if e, ok := k.(analyze.Empty); ok && !w.Open {
			if _, certain := w.Str(); certain || !c.facts.Compared[e.Index] {
				p := c.entry(e.Index)
				c.findf(w.Pos, "ARGV%s %s is optional: if it is absent, it is the empty string, which %q refuses; ask "+
					"first: if ARGV%[1]s ~= '' then …", p, p.Name, shown)
				return
			}
		}
		_, unit, _ := analyze.Quantity(c.script, k)
		if unit == analyze.None {
			continue
		}
		c.ask(RuleUnits)
		var wrong *command.Place
		for _, p := range counted {
			if taken(p, m) != unit && (!p.Type.Entry() || unit != analyze.Lost) {
				wrong = p
				break
			}
		}
		switch {
		case wrong == nil:
			continue
		case len(counted) > 1:
			c.findf(w.Pos, "%s is %s, and which option of %q takes it is not known; write the option as a literal, "+
				"or declare it as an argument of type enum(PX)", analyze.Describe(k), unit, shown)
			return
		}
		if wrong.Type.Entry() { // an entry declares it as a text
			c.ask(RuleNumber)
		}
		takes := taken(wrong, m)
		taker := shown
		if wrong.Option != "" {
			taker = wrong.Option
		}
		if unit == analyze.Lost {
			c.findf(w.Pos, "%q takes %s, but %s was made of a time or a duration, in a way that may change what it "+
				"counts; %s", taker, takes, analyze.Describe(k), keepUnit)
			return
		}
		mend := fmt.Sprintf("convert it to %s", takes)
		if other := alternative(taker, unit); other != "" {
			mend = fmt.Sprintf("use %q", other)
		}
		c.findf(w.Pos, "%q takes %s, but %s is %s; %s", taker, takes, analyze.Describe(k), unit, mend)
		return
	}
}

// taken returns the unit that a command takes at a place.
func taken(p *command.Place, m *command.Match) analyze.Unit {
	if _, absolute := m.Has("ABSTTL"); absolute && p.Name == "ttl" {
		return analyze.UnixMilliseconds
	}
	return analyze.UnitOf(p.Type)
}
