package analyze

import (
	"math"
	"slices"
)

// Value is the set of all that a Lua value may be. The zero Value is the bottom of the lattice: no value ever
// gets here. A Value with Unknown among its kinds is the top. If a value may be redis.call or something else,
// the analysis follows both.
type Value struct {
	kinds []Kind // sorted, without repetitions

	// provesTrue says that the guard is kept whenever the value is true, and provesFalse that it is kept
	// whenever the value is false. Both hold if the value never has that outcome.
	provesTrue, provesFalse bool
}

const (
	mostStrings = 16 // the most constants that a value keeps one by one
	mostNumbers = 16
	mostEntries = 40 // entries of KEYS, and of ARGV
	mostReads   = 24
)

// Of returns the Value that may be each of kinds.
func Of(kinds ...Kind) Value { return Value{kinds: normal(kinds)}.settled() }

func (v Value) Kinds() []Kind { return v.kinds }

// Bottom reports whether no value ever gets here.
func (v Value) Bottom() bool { return len(v.kinds) == 0 }

// Top returns where and why the value is unknown.
func (v Value) Top() (Unknown, bool) {
	if n := len(v.kinds); n > 0 {
		u, ok := v.kinds[n-1].(Unknown)
		return u, ok
	}
	return Unknown{}, false
}

// Join returns the smallest Value that covers both.
func Join(v, w Value) Value {
	switch {
	case v.Bottom():
		return w
	case w.Bottom():
		return v
	case v.equal(w):
		return v
	}
	return Value{
		kinds:       normal(slices.Concat(v.kinds, w.kinds)),
		provesTrue:  v.provesTrue && w.provesTrue,
		provesFalse: v.provesFalse && w.provesFalse,
	}.settled()
}

// settled sets the flag of each outcome that the value never has.
func (v Value) settled() Value {
	v.provesTrue = v.provesTrue || !v.mayBe(truthy)
	v.provesFalse = v.provesFalse || !v.mayBe(falsy)
	return v
}

// proving returns v for a state in which the guard is kept, whatever v is.
func (v Value) proving() Value {
	v.provesTrue, v.provesFalse = true, true
	return v
}

func (v Value) equal(w Value) bool {
	if v.Bottom() || w.Bottom() {
		return v.Bottom() && w.Bottom()
	}
	return v.provesTrue == w.provesTrue && v.provesFalse == w.provesFalse && slices.Equal(v.kinds, w.kinds)
}

// MayBe reports whether a kind in the value satisfies is.
func (v Value) MayBe(is func(Kind) bool) bool { return v.mayBe(is) }

// All reports whether every kind in the value satisfies is, and there is a kind.
func (v Value) All(is func(Kind) bool) bool {
	return !v.Bottom() && !v.mayBe(func(k Kind) bool { return !is(k) })
}

// Without returns the value without a kind.
func (v Value) Without(k Kind) Value { return v.filter(func(other Kind) bool { return other != k }) }

func (v Value) mayBe(is func(Kind) bool) bool { return slices.ContainsFunc(v.kinds, is) }

// Filter returns the value with only the kinds that satisfy is.
func (v Value) Filter(is func(Kind) bool) Value { return v.filter(is) }

func (v Value) filter(is func(Kind) bool) Value {
	if !v.mayBe(func(k Kind) bool { return !is(k) }) {
		return v
	}
	var kinds []Kind
	for _, k := range v.kinds {
		if is(k) {
			kinds = append(kinds, k)
		}
	}
	v.kinds = kinds
	return v.settled()
}

// mapped returns v with its kinds replaced. It proves what v proves.
func (v Value) mapped(to func(Kind) Value) Value {
	w := v.each(to)
	w.provesTrue, w.provesFalse = v.provesTrue, v.provesFalse
	return w.settled()
}

// each joins the results of to for every kind of v.
func (v Value) each(to func(Kind) Value) Value {
	var all Value
	for _, k := range v.kinds {
		all = Join(all, to(k))
	}
	return all
}

// only returns the single kind of v.
func (v Value) only() (Kind, bool) {
	if len(v.kinds) == 1 {
		return v.kinds[0], true
	}
	return nil, false
}

// Str returns the constant string that v is.
func (v Value) Str() (string, bool) {
	k, _ := v.only()
	switch k := k.(type) {
	case Str:
		return k.S, true
	case Empty:
		return "", true
	}
	return "", false
}

// Num returns the constant number that v is.
func (v Value) Num() (float64, bool) {
	k, _ := v.only()
	n, ok := k.(Num)
	return n.F, ok
}

