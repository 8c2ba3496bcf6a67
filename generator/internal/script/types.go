package script

import (
	"slices"
	"strings"
)

// Type is the declared type of an argument or of a reply's value.
type Type struct {
	Base     string // one of Bases
	Optional bool   // T?: absent is allowed
	List     bool   // []T; of a list, Optional is the elements'
}

// Bases are the types that a header may name, in the order messages show them.
var Bases = []string{"string", "bytes", "int", "bool", "float", "duration", "time", "json"}

// optionalArgs are the types of which an absent value can be told from every
// present one: no lease is zero, and no instant is the zero time.
var optionalArgs = []string{"duration", "time"}

// String returns the type as a header spells it.
func (t Type) String() string {
	text := t.Base
	if t.List {
		text = "[]" + text
	}
	if t.Optional {
		text += "?"
	}
	return text
}

// parseArgType reads the type of an ARGV entry. The second result says what is
// wrong with it, and is empty when nothing is.
func parseArgType(text string) (Type, string) {
	base, optional := strings.CutSuffix(text, "?")
	t := Type{Base: base, Optional: optional}
	switch {
	case !slices.Contains(Bases, base):
		return t, "unknown type " + quote(text) + "; want " + strings.Join(Bases, "|")
	case optional && !slices.Contains(optionalArgs, base):
		return t, "an argument of type " + base + " cannot be optional, as its zero value is a value; only " +
			strings.Join(optionalArgs, " and ") + " can"
	}
	return t, ""
}

// parseResultType reads the type of a reply's value.
func parseResultType(text string) (Type, string) {
	base, optional := strings.CutSuffix(text, "?")
	base, list := strings.CutPrefix(base, "[]")
	t := Type{Base: base, Optional: optional, List: list}
	if !slices.Contains(Bases, base) {
		return t, "unknown type " + quote(text) + "; want " + strings.Join(Bases, "|") + ", T? or []T"
	}
	return t, ""
}
