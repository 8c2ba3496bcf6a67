package analyze

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// Gap is a store that may leave nothing between two elements of a list, or an element
// outside of it. Redis ends its reply there, and # and unpack may end there too.
type Gap struct {
	Pos script.Pos
	Nil bool // nil may be stored; else the index may be behind the one after the last, or below 1
}

// Why says what leaves the gap, and how to leave none.
func (g Gap) Why(s *script.Script) string {
	if g.Nil {
		return fmt.Sprintf("%s may give it a nil; use false, which keeps its place, or append only what is there: "+
			"if v then list[#list + 1] = v end", s.Line(g.Pos))
	}
	return fmt.Sprintf("%s may store behind the place after the last, or below 1; append with list[#list + 1] "+
		"= …, or store in every run of a loop from 1", s.Line(g.Pos))
}

// first returns the gap that stands first in the text.
func (g Gap) first(h Gap) Gap {
	if g == (Gap{}) || h != (Gap{}) &&
		cmp.Or(cmp.Compare(h.Pos.Line, g.Pos.Line), cmp.Compare(h.Pos.Column, g.Pos.Column),
			cmp.Compare(bit(h.Nil), bit(g.Nil))) < 0 {
		return h
	}
	return g
}

// leaves returns the gap that a store may leave.
func (t *Table) leaves(index, v Value, pos script.Pos) Gap {
	if !mayIndex(index, false) {
		return Gap{}
	}
	for _, k := range index.kinds {
		if !mayIndex(Of(k), false) {
			continue
		}
		n, known := whole(Of(k))
		switch {
		case v.equal(vNil) && known && (n < 1 || n >= len(t.Items) && t.Exact && !mayIndex(t.Names, false)):
		case known && 1 <= n && n <= len(t.Items): // the item says whether it may be nil
			if v.mayBe(isAbsent) && (n < len(t.Items) || mayIndex(t.Names, false)) {
				return Gap{pos, true}
			}
		case v.mayBe(mayVanish) && (!known || !t.Exact && mayIndex(t.Names, false)):
			return Gap{pos, true}
		case !known || n < 1 || n > t.certain()+1:
			return Gap{Pos: pos}
		}
	}
	return Gap{}
}

// certain returns how many elements at the beginning are never nil.
func (t *Table) certain() int {
	n := 0
	for n < len(t.Items) && !t.Items[n].mayBe(mayVanish) {
		n++
	}
	return n
}

// sure is certain where what is not known may be nil as well.
func (t *Table) sure() int {
	if n := slices.IndexFunc(t.Items[:t.certain()], func(v Value) bool { return v.mayBe(isUnknown) }); n >= 0 {
		return n
	}
	return t.certain()
}

// followed returns the first of some items that may be behind the end of a list although
// another follows it; -1: there is none.
func followed(items []Value, more bool) int {
	for i, item := range items {
		if item.mayBe(isAbsent) && (i < len(items)-1 || more) {
			return i
		}
	}
	return -1
}

func isAbsent(k Kind) bool { return k == Kind(Absent{}) }

// mayVanish reports whether a kind may be nil. That what is stored is a number is trusted.
func mayVanish(k Kind) bool { return isAbsent(k) || Vanishes(k) }

// holds reports whether the list has an element for certain.
func (t *Table) holds() bool { return t.some || t.sure() > 0 }

// Vanishes reports whether a kind is a nil, which takes what follows it in a list out of a
// reply. That what is stored is a number is trusted.
func Vanishes(k Kind) bool {
	switch k := k.(type) {
	case Nil:
		return true
	case Missing:
		return k.Nil && !k.Malformed
	}
	return false
}
