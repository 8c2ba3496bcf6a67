package script

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Type is the declared type of an argument or of a reply's value: a scalar, or
// for replies a list or a map of an element type.
type Type struct {
	Kind     TypeKind
	Base     string // of a scalar: one of Bases
	Named    string // of json: the Go type it is, as import/path.Name or Name; empty: any
	Elem     *Type  // of a list or a map
	Optional bool   // of a scalar: T?, absent is allowed
}

// TypeKind tells scalars from what is made of them.
type TypeKind int

// The kinds of types.
const (
	Scalar TypeKind = iota
	List
	Map // from string
)

// Bases are the scalar types that a header may name, in the order messages show
// them.
var Bases = []string{"string", "bytes", "int", "bool", "float", "duration", "time", "json"}

// optionalArgs are the types of which an absent value can be told from every
// present one: no lease is zero, and no instant is the zero time.
var optionalArgs = []string{"duration", "time"}

// String returns the type as a header spells it.
func (t Type) String() string {
	switch t.Kind {
	case List:
		return "[]" + t.Elem.String()
	case Map:
		return "map[string]" + t.Elem.String()
	}
	text := t.Base
	if t.Named != "" {
		text += "(" + t.Named + ")"
	}
	if t.Optional {
		text += "?"
	}
	return text
}

var namedJSON = regexp.MustCompile(`^json\(((?:[A-Za-z0-9_.~/-]+\.)?[A-Z][A-Za-z0-9_]*)\)$`)

// scalar reads T or T?.
func scalar(text string) (Type, error) {
	base, optional := strings.CutSuffix(text, "?")
	t := Type{Base: base, Optional: optional}
	if m := namedJSON.FindStringSubmatch(base); m != nil {
		t.Base, t.Named = "json", m[1]
	}
	if strings.HasPrefix(base, "json(") && t.Named == "" {
		return t, fmt.Errorf("%s names no Go type; want an exported name as in json(Order) or json(example.com/shop.Order)", quote(text))
	}
	if !slices.Contains(Bases, t.Base) {
		return t, fmt.Errorf("unknown type %s; want %s", quote(text), strings.Join(Bases, "|"))
	}
	return t, nil
}

// parseArgType reads the type of an ARGV entry.
func parseArgType(text string) (Type, error) {
	t, err := scalar(text)
	if err != nil {
		return t, fmt.Errorf("%w, or json(GoType)", err)
	}
	if t.Optional && !slices.Contains(optionalArgs, t.Base) {
		return t, fmt.Errorf("an argument of type %s cannot be optional, as its zero value is a value; only %s can",
			t.Base, strings.Join(optionalArgs, " and "))
	}
	return t, nil
}

// parseResultType reads the type of a reply's value.
func parseResultType(text string) (Type, error) {
	for prefix, kind := range map[string]TypeKind{"[]": List, "map[string]": Map} {
		if rest, found := strings.CutPrefix(text, prefix); found {
			elem, err := parseResultType(rest)
			return Type{Kind: kind, Elem: &elem}, err
		}
	}
	t, err := scalar(text)
	if err != nil {
		return t, fmt.Errorf("%w, json(GoType), T?, []T or map[string]T", err)
	}
	return t, nil
}
