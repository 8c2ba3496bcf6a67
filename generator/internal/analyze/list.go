package analyze

import (
	"maps"
	"slices"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// removed is the answer of table.remove(list, at). If there is no element, it answers no value.
func (a *analyzer) removed(st *state, list Value, args List) List {
	var all Value
	certain := len(args.Items) < 3 && !args.Open
	for _, k := range list.kinds {
		r, isTable := k.(Ref)
		switch t := st.heap[r.site]; {
		case isTable && t != nil:
			item := present(t.anyItem())
			at, known := len(t.Items), true
			if len(args.Items) > 1 {
				at, known = whole(args.at(1))
			}
			switch length, exact := t.exactly(); {
			case exact && known && 1 <= at && at <= length,
				len(args.Items) > 1 && known && 1 <= at && t.gapless() && at <= t.sure():
				item = t.Items[at-1]
			default:
				certain = false
			}
			if len(args.Items) > 1 && t.Gap != (Gap{}) {
				item = Join(item, vNil)
			}
			all = Join(all, item)
		case isUnknown(k):
			all, certain = Join(all, Of(k)), false
		}
	}
	switch {
	case all.Bottom(): // all lists are empty
		return List{}
	case certain:
		return one(all)
	}
	return List{Rest: all, Open: true, lone: true}
}

// storeAll notes that a function changes KEYS.
func (a *analyzer) storeAll(n ast.Expr, x Value, st *state, order bool) {
	for _, k := range x.kinds {
		if r, ok := k.(Ref); ok && st.heap[r.site] != nil && st.heap[r.site].Origin == Keys {
			a.facts.Stores = append(a.facts.Stores, Use{Name: "KEYS", Order: order, Pos: a.script.Pos(n)})
		}
	}
}

// insert follows table.insert(list, v) and table.insert(list, at, v).
func (a *analyzer) insert(st *state, n ast.Expr, x Value, args List) {
	args = args.atLeast(2)
	if count := len(args.Items); !args.Open && (count < 2 || count > 3) {
		a.misuse(n, "table.insert takes a list and a value, with a place between them or not, so that this is an "+
			"error whenever it is reached; write table.insert(list, v)")
		st.dead = true
		return
	}
	a.storeAll(n, x, st, false)
	if args.Open {
		a.change(st, x, unsure, func(t *Table) *Table {
			return t.shuffled(false, a.script.Pos(n)).set(anyIndex, args.from(1).all(), a.script.Pos(n))
		})
		return
	}
	v := args.at(len(args.Items) - 1)
	a.change(st, x, grows(v), func(t *Table) *Table {
		if len(args.Items) == 2 && t.Exact && !mayIndex(t.Names, false) {
			return t.place(Of(Num{F: float64(len(t.Items) + 1)}), v)
		}
		if len(args.Items) == 2 {
			return t.append(v)
		}
		length := len(t.Items)
		u := t.shuffled(true, a.script.Pos(n))
		u.Gap = u.Gap.first(t.insertLeaves(x, args.at(1), v, a.script.Pos(n)))
		if t.Exact && !mayIndex(t.Names, false) && length < mostItems {
			w := *u
			w.Items = append(slices.Clone(u.Items), v)
			for i := range w.Items {
				w.Items[i] = Join(w.Items[i], Join(v, u.Elements()))
			}
			w.Exact = w.Exact && !v.mayBe(mayVanish) && !v.mayBe(isUnknown)
			return &w
		}
		return u.place(anyIndex, v)
	})
}

// insertLeaves returns the gap that table.insert(list, at, v) may leave.
func (t *Table) insertLeaves(list, at, v Value, pos script.Pos) Gap {
	within := func(k Kind) bool {
		n, ok := k.(Number)
		return ok && n.Within != nil && list.equal(Of(Ref{n.Within})) && n.Least > 0 && t.gapless() && !t.shrunk
	}
	n, known := whole(at)
	switch {
	case v.mayBe(mayVanish):
		return Gap{pos, true}
	case at.All(within), known && 1 <= n && n <= t.certain()+1:
		return Gap{}
	}
	return Gap{Pos: pos}
}

// shuffled returns the list with its items in any order. If whole is set, all items stay.
func (t *Table) shuffled(whole bool, pos script.Pos) *Table {
	u := *t
	u.Pairs = nil
	all := t.Elements()
	if all.mayBe(Vanishes) {
		u.Gap = u.Gap.first(Gap{pos, true})
	}
	if whole {
		item := all
		if t.certain() < len(t.Items) { // the list may be shorter
			item = Join(item, absent)
		}
		u.Items = slices.Repeat([]Value{item}, len(t.Items))
		if mayIndex(t.Names, false) {
			u.Rest = Join(t.Rest, present(all))
		}
		return &u
	}
	u.Items, u.Exact = nil, len(t.Items) == 0 && t.Exact
	if !all.Bottom() {
		u.Rest, u.Names, u.Exact = Join(t.Rest, present(all)), Join(t.Names, anyIndex), false
	}
	return &u
}

// append returns the list with one more item.
func (t *Table) append(v Value) *Table {
	for _, item := range t.Items {
		if !present(item).equal(item) { // the last item may be any item before a nil
			return t.place(anyIndex, v)
		}
	}
	u := *t
	pairs, odd := t.inTurn()
	if u.Pairs = nil; pairs != nil && !t.many && present(v).equal(v) {
		u.Pairs, u.Odd = &[2]Value{pairs[0], pairs[1]}, !odd
		u.Pairs[bit(odd)] = Join(u.Pairs[bit(odd)], v)
	}
	u.Exact, u.Rest, u.Names = false, Join(t.Rest, present(v)), Join(t.Names, anyIndex)
	u.some = t.some || grows(v) == 1
	return &u
}

// sort follows table.sort(list, by).
func (a *analyzer) sort(st *state, n ast.Expr, x, by Value) {
	refs, _ := a.tables(st, x)
	a.useAll(x)
	a.storeAll(n, x, st, true)
	shuffle := func() { a.change(st, x, 0, func(t *Table) *Table { return t.shuffled(true, a.script.Pos(n)) }) }
	shuffle() // a failed comparison leaves the list half sorted
	a.repeatedly(st, n, func(st *state) Value {
		var items Value // the comparisons may change them
		for _, r := range refs {
			items = Join(items, present(st.heap[r.site].anyItem()))
		}
		if by.mayBe(holds) || by.mayBe(isUnknown) {
			return a.compared(st, n, x, by, items)
		}
		a.test(n, Test{Operator: "<", Left: items, Right: items})
		return a.less(st, n, "<", items, items)
	})
	shuffle()
}

// compared follows a comparison of table.sort. If the comparison defines no order, Lua compares with the nil
// behind the list. An answer for that nil may move the nil into the list.
func (a *analyzer) compared(st *state, n ast.Expr, list, by, items Value) Value {
	random := len(a.facts.Random)
	beyond := trusted(vNil)
	l := a.call(st, n, by, List{Items: []Value{Join(items, beyond), Join(items, beyond)}})
	if slices.ContainsFunc(a.facts.Random[random:], func(u Use) bool { return u.Name == "math.random" }) {
		a.misuse(n, "the comparison of table.sort may answer differently each time, on which Lua loses elements "+
			"of the list; give each element a number that decides before the list is sorted")
	}
	if !st.dead {
		answers := st.clone()
		misuses, callees := a.facts.Misuses, maps.Clone(a.callees)
		a.call(answers, n, by, List{Items: []Value{beyond, items}})
		a.facts.Misuses, a.callees = misuses, callees // an error for nil is correct
		if !answers.dead {
			a.change(st, list, unsure, func(t *Table) *Table {
				w := *t
				w.Items, w.Exact, w.some = slices.Clone(t.Items), false, false
				for i, item := range w.Items {
					w.Items[i] = Join(item, beyond)
				}
				if item := present(t.anyItem()); !item.Bottom() { // it moves behind the list
					w.Rest, w.Names = Join(w.Rest, Join(item, beyond)), Join(w.Names, anyIndex)
				}
				return &w
			})
		}
	}
	return l.at(0)
}
