package analyze

import (
	"maps"
	"slices"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// Origin says who makes a table.
type Origin uint8

// The origins of tables.
const (
	Made    Origin = iota // the script
	Keys                  // KEYS
	Args                  // ARGV
	Decoded               // cjson.decode or a similar function, from a text of unknown content
	Foreign               // a command with an unknown reply
	Waived                // a command that the header waives
)

// Table is the knowledge about a table. No code changes a Table; a new one replaces it.
type Table struct {
	Origin Origin
	What   string // of Decoded, Foreign and Waived: the function or the command

	Items  []Value          // at the indices 1, 2, 3; never only nil
	Fields map[string]Value // by constant names
	Rest   Value            // at all other indices, and maybe also at those above
	Names  Value            // the indices of Rest
	Pairs  *[2]Value        // of a list with names and values in turn: both kinds
	Odd    bool             // with Pairs: the list ends with a name
	Exact  bool             // the length is that of Items
	Gap    Gap              // why the list may have a hole; zero: it has none
	Meta   Value            // the metatable

	Err    bool // a command answers it for an error
	sent   bool // KEYS or ARGV, with each entry where the caller sent it
	shrunk bool // the script took elements away
	some   bool // the list has an element
	many   bool // it stands for several tables
}

var emptyTable = &Table{Exact: true}

func (t *Table) equal(u *Table) bool {
	return t == u || t.Origin == u.Origin && t.What == u.What && t.Exact == u.Exact && t.Gap == u.Gap &&
		t.Err == u.Err && t.sent == u.sent && t.shrunk == u.shrunk && t.some == u.some && t.many == u.many &&
		t.Odd == u.Odd && (t.Pairs == nil) == (u.Pairs == nil) &&
		(t.Pairs == nil || t.Pairs[0].equal(u.Pairs[0]) && t.Pairs[1].equal(u.Pairs[1])) &&
		t.Rest.equal(u.Rest) && t.Names.equal(u.Names) && t.Meta.equal(u.Meta) &&
		slices.EqualFunc(t.Items, u.Items, Value.equal) && maps.EqualFunc(t.Fields, u.Fields, Value.equal)
}

func joinTables(t, u *Table) *Table {
	if t == u || t.equal(u) {
		return t
	}
	j := &Table{
		Origin: max(t.Origin, u.Origin), What: max(t.What, u.What),
		Exact: t.Exact && u.Exact && len(t.Items) == len(u.Items),
		Rest:  Join(t.Rest, u.Rest), Names: Join(t.Names, u.Names), Meta: joinMeta(t.Meta, u.Meta),
		Gap: t.Gap.first(u.Gap), Err: t.Err || u.Err, sent: t.sent && u.sent, shrunk: t.shrunk || u.shrunk,
		some: t.holds() && u.holds(), many: t.many || u.many,
	}
	p, odd := t.inTurn()
	q, odder := u.inTurn()
	if p != nil && q != nil && odd == odder && !j.Exact {
		j.Pairs, j.Odd = &[2]Value{Join(p[0], q[0]), Join(p[1], q[1])}, odd
	}
	n := min(len(t.Items), len(u.Items))
	for i := range n {
		j.Items = append(j.Items, Join(t.Items[i], u.Items[i]))
	}
	for _, item := range slices.Concat(t.Items[n:], u.Items[n:]) { // beyond the shorter list
		j.Rest = Join(j.Rest, item)
		j.Names = Join(j.Names, anyIndex)
	}
	if len(t.Fields)+len(u.Fields) > 0 {
		j.Fields = maps.Clone(t.Fields)
		if j.Fields == nil {
			j.Fields = map[string]Value{}
		}
		for name, v := range u.Fields {
			j.Fields[name] = Join(orNil(t.Fields, name), v)
		}
		for name, v := range t.Fields {
			if _, both := u.Fields[name]; !both {
				j.Fields[name] = Join(v, vNil)
			}
		}
	}
	return j
}

// joinMeta joins two metatables. A missing one becomes nil.
func joinMeta(v, w Value) Value {
	if v.Bottom() != w.Bottom() {
		return Join(Join(v, w), vNil)
	}
	return Join(v, w)
}

// mapped returns the table with each value replaced.
func (t *Table) mapped(to func(Value) Value) *Table {
	changed := false
	each := func(v Value) Value {
		w := to(v)
		changed = changed || !w.equal(v)
		return w
	}
	u := *t
	u.Items = make([]Value, len(t.Items))
	for i, item := range t.Items {
		u.Items[i] = each(item)
	}
	u.Rest, u.Names = each(t.Rest), each(t.Names)
	if t.Pairs != nil {
		u.Pairs = &[2]Value{each(t.Pairs[0]), each(t.Pairs[1])}
	}
	if t.Fields != nil {
		u.Fields = make(map[string]Value, len(t.Fields))
		for name, v := range t.Fields {
			u.Fields[name] = each(v)
		}
	}
	if !changed {
		return t
	}
	return &u
}

// inTurn returns the values at the odd and the even places of a list. It also reports whether the last place
// is odd. pairs is nil if these are not known.
func (t *Table) inTurn() (pairs *[2]Value, odd bool) {
	switch {
	case t.Pairs != nil:
		return t.Pairs, t.Odd
	case !t.Exact || t.many || mayIndex(t.Names, false):
		return nil, false
	}
	pairs = &[2]Value{}
	for i, item := range t.Items {
		pairs[i%2] = Join(pairs[i%2], item)
	}
	return pairs, len(t.Items)%2 != 0
}

func orNil(fields map[string]Value, name string) Value {
	if v, known := fields[name]; known {
		return v
	}
	return vNil
}

func widenTable(before, after *Table) *Table {
	if before.equal(after) {
		return after
	}
	w := *after
	w.Rest, w.Names, w.Meta = widen(before.Rest, after.Rest), widen(before.Names, after.Names),
		widen(before.Meta, after.Meta)
	if after.Pairs != nil && before.Pairs != nil {
		w.Pairs = &[2]Value{widen(before.Pairs[0], after.Pairs[0]), widen(before.Pairs[1], after.Pairs[1])}
	}
	w.Items = slices.Clone(after.Items)
	for i := range min(len(before.Items), len(after.Items)) {
		w.Items[i] = widen(before.Items[i], after.Items[i])
	}
	w.Fields = maps.Clone(after.Fields)
	for name, v := range after.Fields {
		if was, known := before.Fields[name]; known {
			w.Fields[name] = widen(was, v)
		}
	}
	return &w
}

var (
	vNil     = Of(Nil{})
	absent   = Of(Absent{})
	anyIndex = Of(Number{Class: Integer})
)

// mayIndex reports whether names, the indices of Rest, may include a string or a number.
func mayIndex(names Value, isString bool) bool {
	return names.mayBe(func(k Kind) bool {
		switch k := k.(type) {
		case Str, Empty, Text, Key:
			return isString
		case Arg:
			return isString != k.Number
		case Read:
			return isString != k.Number
		case Num, Number:
			return !isString
		case Unknown, Raised:
			return true
		}
		return false
	})
}

// get returns the value at an index. In a table of unknown content, the analysis trusts the header that a
// value is not nil.
func (t *Table) get(index Value) Value {
	v := t.at(index)
	if t.Origin == Made || t.Origin == Keys || t.Origin == Args {
		return v
	}
	return trusted(v)
}

// trusted marks a nil that the header may declare not to be nil.
func trusted(v Value) Value {
	return v.mapped(func(k Kind) Value {
		switch k.(type) {
		case Nil, Absent:
			return Of(Missing{Nil: true, Malformed: true})
		}
		return Of(k)
	})
}

func (t *Table) at(index Value) Value {
	return index.each(func(k Kind) Value {
		switch k := k.(type) {
		case Str:
			return t.field(k.S)
		case Empty:
			return t.field("")
		case Num:
			return t.item(k.F)
		case Number:
			return t.anyItem()
		case Arg, Read:
			if isNumber(k) {
				return t.anyItem()
			}
			return t.anyField()
		case Text, Key:
			return t.anyField()
		case Nil, Absent:
			return vNil
		case Raised, Unknown:
			return Join(t.anyItem(), t.anyField())
		}
		return Join(t.Rest, vNil) // the index is a boolean, a table or a function
	})
}

func isNumber(k Kind) bool {
	switch k := k.(type) {
	case Num, Number:
		return true
	case Arg:
		return k.Number
	case Read:
		return k.Number
	}
	return false
}

func (t *Table) field(name string) Value {
	v, known := t.Fields[name]
	if !known {
		v = vNil
	}
	if mayIndex(t.Names, true) {
		v = Join(v, t.Rest)
	}
	return v
}

func (t *Table) item(f float64) Value {
	i := int(f)
	if float64(i) == f && 1 <= i && i <= len(t.Items) {
		return t.Items[i-1]
	}
	switch { // a finding, at any place
	case float64(i) != f:
		if mayIndex(t.Names, false) {
			return Join(t.Rest, vNil)
		}
		return vNil
	case !t.sent:
	case t.Exact && t.Origin == Keys:
		return Of(Key{max(i, 0)})
	case t.Exact && t.Origin == Args:
		return Of(Arg{Index: max(i, 0)})
	}
	if t.sent && t.Origin == Keys && i >= 1 {
		return Join(Of(Key{i}), Join(absent, t.Rest.filter(func(k Kind) bool { _, is := k.(Key); return !is })))
	}
	if t.sent && t.Origin == Args && i >= 1 {
		return Join(t.Rest.each(func(k Kind) Value {
			switch k := k.(type) {
			case Arg:
				return Of(Arg{Index: i, Number: k.Number})
			case Empty:
				return Of(Empty{i})
			}
			return Of(k)
		}), absent)
	}
	if t.Pairs != nil && i >= 1 {
		return Join(t.Pairs[(i+1)%2], absent)
	}
	if mayIndex(t.Names, false) {
		return Join(t.Rest, absent)
	}
	if t.Exact {
		return vNil
	}
	return absent
}

// anyItem returns what the table may have at some number.
func (t *Table) anyItem() Value {
	v := absent
	for _, item := range t.Items {
		v = Join(v, item)
	}
	if mayIndex(t.Names, false) {
		v = Join(v, t.Rest)
	}
	return v
}

func (t *Table) anyField() Value {
	v := vNil
	for _, field := range t.Fields {
		v = Join(v, field)
	}
	if mayIndex(t.Names, true) {
		v = Join(v, t.Rest)
	}
	return v
}

// Elements returns what the list may have at any place.
func (t *Table) Elements() Value {
	return t.anyItem().filter(func(k Kind) bool { _, is := k.(Absent); return !is })
}

// everything returns all that the table may have.
func (t *Table) everything() Value {
	v := t.Rest
	for _, item := range t.Items {
		v = Join(v, item)
	}
	for _, field := range t.Fields {
		v = Join(v, field)
	}
	return v
}

// set returns the table after a store of v at an index. If the store may leave a gap, pos is its place.
func (t *Table) set(index, v Value, pos script.Pos) *Table {
	after := t.place(index, v)
	if left := t.leaves(index, v, pos); left != (Gap{}) {
		u := *after
		u.Gap = t.Gap.first(left)
		return &u
	}
	return after
}

// place is set for an index that leaves no gap.
func (t *Table) place(index, v Value) *Table {
	strong := !t.many && len(index.kinds) == 1
	var all *Table
	for _, k := range index.kinds {
		after := t.setKind(k, v, strong)
		if all != nil {
			after = joinTables(all, after)
		}
		all = after
	}
	if all == nil {
		return t
	}
	return all
}

func (t *Table) setKind(k Kind, v Value, strong bool) *Table {
	u := *t
	u.Pairs = nil
	u.shrunk = t.shrunk || !present(v).equal(v) || v.mayBe(isUnknown)
	u.some = t.some && !u.shrunk
	switch k := k.(type) {
	case Str, Empty:
		name := ""
		if s, ok := k.(Str); ok {
			name = s.S
		}
		u.Fields = maps.Clone(t.Fields)
		if u.Fields == nil {
			u.Fields = map[string]Value{}
		}
		if !strong {
			v = Join(v, orNil(t.Fields, name))
		}
		u.Fields[name] = v
		return &u
	case Num:
		return t.setItem(k.F, v, strong)
	case Nil, Absent:
		return t // an error
	}
	if mayIndex(Of(k), false) {
		u.Exact = false
		u.Items = slices.Clone(t.Items)
		for i := range u.Items {
			u.Items[i] = Join(u.Items[i], v)
		}
	}
	if mayIndex(Of(k), true) {
		u.Fields = maps.Clone(t.Fields)
		for name := range u.Fields {
			u.Fields[name] = Join(u.Fields[name], v)
		}
	}
	u.Rest, u.Names = Join(t.Rest, present(v)), Join(t.Names, Of(k))
	return &u
}

// present returns v without nil, because a store of nil takes the element away.
func present(v Value) Value {
	return v.filter(func(k Kind) bool {
		switch k := k.(type) {
		case Nil, Absent:
			return false
		case Missing:
			return !k.Nil
		}
		return true
	})
}

func (t *Table) setItem(f float64, v Value, strong bool) *Table {
	u := *t
	u.Pairs = nil
	u.shrunk = t.shrunk || !present(v).equal(v) || v.mayBe(isUnknown)
	u.some = t.some && !u.shrunk
	i := int(f)
	mayBeNil := v.mayBe(func(k Kind) bool {
		switch k := k.(type) {
		case Nil, Absent, Unknown:
			return true
		case Missing:
			return k.Nil
		}
		return false
	})
	switch {
	case float64(i) == f && 1 <= i && i <= len(t.Items):
		u.Items = slices.Clone(t.Items)
		if !strong {
			v = Join(v, t.Items[i-1])
		}
		u.Items[i-1] = v
		if mayBeNil {
			u.Exact = false
		}
		return &u
	case i == len(t.Items)+1 && float64(i) == f && strong && t.Exact && t.Rest.Bottom() && i <= mostItems:
		if v.equal(vNil) {
			return t
		}
		u.Items = append(slices.Clip(t.Items), v)
		u.Exact = !mayBeNil
		return &u
	}
	u.Exact = false
	u.Rest, u.Names = Join(t.Rest, present(v)), Join(t.Names, anyIndex)
	return &u
}

// mostItems is the largest list in which the analysis knows each item by itself.
const mostItems = 64

// listOf returns a table with these elements. Nothing else is known about the table.
func listOf(elements Value) *Table {
	if elements.Bottom() {
		return emptyTable
	}
	return &Table{Rest: elements, Names: anyIndex}
}
