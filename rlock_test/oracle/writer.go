package oracle

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// writer writes the body of one program, and notes the features that it uses.
type writer struct {
	*rand.Rand
	program *Program
	body    strings.Builder
	depth   int    // of blocks
	names   int    // names given until now
	mistake string // the only kind of mistake that the program may have, or ""
}

// mistakes are the kinds of mistakes. A program has at most one kind, so the generator can refuse
// it for nothing else.
var mistakes = []string{"key", "keys", "write", "name", "value", "strange", "guard", "fence", "reply", "type",
	"length", "write", "key", "function", "unit", "unit", "cached", "list", "list", "channel", "enum", "gap",
	"gap", "gap", "earlier"}

// wrong decides whether the program makes a mistake of the kind at this point.
func (w *writer) wrong(kind string) bool {
	if w.mistake != kind || !w.chance(50) {
		return false
	}
	w.note("bad " + kind)
	return true
}

// line writes one line of the body.
func (w *writer) line(format string, args ...any) {
	w.body.WriteString(strings.Repeat("  ", w.depth))
	fmt.Fprintf(&w.body, format, args...)
	w.body.WriteByte('\n')
}

// block writes lines inside a block.
func (w *writer) block(open string, lines func(), end string) {
	w.line("%s", open)
	w.depth++
	lines()
	w.depth--
	w.line("%s", end)
}

// name returns a new identifier.
func (w *writer) name(prefix string) string {
	w.names++
	return fmt.Sprintf("%s%d", prefix, w.names)
}

// chance is true in n of 100 cases.
func (w *writer) chance(n int) bool { return w.IntN(100) < n }

// pick returns one of choices.
func pick[T any](w *writer, choices ...T) T { return choices[w.IntN(len(choices))] }

// condition returns a condition that is true in some calls and false in others.
func (w *writer) condition() string {
	switch w.IntN(4) {
	case 0:
		return w.argument("bool") + " == '1'"
	case 1:
		return "tonumber(" + w.argument("int") + ") > 50"
	case 2:
		return w.argument("string") + " == 'b'"
	default:
		return "redis.call('EXISTS', " + w.key("string") + ") == 1"
	}
}

// argument declares an argument of the type, or takes a declared argument. It returns the
// expression for the argument.
func (w *writer) argument(kind string) string {
	if w.program.Mode == "read cached" && len(w.program.Args) > 0 { // it takes at most one argument
		kind = w.program.Args[0].Kind
	}
	for i, a := range w.program.Args {
		if a.Kind == kind && !a.Bound && (w.chance(60) || w.program.Mode == "read cached") {
			return fmt.Sprintf("ARGV[%d]", i+1)
		}
	}
	w.program.Args = append(w.program.Args, Entry{Name: fmt.Sprintf("arg%d", len(w.program.Args)+1), Kind: kind})
	return fmt.Sprintf("ARGV[%d]", len(w.program.Args))
}

// key declares a key that holds values of the type, or takes a declared key. It returns the
// expression for the key.
func (w *writer) key(kind string) string {
	for i, k := range w.program.Keys {
		if k.Kind == kind && !k.Bound && w.chance(70) {
			return fmt.Sprintf("KEYS[%d]", i+1)
		}
	}
	if w.program.Mode == "read cached" && len(w.program.Keys) > 0 {
		return "KEYS[1]"
	}
	w.program.Keys = append(w.program.Keys, Entry{Name: fmt.Sprintf("key%d", len(w.program.Keys)+1), Kind: kind})
	return fmt.Sprintf("KEYS[%d]", len(w.program.Keys))
}

// note records that the program has a feature.
func (w *writer) note(feature string) { w.program.Features = append(w.program.Features, feature) }
