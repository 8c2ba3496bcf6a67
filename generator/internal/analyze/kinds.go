package analyze

import (
	"cmp"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// Kind is one thing that a Lua value may be. Each kind is a type of its own, so that
// nobody reads a field that means something else for another kind.
type Kind interface{ key() sortKey }

// The kinds that are one value each.
type (
	// Nil is nil.
	Nil struct{}
	// Absent is the nil that stands behind the end of a list.
	Absent struct{}
	// Missing is what a command answers where nothing is: false, or nil in version 3
	// of the protocol, and as tonumber has it. Malformed is the nil of tonumber for what
	// is stored and is no number.
	Missing struct {
		Of        Source
		Nil       bool
		Malformed bool
	}
	// Bool is true or false. Call is not 0 in the first answer of a pcall, and names it.
	Bool struct {
		V    bool
		Call int
	}
	// Str is a constant string. Default is set where it stands in for what was not
	// there, as in redis.call('GET', KEYS[1]) or '0'.
	Str struct {
		S       string
		Default Source
	}
	// Num is a constant number. Default is as of Str.
	Num struct {
		F       float64
		Default Source
	}
	// Empty is the empty string that stands for the absent optional argument ARGV[Index].
	Empty struct{ Index int }
)

// The kinds that stand for many values.
type (
	// Text is a string of which only its class is known, and that it starts with KEYS[Start]
	// where that is not 0. Only entries of the type channels are followed so.
	Text struct {
		Class     Class
		Unit      Unit
		Start     int
		Undefined bool   // it may be no JSON: it is that of a number which is, or has zeros in front
		Code      string // its first word, where that may be the code of an error; a star ends one that may go on
	}
	// Number is a number of which only its class is known. Within is the table of whose
	// indices it is one, from Least to its length less Spare. Undefined numbers may be infinite or none at
	// all, as what is divided by 0 is.
	Number struct {
		Class     Class
		Unit      Unit
		Within    *site
		Least     int // negative: nobody knows
		Spare     int
		Undefined bool
	}
	// Key is KEYS[Index], or any of KEYS where Index is 0.
	Key struct{ Index int }
	// Arg is ARGV[Index], or any of ARGV where Index is 0; as a number where it went
	// through tonumber. An optional argument that is absent is Empty. Default is as of Str;
	// only the caller's fence has one.
	Arg struct {
		Index   int
		Number  bool
		Default Source
	}
	// Read is a string that a command has read from a key, or a number where it went
	// through tonumber.
	Read struct {
		Source
		Number bool
	}
	// Raised is what the pcall with that number answers for an error that was raised.
	// In Script it may be a text of Lua; otherwise it is an error reply. Redis' pcall makes
	// the text of an error reply; Raw is as the handler of xpcall gets it, a table with err.
	Raised struct {
		Call   int
		Script bool
		Raw    bool
	}
)

// The kinds that can be called, or hold other values.
type (
	// Command is redis.call, or redis.pcall where Protected is set.
	Command struct{ Protected bool }
	// Builtin is a global function, a library, or a member of one, by its full name.
	Builtin struct{ Name string }
	// Closure is a function of the script.
	Closure struct {
		fn  *function
		env *env
	}
	// Ref is a table.
	Ref struct{ site *site }
)

// Unknown is the top of the lattice: nothing is known of the value. Pos is where the
// knowledge was lost, and Why says how. It never hides a table or a function of the
// script: those stand beside it.
type Unknown struct {
	Pos   script.Pos
	Why   string
	Found bool // there is a finding about that place already
}

// Source is what was read from where. The zero Source is no reading.
type Source struct {
	Command string // lower case, of the readings that a guard may compare
	Key     int    // n of KEYS[n]; 0: any
	Field   string // of a hash; empty: the whole value
	Chosen  bool   // the field is not a constant
}

// Class is what is known of a string or a number of which the value is not.
type Class uint8

// The classes. Those of numbers hold for strings as well, whose text is then such a
// number.
const (
	Any      Class = iota // whatever is stored, or sent
	Binary                // 0 or 1
	Integer               // whole
	Decimal               // a number, which is whole if what is stored is
	Fraction              // it may have a fraction
	JSON                  // of strings only: JSON
	Wording               // of strings only: words, which are no number
	Label                 // of strings only: one word that names something
	Built                 // of strings only: a function of the script's or of string has made it
	Digits                // of strings only: digits that a pattern has found
	Written               // of strings only: a whole number as tostring writes it, from 1e14 on with an exponent
)

// Unit is what a number counts.
type Unit uint8

// The units. The header's duration and time are in milliseconds.
const (
	None Unit = iota
	Milliseconds
	Seconds
	UnixMilliseconds
	UnixSeconds
	Microseconds
	UnixMicroseconds
	Lost // of a time or a duration, of which nobody can tell what it counts now
)

// String returns the unit as a message names it.
func (u Unit) String() string {
	return [...]string{"a number", "a duration in milliseconds", "a duration in seconds",
		"a time in milliseconds since 1970", "a time in seconds since 1970",
		"a duration in microseconds", "a time in microseconds since 1970",
		"a unit that cannot be told any more"}[u]
}

// sortKey orders kinds, so that a Value has one form.
type sortKey struct {
	rank, a, b int
	f          float64
	s, t       string
}

func (k sortKey) compare(l sortKey) int {
	if c := cmp.Compare(k.rank, l.rank); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(k.a, l.a), cmp.Compare(k.b, l.b), cmp.Compare(k.f, l.f), cmp.Compare(k.s, l.s),
		cmp.Compare(k.t, l.t))
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (s Source) code() (int, string) { return s.Key<<1 | bit(s.Chosen), s.Command + "\x00" + s.Field }

func (Nil) key() sortKey    { return sortKey{rank: 1} }
func (Absent) key() sortKey { return sortKey{rank: 2} }
func (k Missing) key() sortKey {
	a, s := k.Of.code()
	return sortKey{rank: 3, a: a, b: bit(k.Nil)<<1 | bit(k.Malformed), s: s}
}
func (k Bool) key() sortKey { return sortKey{rank: 4, a: bit(k.V), b: k.Call} }
func (k Str) key() sortKey {
	a, t := k.Default.code()
	return sortKey{rank: 5, a: a, s: k.S, t: t}
}
func (k Num) key() sortKey {
	a, t := k.Default.code()
	return sortKey{rank: 6, a: a, f: k.F, t: t}
}
func (k Empty) key() sortKey { return sortKey{rank: 7, a: k.Index} }
func (k Text) key() sortKey {
	return sortKey{rank: 8, a: int(k.Class), b: int(k.Unit)<<1 | bit(k.Undefined), f: float64(k.Start),
		s: k.Code}
}
func (k Number) key() sortKey {
	within := 0
	if k.Within != nil {
		within = k.Within.id
	}
	return sortKey{rank: 9, a: int(k.Class), b: int(k.Unit)<<1 | bit(k.Undefined),
		f: float64(within)*1e6 + float64(k.Spare)*1e3 + float64(k.Least)}
}
func (k Key) key() sortKey { return sortKey{rank: 10, a: k.Index} }
func (k Arg) key() sortKey {
	f, s := k.Default.code()
	return sortKey{rank: 11, a: k.Index, b: bit(k.Number), f: float64(f), s: s}
}
func (k Read) key() sortKey {
	a, s := k.code()
	return sortKey{rank: 12, a: a, b: bit(k.Number), s: s}
}
func (k Raised) key() sortKey  { return sortKey{rank: 13, a: k.Call, b: bit(k.Raw)<<1 | bit(k.Script)} }
func (k Command) key() sortKey { return sortKey{rank: 14, a: bit(k.Protected)} }
func (k Builtin) key() sortKey { return sortKey{rank: 15, s: k.Name} }
func (k Closure) key() sortKey { return sortKey{rank: 16, a: k.fn.id, b: k.env.id} }
func (k Ref) key() sortKey     { return sortKey{rank: 17, a: k.site.id} }
func (k Unknown) key() sortKey {
	return sortKey{rank: 18, a: k.Pos.Line, b: k.Pos.Column, s: k.Why, f: float64(bit(k.Found))}
}
