package analyze

import (
	"maps"
	"slices"

	"github.com/yuin/gopher-lua/ast"
)

// sort follows table.sort(list, by).
func (a *analyzer) sort(st *state, n ast.Expr, x, by Value) {
	refs, _ := a.tables(st, x)
	a.useAll(x)
	a.storeAll(n, x, st, true)
	shuffle := func() { a.change(st, x, 0, func(t *Table) *Table { return t.shuffled(true, a.script.Pos(n)) }) }
	shuffle() // a comparison that fails leaves the list half sorted
	a.repeatedly(st, n, func(st *state) Value {
		var items Value // which the comparisons may change
		for _, r := range refs {
			items = Join(items, present(st.heap[r.site].anyItem()))
		}
		if by.mayBe(holds) || by.mayBe(isUnknown) {
			return a.compared(st, n, x, by, items)
		}
		a.test(n, Test{Pos: a.script.Pos(n), Operator: "<", Left: items, Right: items})
		return a.less(st, n, "<", items, items)
	})
	shuffle()
}

// compared follows a comparison that table.sort is given. Where it puts nothing in order, Lua looks
// behind the list, and an answer for the nil there may put it in the place of an element.
func (a *analyzer) compared(st *state, n ast.Expr, list, by, items Value) Value {
	random := len(a.facts.Random)
	beyond := trusted(vNil)
	l := a.call(st, n, by, List{Items: []Value{Join(items, beyond), Join(items, beyond)}})
	if slices.ContainsFunc(a.facts.Random[random:], func(u Use) bool { return u.Name == "math.random" }) {
		a.misuse(n, "the comparison of table.sort may answer differently each time, on which Lua loses elements of the list; give each element a number that decides before the list is sorted")
	}
	if !st.dead {
		answers := st.clone()
		misuses, callees := a.facts.Misuses, maps.Clone(a.callees)
		a.call(answers, n, by, List{Items: []Value{beyond, items}})
		a.facts.Misuses, a.callees = misuses, callees // that there is an error for nil is as it should be
		if !answers.dead {
			a.change(st, list, unsure, func(t *Table) *Table {
				w := *t
				w.Items, w.Exact, w.some = slices.Clone(t.Items), false, false
				for i, item := range w.Items {
					w.Items[i] = Join(item, beyond)
				}
				if item := present(t.anyItem()); !item.Bottom() { // which then is behind the list
					w.Rest, w.Names = Join(w.Rest, Join(item, beyond)), Join(w.Names, anyIndex)
				}
				return &w
			})
		}
	}
	return l.at(0)
}
