package analyze

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// Gap is a store that may leave a hole in a list, or an element outside of it. Redis ends its reply at a
// hole, and # and unpack may end there too.
type Gap struct {
	Pos script.Pos
	Nil bool // the store may be a nil; else its index may leave a hole, or be below 1
}

// Why says which store leaves the gap, and how to avoid it.
func (g Gap) Why(s *script.Script) string {
	if g.Nil {
		return fmt.Sprintf("%s may store a nil in it; store false, which keeps its place, or append only "+
			"values that exist: if v then list[#list + 1] = v end", s.Line(g.Pos))
	}
	return fmt.Sprintf("%s may store beyond the place after the last element, or below 1; append with "+
		"list[#list + 1] = …, or store in every run of a loop from 1", s.Line(g.Pos))
}

// first returns the gap that comes first in the text.
func (g Gap) first(h Gap) Gap {
	if g == (Gap{}) || h != (Gap{}) &&
		cmp.Or(cmp.Compare(h.Pos.Line, g.Pos.Line), cmp.Compare(h.Pos.Column, g.Pos.Column),
			cmp.Compare(bit(h.Nil), bit(g.Nil))) < 0 {
		return h
	}
	return g
}

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
		case known && 1 <= n && n <= len(t.Items): // the item tells whether it may be nil
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

// sure is certain, and also stops at an unknown element.
func (t *Table) sure() int {
	if n := slices.IndexFunc(t.Items[:t.certain()], func(v Value) bool { return v.mayBe(isUnknown) }); n >= 0 {
		return n
	}
	return t.certain()
}

// followed returns the first item that may be behind the end of a list, although another item follows. -1:
// there is none.
func followed(items []Value, more bool) int {
	for i, item := range items {
		if item.mayBe(isAbsent) && (i < len(items)-1 || more) {
			return i
		}
	}
	return -1
}

func isAbsent(k Kind) bool { return k == Kind(Absent{}) }

// mayVanish reports whether a kind may be nil. The analysis trusts that a stored value is a number.
func mayVanish(k Kind) bool { return isAbsent(k) || Vanishes(k) }

// holds reports whether the list certainly has an element.
func (t *Table) holds() bool { return t.some || t.sure() > 0 }

// Vanishes reports whether a kind is a nil, which cuts off the rest of a list in a reply. The analysis trusts
// that a stored value is a number.
func Vanishes(k Kind) bool {
	switch k := k.(type) {
	case Nil:
		return true
	case Missing:
		return k.Nil && !k.Malformed
	}
	return false
}