// normal gives a set of kinds its one form: sorted, and without repetitions. It drops kinds that another kind
// covers. If there are too many constants, entries or readings, one kind replaces all of that sort. It treats
// each sort by itself, so the order of joins does not matter.
func normal(kinds []Kind) []Kind {
	kinds = dedupe(slices.Clone(kinds))
	if len(kinds) < 2 || len(kinds) <= mostNumbers && !slices.ContainsFunc(kinds, gathers) {
		return kinds
	}
	kinds = collapse(kinds, mostStrings, func(k Kind) (Kind, bool) {
		_, is := k.(Str)
		return Text{Class: Built}, is
	})
	for _, class := range []Class{Integer, Fraction} {
		kinds = collapse(kinds, mostNumbers, func(k Kind) (Kind, bool) {
			n, is := k.(Num)
			return Number{Class: class}, is && classOf(n.F) == class
		})
	}
	kinds = collapse(kinds, mostEntries, func(k Kind) (Kind, bool) {
		_, is := k.(Key)
		return Key{}, is
	})
	for _, number := range []bool{false, true} {
		kinds = collapse(kinds, mostEntries, func(k Kind) (Kind, bool) {
			a, is := k.(Arg)
			return Arg{Number: number}, is && a.Number == number
		})
		kinds = collapse(kinds, mostReads, func(k Kind) (Kind, bool) {
			r, is := k.(Read)
			return Read{Number: number}, is && r.Number == number
		})
	}
	for _, all := range []Missing{{}, {Nil: true}, {Nil: true, Malformed: true}} {
		kinds = collapse(kinds, mostReads, func(k Kind) (Kind, bool) {
			m, is := k.(Missing)
			return all, is && m.Nil == all.Nil && m.Malformed == all.Malformed
		})
	}
	// The first of several reasons is enough for a mend.
	for n := len(kinds); n > 1; n-- {
		_, last := kinds[n-1].(Unknown)
		_, before := kinds[n-2].(Unknown)
		if !last || !before {
			break
		}
		kinds = kinds[:n-1]
	}
	return kinds
}

// gathers reports whether a kind covers others in normal.
func gathers(k Kind) bool {
	switch k := k.(type) {
	case Text:
		return k == Text{Class: Built}
	case Number:
		return k.Unit == None && k.Within == nil
	case Key:
		return k.Index == 0
	case Arg:
		return k.Index == 0
	case Read:
		return k.Source == Source{}
	case Missing:
		return k.Of == Source{}
	case Unknown:
		return true
	}
	return false
}

// collapse replaces kinds by the kind that covers them. It does so if there are more than most, or if the
// covering kind is in the set already.
func collapse(kinds []Kind, most int, stands func(Kind) (Kind, bool)) []Kind {
	count, all := 0, Kind(nil)
	for _, k := range kinds {
		if for_, is := stands(k); is {
			count, all = count+1, for_
		}
	}
	if count == 0 || count <= most && !slices.Contains(kinds, all) {
		return kinds
	}
	var rest []Kind
	for _, k := range kinds {
		if _, is := stands(k); !is {
			rest = append(rest, k)
		}
	}
	return dedupe(append(rest, all))
}

func dedupe(kinds []Kind) []Kind {
	if len(kinds) > 1 {
		slices.SortFunc(kinds, func(a, b Kind) int { return a.key().compare(b.key()) })
		kinds = slices.Compact(kinds)
	}
	return kinds
}

func classOf(f float64) Class {
	if f == math.Trunc(f) && !math.IsInf(f, 0) {
		return Integer
	}
	return Fraction
}

// widen returns a Value above both. A loop reaches a fixed point after a few steps, because one kind replaces
// a growing set of constants.
func widen(before, after Value) Value {
	joined := Join(before, after)
	if joined.equal(before) {
		return before
	}
	grown := func(is func(Kind) bool) bool {
		for _, k := range joined.kinds {
			if is(k) && !slices.Contains(before.kinds, k) {
				return true
			}
		}
		return false
	}
	isNum := func(k Kind) bool { _, is := k.(Num); return is }
	isStr := func(k Kind) bool { _, is := k.(Str); return is }
	nums, strs := grown(isNum), grown(isStr)
	if !nums && !strs {
		return joined
	}
	wide := joined.each(func(k Kind) Value {
		switch k := k.(type) {
		case Num:
			if nums {
				return Of(Number{Class: classOf(k.F)})
			}
		case Str:
			if strs {
				return Of(Text{Class: Built})
			}
		}
		return Of(k)
	})
	wide.provesTrue, wide.provesFalse = joined.provesTrue, joined.provesFalse
	return wide.settled()
}

// truthy reports whether a kind may count as true.
func truthy(k Kind) bool {
	switch k := k.(type) {
	case Nil, Absent, Missing:
		return false
	case Bool:
		return k.V
	}
	return true
}

// falsy reports whether a kind may count as false.
func falsy(k Kind) bool {
	switch k := k.(type) {
	case Nil, Absent, Missing, Unknown:
		return true
	case Bool:
		return !k.V
	}
	return false
}
