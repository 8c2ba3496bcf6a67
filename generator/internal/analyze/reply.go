package analyze

import (
	"slices"
	"strconv"
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/command"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// Match fits the words of a call into the syntax of its command.
func Match(s *script.Script, known command.Command, words []Word) *command.Match {
	first := 1 + strings.Count(known.Name, " ")
	words = words[min(first, len(words)):]
	a := &analyzer{script: s}
	return known.Match(command.Words{
		N:    len(words),
		Open: len(words) > 0 && words[len(words)-1].Open,
		May: func(i int, p *command.Place) bool {
			return words[i].Bottom() || words[i].mayBe(func(k Kind) bool { return a.mayStand(k, p) })
		},
		Num: func(i int) (int, bool) { return whole(words[i].Value) },
	})
}

// mayStand reports whether a kind may be in a place of a syntax. A number is not a keyword. Redis writes a
// number with 17 digits.
func (a *analyzer) mayStand(k Kind, p *command.Place) bool {
	number := false
	switch k := k.(type) {
	case Str:
		return p.Takes(k.S)
	case Num:
		return !p.Keyword && p.Takes(strconv.FormatFloat(k.F, 'g', 17, 64))
	case Arg:
		class, _ := a.argClass(k.Index)
		number = class != Any || k.Number
	case Text:
		number = numeric(k.Class) != Any || k.Class == Label
	default:
		t := TypeOf(k)
		number = t != "string" && t != ""
	}
	return !number || !p.Keyword
}

// reply makes the answer of a command.
func (a *analyzer) reply(st *state, n ast.Expr, part int, name string, words []Word) Value {
	known, found := command.Lookup(name, Subcommand(words))
	if !found && !a.script.Waived("unknown-command") {
		return Of(Unknown{Pos: a.script.Pos(n), Why: "no server knows " + strings.ToUpper(name), Found: true})
	}
	if !found {
		return Join(a.data(st, n, Waived, strings.ToUpper(name), Value{}), a.status(st, n))
	}
	m := Match(a.script, known, words)
	if !m.OK && !a.script.Waived("unknown-option") {
		return Of(Unknown{Pos: a.script.Pos(n), Why: "no server takes these words of " + strings.ToUpper(name),
			Found: true})
	}
	if !m.OK {
		return Join(a.data(st, n, Waived, strings.ToUpper(name), Value{}), a.status(st, n))
	}
	replies := known.Replies(m)
	if len(replies) == 0 {
		return Join(a.data(st, n, Foreign, strings.ToUpper(name), Value{}), a.status(st, n))
	}
	next := 1000 * (part + 1)
	var v Value
	for _, version := range []protocol{resp2, resp3} {
		if st.protocol&version == 0 {
			continue
		}
		if read, ok := a.readings(st, n, &next, known.Name, words, version == resp3); ok {
			v = Join(v, read)
			continue
		}
		for _, r := range replies {
			v = Join(v, a.build(st, n, &next, r, version == resp3))
		}
	}
	return v
}

// readings makes the answer of a command whose readings a guard may compare.
func (a *analyzer) readings(st *state, n ast.Expr, part *int, name string, words []Word, resp3 bool) (Value,
	bool) {
	if len(words) < 2 || words[len(words)-1].Open {
		return Value{}, false
	}
	read := func(of Source) Value { return Of(Read{Source: of}, Missing{Of: of, Nil: resp3}) }
	key := func(i int) int {
		only, _ := words[i].only()
		k, is := only.(Key)
		if !is {
			return -1
		}
		return k.Index
	}
	field := func(i int) Source {
		f := Source{Command: "hget", Key: key(1), Chosen: true}
		if name, constant := words[i].Str(); constant {
			f.Field, f.Chosen = name, false
		}
		return f
	}
	t := &Table{}
	switch {
	case name == "get" && key(1) >= 0:
		return read(Source{Command: "get", Key: key(1)}), true
	case name == "hget" && key(1) >= 0 && len(words) > 2:
		return read(field(2)), true
	case name == "hmget" && key(1) >= 0:
		for i := range words[2:] {
			t.Items = append(t.Items, read(field(i+2)))
		}
	case name == "mget":
		for i := range words[1:] {
			v := Of(Text{}, Missing{Nil: resp3})
			if k := key(i + 1); k >= 0 {
				v = read(Source{Command: "mget", Key: k})
			}
			t.Items = append(t.Items, v)
		}
	case strings.HasPrefix(name, "bitfield"):
		items, known := bitfields(words[2:], Of(Missing{Nil: resp3}))
		if !known {
			return Value{}, false
		}
		t.Items, t.Exact = items, !slices.ContainsFunc(items, func(v Value) bool { return !present(v).equal(v) })
	default:
		return Value{}, false
	}
	*part++
	return a.alloc(st, n, *part, t), true
}

// bitfields makes the answer of BITFIELD. It has a number for each part that reads or writes. With OVERFLOW
// FAIL it has nothing for a part that would overflow.
func bitfields(words []Word, nothing Value) ([]Value, bool) {
	var items []Value
	fails := false
	for len(words) > 0 {
		option, constant := words[0].Str()
		v, n := Of(Number{Class: Integer}), 4
		switch strings.ToUpper(option) {
		case "OVERFLOW":
			n = 2
		case "GET":
			n = 3
		case "SET", "INCRBY":
			if fails {
				v = Join(v, nothing)
			}
		default:
			constant = false
		}
		if !constant || len(words) < n {
			return nil, false
		}
		if n == 2 {
			how, constant := words[1].Str()
			fails = !constant || strings.EqualFold(how, "FAIL")
		} else {
			items = append(items, v)
		}
		words = words[n:]
	}
	return items, true
}

// classes maps the form of a text or a number to its class.
var classes = map[command.Form]Class{
	command.Int: Integer, command.Bit: Binary, command.Label: Label, command.Whole: Integer,
	command.Decimal: Decimal,
	command.Real:    Fraction, command.Score: Decimal, command.Float: Fraction,
}

// UnitOf returns the unit of a value of a type.
func UnitOf(t command.Type) Unit {
	if t.Entry() {
		return UnixMilliseconds
	}
	return map[command.Type]Unit{
		command.Seconds: Seconds, command.Timeout: Seconds, command.Millis: Milliseconds,
		command.UnixSeconds: UnixSeconds,
		command.UnixMillis:  UnixMilliseconds, command.Micros: Microseconds,
	}[t]
}

// build makes a value of a reply, in one version of the protocol.
func (a *analyzer) build(st *state, n ast.Expr, part *int, r *command.Reply, resp3 bool) Value {
	v := a.buildForm(st, n, part, r, resp3)
	if r.OrNil {
		v = Join(v, Of(Missing{Nil: resp3}))
	}
	return v
}

func (a *analyzer) buildForm(st *state, n ast.Expr, part *int, r *command.Reply, resp3 bool) Value {
	table := func(t *Table) Value {
		*part++
		return a.alloc(st, n, *part, t)
	}
	class, unit := classes[r.Form], UnitOf(r.Unit)
	switch r.Form {
	case command.Int, command.Bit:
		return Of(Number{Class: class, Unit: unit})
	case command.Text, command.Label, command.Whole:
		return Of(Text{Class: class, Unit: unit})
	case command.Sent:
		return Of(Text{Class: Built})
	case command.Blank:
		return Of(Text{}, Str{})
	case command.Decimal, command.Real:
		return Of(Text{Class: class, Undefined: true}) // a score may be inf
	case command.Verbatim:
		if resp3 {
			inner := table(&Table{Exact: true,
				Fields: map[string]Value{"string": Of(Text{Class: Wording}), "format": Of(Text{Class: Label})}})
			return table(&Table{Exact: true, Fields: map[string]Value{"verbatim_string": inner}})
		}
		return Of(Text{Class: Wording})
	case command.Score, command.Float:
		if resp3 {
			return table(&Table{Exact: true, Fields: map[string]Value{"double": Of(Number{Class: Fraction})}})
		}
		return Of(Text{Class: class, Undefined: true})
	case command.OK:
		return table(&Table{Exact: true, Fields: map[string]Value{"ok": Of(Str{S: "OK"})}})
	case command.Status:
		return table(&Table{Exact: true, Fields: map[string]Value{"ok": Of(Text{Class: Label})}})
	case command.List:
		return table(listOf(a.build(st, n, part, r.Elem, resp3)))
	case command.Tuple:
		t := &Table{Exact: true}
		for _, elem := range r.Elems {
			v := a.build(st, n, part, elem, resp3)
			t.Items = append(t.Items, v)
			t.Exact = t.Exact && present(v).equal(v)
		}
		return table(t)
	case command.Set:
		elem := a.build(st, n, part, r.Elem, resp3)
		if resp3 {
			inner := table(&Table{Rest: Of(Bool{V: true}), Names: elem})
			return table(&Table{Exact: true, Fields: map[string]Value{"set": inner}})
		}
		return table(listOf(elem))
	}
	return a.buildPairs(st, n, part, r, resp3, table)
}

// buildPairs makes pairs of a name and a value, in the form of the reply.
func (a *analyzer) buildPairs(
	st *state, n ast.Expr, part *int, r *command.Reply, resp3 bool, table func(*Table) Value,
) Value {
	elem := a.build(st, n, part, r.Elem, resp3)
	name := Of(Text{})
	pairs := r.Form == command.Scored && resp3 || r.Form == command.Streams && !resp3
	switch {
	case r.Single:
		return Join(table(emptyTable), table(&Table{Exact: true, Items: []Value{name, elem}}))
	case pairs:
		return table(listOf(table(&Table{Exact: true, Items: []Value{name, elem}})))
	case resp3 && r.Form != command.Flat:
		inner := table(&Table{Rest: elem, Names: name})
		return table(&Table{Exact: true, Fields: map[string]Value{"map": inner}})
	}
	flat := listOf(Join(name, elem))
	flat.Pairs = &[2]Value{name, elem}
	return table(flat)
}
