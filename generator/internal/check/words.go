package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/analyze"
	"github.com/rlock-go/toolkit/generator/internal/command"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

func (c *checker) words(known command.Command, shown string, call *analyze.Call, m *command.Match) {
	first := len(call.Words) - len(m.Places)
	c.ask(ruleOption)
	if !m.OK {
		c.misplaced(known, shown, call, m, first)
		return
	}
	c.excluded(shown, call, m, first)
	for _, pair := range known.Exclusive() {
		one, _ := m.Has(pair[0])
		if other, _ := m.Has(pair[1]); one && other {
			c.findf(call.Pos, "%q does not take %s and %s together; leave one out", shown, pair[0], pair[1])
		}
	}
	for _, keyword := range slices.Sorted(maps.Keys(known.Needed())) {
		others := known.Needed()[keyword]
		surely, _ := m.Has(keyword)
		if _, perhaps := m.Has(others...); surely && !perhaps {
			c.findf(call.Pos, "%q takes %s only with %s; add it, or leave %[2]s out", shown, keyword,
				strings.Join(others, " or "))
		}
	}
	if _, waits := m.Has("BLOCK"); waits {
		c.findf(call.Pos, "%q does not wait in a script, whatever BLOCK says; leave BLOCK out, and let the "+
			"caller ask again", shown)
	}
	for i, places := range m.Places {
		w := call.Words[first+i]
		c.ask(RuleNumber)
		c.number(shown, w, places)
		c.ask(RuleUnits)
		c.unit(shown, w, places, m)
	}
}

// misplaced reports the first word that the command does not take.
func (c *checker) misplaced(known command.Command, shown string, call *analyze.Call, m *command.Match,
	first int) {
	if c.waived("unknown-option") {
		return
	}
	if m.Stop == len(m.Places) {
		c.findf(call.Pos, "%q takes %s behind these arguments: %s; add it", shown, wanted(m.Wanted), usage(known))
		return
	}
	w := call.Words[first+m.Stop]
	newer := ""
	if _, constant := w.Str(); constant {
		newer = `; if a newer server takes it, take responsibility with "-- allow: unknown-option reason"`
	}
	c.findf(w.Pos, "%q does not take %s here; it takes %s: %s%s",
		shown, analyze.DescribeValue(w.Value), wanted(m.Wanted), usage(known), newer)
}

// wanted says what a command takes at some places.
func wanted(places []*command.Place) string {
	var all []string
	for _, p := range places {
		switch {
		case p.Keyword:
			all = append(all, p.Name)
		case p.Type.Whole():
			all = append(all, p.Name+", a whole number")
		case p.Type.Numeric():
			all = append(all, p.Name+", a number")
		default:
			all = append(all, p.Name)
		}
	}
	if len(all) == 0 {
		return "nothing more"
	}
	return strings.Join(all, " or ")
}

// usage shows a syntax without the types of its values.
func usage(known command.Command) string {
	text := strings.ToUpper(known.Name)
	for word := range strings.FieldsSeq(known.Syntax) {
		text += " "
		for len(word) > 0 {
			at := strings.IndexByte(word, ':')
			if at < 0 {
				text += word
				break
			}
			text += word[:at]
			word = strings.TrimLeft(word[at:], ":abcdefghijklmnopqrstuvwxyz-")
		}
	}
	return text
}

// excluded finds two keywords that exclude each other.
func (c *checker) excluded(shown string, call *analyze.Call, m *command.Match, first int) {
	var chosen []*command.Place
	for i, places := range m.Places {
		w := call.Words[first+i]
		if _, constant := w.Str(); !constant || w.Open || len(places) != 1 || !places[0].Keyword {
			continue
		}
		if at := slices.IndexFunc(chosen, places[0].Excludes); at >= 0 {
			c.findf(w.Pos, "%q takes one of %s and %s; leave one out", shown, chosen[at].Name, places[0].Name)
			return
		}
		chosen = append(chosen, places[0])
	}
}

// mayBeEmpty reports whether the script compares an argument with the empty string. The argument is then a
// number that may be absent, and only some types can be absent.
func (c *checker) mayBeEmpty(index int) bool {
	isArg := func(k analyze.Kind) bool { a, is := k.(analyze.Arg); return is && a.Index == index }
	isEmpty := func(k analyze.Kind) bool { s, is := k.(analyze.Str); return is && s.S == "" }
	return slices.ContainsFunc(c.facts.Tests, func(t analyze.Test) bool {
		return t.Left.MayBe(isArg) && t.Right.MayBe(isEmpty) || t.Right.MayBe(isArg) && t.Left.MayBe(isEmpty)
	})
}

// isText reports whether an argument is a text that every call has.
func (c *checker) isText(p *script.Param) bool {
	return !p.Variadic && !c.mayBeEmpty(p.Index) &&
		slices.Contains([]string{"string", "bytes", "json"}, p.Type.Base)
}

// number finds words that are not numbers where the command takes numbers only. It also finds fractions where
// the command takes whole numbers.
func (c *checker) number(shown string, w analyze.Word, places []*command.Place) {
	all := func(is func(command.Type) bool) bool {
		return len(places) > 0 && !slices.ContainsFunc(places,
			func(p *command.Place) bool { return p.Keyword || !is(p.Type) })
	}
	if w.Open || !all(command.Type.Numeric) {
		return
	}
	whole := all(command.Type.Whole)
	if p := c.argument(w.Value); p != nil && c.isText(p) {
		types := "float, int, duration or time"
		if whole {
			types = "int, duration or time"
		}
		c.findf(w.Pos, "%q takes %s here, a number, but the header says %s; declare ARGV%s as %s, or see whether "+
			"two arguments are swapped",
			shown, places[0].Name, p.Type, p, types)
		return
	}
	for _, k := range w.Kinds() {
		class, _, _ := analyze.Quantity(c.script, k)
		text, _ := k.(analyze.Text)
		if whole && class == analyze.Fraction && !text.Undefined {
			c.findf(w.Pos, "%s may have a fraction, with which %q fails, because %s is a whole number there; %s",
				analyze.Describe(k), shown, places[0].Name, rounded(places[0], shown, c.unitOf(k)))
			return
		}
	}
}

// rounded says how to make a number whole. A time that the script rounds down to 0 deletes a key.
func rounded(p *command.Place, shown string, unit analyze.Unit) string {
	name := shown
	if p.Option != "" {
		name = p.Option
	}
	if unit == analyze.Lost || analyze.UnitOf(p.Type) == analyze.None {
		return "write math.floor(…)"
	}
	finer := map[analyze.Unit]analyze.Unit{analyze.Seconds: analyze.Milliseconds,
		analyze.UnixSeconds: analyze.UnixMilliseconds}
	if other := alternative(name, finer[unit]); other != "" {
		return fmt.Sprintf("use %q with milliseconds, or write math.ceil(…), because 0 would delete the key", other)
	}
	return "write math.ceil(…), because 0 would delete the key"
}

func (c *checker) unitOf(k analyze.Kind) analyze.Unit {
	_, unit, _ := analyze.Quantity(c.script, k)
	return unit
}
