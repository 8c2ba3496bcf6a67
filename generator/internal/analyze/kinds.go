package analyze

import (
	"cmp"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// Kind is one thing that a Lua value may be. Each kind is a Go type of its own. So no code reads a field that
// means something else for another kind.
type Kind interface{ key() sortKey }

// The kinds with one value each.
type (
	// Nil is nil.
	Nil struct{}
	// Absent is the nil behind the end of a list.
	Absent struct{}
	// Missing is a command's answer for a missing value: false, or nil in version 3 of the protocol and after
	// tonumber. Malformed is the nil that tonumber gives for a stored text that is not a number.
	Missing struct {
		Of        Source
		Nil       bool
		Malformed bool
	}
	// Bool is true or false. In the first answer of a pcall, Call names the pcall, and is not 0.
	Bool struct {
		V    bool
		Call int
	}
	// Str is a constant string. If it stands in for a missing value, Default says which, as in
	// redis.call('GET', KEYS[1]) or '0'.
	Str struct {
		S       string
		Default Source
	}
	// Num is a constant number. Default is the same as in Str.
	Num struct {
		F       float64
		Default Source
	}
	// Empty is the empty string of the absent optional argument ARGV[Index].
	Empty struct{ Index int }
)

// The kinds with many values.
type (
	// Text is a string with a known class. If Start is not 0, the string starts with KEYS[Start], an entry of
	// the type channels.
	Text struct {
		Class     Class
		Unit      Unit
		Start     int
		Undefined bool   // it may not be JSON: an undefined number, or leading zeros
		Code      string // the first word, if it may be an error's code; a star: it may go on
	}
	// Number is a number with a known class. If Within is not nil, the number is an index of that table. It
	// is at least Least, and at most the length less Spare. An undefined number may be infinite or NaN, as
	// after a division by 0.
	Number struct {
		Class     Class
		Unit      Unit
		Within    *site
		Least     int // negative: unknown
		Spare     int
		Undefined bool
	}
	// Key is KEYS[Index]. If Index is 0, it is any entry of KEYS.
	Key struct{ Index int }
	// Arg is ARGV[Index]. If Index is 0, it is any entry of ARGV. If Number is set, tonumber made a number of
	// it. An absent optional argument is Empty. Default is the same as in Str, and only the caller's fence
	// has one.
	Arg struct {
		Index   int
		Number  bool
		Default Source
	}
	// Read is a string that a command read from a key. If Number is set, tonumber made a number of it.
	Read struct {
		Source
		Number bool
	}
	// Raised is the answer of a pcall for an error; Call is the pcall's number. If Script is set, it may be a
	// text of Lua. Otherwise it is an error reply, and Redis' pcall answers its text. If Raw is set, it is
	// the table with err that the handler of xpcall gets.
	Raised struct {
		Call   int
		Script bool
		Raw    bool
	}
)

// The kinds that Lua can call, or that hold other values.
type (
	// Command is redis.call, or redis.pcall if Protected is set.
	Command struct{ Protected bool }
	// Builtin is a global function, a library, or a member of a library, by its full name.
	Builtin struct{ Name string }
	// Closure is a function of the script.
	Closure struct {
		fn  *function
		env *env
	}
	Ref struct{ site *site }
)

// Unknown is the top of the lattice: nothing is known about the value. Pos is the place where the knowledge
// was lost, and Why says how. Unknown never hides a table or a function of the script, because those stand
// beside it.
type Unknown struct {
	Pos   script.Pos
	Why   string
	Found bool // a finding already names the place
}

// Source says which command read which place. The zero Source is no reading.
type Source struct {
	Command string // lower case; a guard may compare its readings
	Key     int    // n of KEYS[n]; 0: any
	Field   string // of a hash; empty: the whole value
	Chosen  bool   // the field is not a constant
}

// Class is the knowledge about a string or a number with an unknown value.
type Class uint8

// The classes. A class of numbers also holds for strings: the string is then the text of a number in the
// class.
const (
	Any      Class = iota // any stored or sent value
	Binary                // 0 or 1
	Integer               // whole
	Decimal               // whole if the stored number is whole
	Fraction              // it may have a fraction
	JSON                  // of strings only: JSON
	Wording               // of strings only: words that are not a number
	Label                 // of strings only: one word that names something
	Built                 // of strings only: made by a function of the script or of string
	Digits                // of strings only: digits that a pattern found
	Written               // of strings only: a whole number from tostring, with an exponent from 1e14 on
)

// Unit is what a number counts.
type Unit uint8

// The units. A duration and a time of the header are in milliseconds.
const (
	None Unit = iota
	Milliseconds
	Seconds
	UnixMilliseconds
	UnixSeconds
	Microseconds
	UnixMicroseconds
	Lost // was a time or a duration, but its unit is now unknown
)

// String returns the unit for a message.
func (u Unit) String() string {
	return [...]string{"a number", "a duration in milliseconds", "a duration in seconds",
		"a time in milliseconds since 1970", "a time in seconds since 1970",
		"a duration in microseconds", "a time in microseconds since 1970",
		"a unit that cannot be told any more"}[u]
}

// sortKey orders kinds, so that equal Values look the same.
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
