package analyze

import (
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/command"
)

// isTyped reports whether a kind is a number, or nothing, so that it is no option.
func (a *analyzer) isTyped(k Kind) bool {
	if arg, ok := k.(Arg); ok {
		class, _ := a.argClass(arg.Index)
		return class != Any
	}
	if text, ok := k.(Text); ok {
		return numeric(text.Class) != Any
	}
	t := TypeOf(k)
	return t == "number" || t == "nil" || t == "boolean"
}

// reply makes what a command answers.
func (a *analyzer) reply(st *state, n ast.Expr, part int, name string, words []Word) Value {
	_, found := command.Lookup(name, Subcommand(words))
	if !found {
		return Join(a.data(st, n, Waived, strings.ToUpper(name), Value{}), a.status(st, n))
	}
	s := shapeOf(name, words, a.isTyped)
	if s.form == anything {
		return Join(a.data(st, n, Foreign, strings.ToUpper(name), Value{}), a.status(st, n))
	}
	s = a.sourced(name, s, words)
	next := 1000 * (part + 1)
	var v Value
	if st.protocol&resp2 != 0 {
		v = a.build(st, n, &next, s, false)
	}
	if st.protocol&resp3 != 0 {
		v = Join(v, a.build(st, n, &next, s, true))
	}
	return v
}

// sourced notes in a shape from which key a text is read.
func (a *analyzer) sourced(name string, s shape, words []Word) shape {
	if len(words) < 2 || words[1].Open {
		return s
	}
	key, _ := words[1].only()
	k, ok := key.(Key)
	if !ok {
		return s
	}
	field := func(i int) Source {
		f := Source{Command: "hget", Key: k.Index, Chosen: true}
		if i < len(words) && !words[i].Open {
			if name, constant := words[i].Str(); constant {
				f.Field, f.Chosen = name, false
			}
		}
		return f
	}
	switch name {
	case "get":
		s.source = Source{Command: "get", Key: k.Index}
	case "hget":
		s.source = field(2)
	case "hmget":
		if !words[len(words)-1].Open {
			t := shape{form: tuple}
			for i := 2; i < len(words); i++ {
				elem := text.nullable()
				elem.source = field(i)
				t.elems = append(t.elems, &elem)
			}
			return t
		}
	}
	if name == "mget" && !words[len(words)-1].Open {
		t := shape{form: tuple}
		for i := 1; i < len(words); i++ {
			elem := text.nullable()
			if key, _ := words[i].only(); key != nil {
				if k, ok := key.(Key); ok {
					elem.source = Source{Command: "mget", Key: k.Index}
				}
			}
			t.elems = append(t.elems, &elem)
		}
		return t
	}
	return s
}

// build makes a value of a shape, in one version of the protocol.
func (a *analyzer) build(st *state, n ast.Expr, part *int, s shape, resp3 bool) Value {
	v := a.buildForm(st, n, part, s, resp3)
	if s.orNil {
		v = Join(v, Of(Missing{Of: s.source, Nil: resp3}))
	}
	return v
}

func (a *analyzer) buildForm(st *state, n ast.Expr, part *int, s shape, resp3 bool) Value {
	table := func(t *Table) Value {
		*part++
		return a.alloc(st, n, *part, t)
	}
	switch s.form {
	case integer:
		return Of(Number{Class: s.class, Unit: s.unit})
	case bulk:
		if s.source.Command != "" {
			return Of(Read{Source: s.source})
		}
		return Of(Text{Class: s.class, Unit: s.unit, Undefined: s.class == Fraction}) // a score may be inf
	case verbatim:
		if resp3 {
			inner := table(&Table{Exact: true, Fields: map[string]Value{"string": Of(Text{Class: s.class}), "format": Of(Text{Class: Label})}})
			return table(&Table{Exact: true, Fields: map[string]Value{"verbatim_string": inner}})
		}
		return Of(Text{Class: s.class})
	case double:
		if resp3 {
			return table(&Table{Exact: true, Fields: map[string]Value{"double": Of(Number{Class: Fraction})}})
		}
		return Of(Text{Class: s.class, Undefined: true})
	case status:
		word := Of(Str{S: "OK"})
		if s.class == Label {
			word = Of(Text{Class: Label})
		}
		return table(&Table{Exact: true, Fields: map[string]Value{"ok": word}})
	case list:
		return table(listOf(a.build(st, n, part, *s.elem, resp3)))
	case tuple:
		t := &Table{Exact: true}
		for _, elem := range s.elems {
			v := a.build(st, n, part, *elem, resp3)
			t.Items = append(t.Items, v)
			t.Exact = t.Exact && present(v).equal(v)
		}
		return table(t)
	case set:
		elem := a.build(st, n, part, *s.elem, resp3)
		if resp3 {
			inner := table(&Table{Rest: Of(Bool{V: true}), Names: elem})
			return table(&Table{Exact: true, Fields: map[string]Value{"set": inner}})
		}
		return table(listOf(elem))
	case flat:
		t := listOf(Join(Of(Text{Class: Any}), a.build(st, n, part, *s.elem, resp3)))
		t.Pairs = &[2]Value{Of(Text{Class: Any}), a.build(st, n, part, *s.elem, resp3)}
		return table(t)
	case pairsOf:
		return a.buildPairs(st, n, part, s, resp3, table)
	}
	return Join(a.data(st, n, Foreign, "the server", Value{}), Value{})
}

// buildPairs makes names with values: as HGETALL has them, or the members with scores of
// sorted sets (Fraction), or streams with entries (Label).
func (a *analyzer) buildPairs(st *state, n ast.Expr, part *int, s shape, resp3 bool, table func(*Table) Value) Value {
	elem := a.build(st, n, part, *s.elem, resp3)
	name := Of(Text{Class: Any})
	switch {
	case s.class == Fraction && resp3, s.class == Label && !resp3:
		if s.single {
			return Join(table(emptyTable), table(&Table{Exact: true, Items: []Value{name, elem}}))
		}
		return table(listOf(table(&Table{Exact: true, Items: []Value{name, elem}})))
	case resp3:
		inner := table(&Table{Rest: elem, Names: name})
		return table(&Table{Exact: true, Fields: map[string]Value{"map": inner}})
	}
	if s.single {
		return Join(table(emptyTable), table(&Table{Exact: true, Items: []Value{name, elem}}))
	}
	flat := listOf(Join(name, elem))
	flat.Pairs = &[2]Value{name, elem}
	return table(flat)
}
