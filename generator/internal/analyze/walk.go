package analyze

import (
	"fmt"
	"math"
	"slices"

	"github.com/yuin/gopher-lua/ast"
)

// next follows a step of pairs.
func (a *analyzer) next(st *state, n ast.Expr, x Value) List {
	l := List{Items: []Value{vNil, {}}}
	for _, k := range x.kinds {
		switch k := k.(type) {
		case Ref:
			t := st.heap[k.site]
			if t == nil {
				continue
			}
			index := t.Names.filter(func(k Kind) bool { n, is := k.(Number); return !is || n.Class == Fraction })
			if len(t.Items) > 0 || mayIndex(t.Names, false) {
				index = Join(index, anyIndex)
			}
			for name := range t.Fields {
				index = Join(index, Of(Str{S: name}))
			}
			l.Items[0], l.Items[1] = Join(l.Items[0], index), Join(l.Items[1], present(t.everything()))
		case Builtin:
			for _, name := range members[k.Name] {
				l.Items[0] = Join(l.Items[0], Of(Str{S: name}))
				l.Items[1] = Join(l.Items[1], present(builtin(k.Name, name)))
			}
		case Raised:
			if k.Raw {
				l.Items[0], l.Items[1] = Join(l.Items[0], Of(Text{Class: Label})),
					Join(l.Items[1], present(rawError.everything()))
			}
		case Unknown:
			l.Items[0], l.Items[1] = Join(l.Items[0], Of(k)), Join(l.Items[1], Of(k))
		}
	}
	if l.Items[1].Bottom() {
		l.Items[0], l.Items[1] = vNil, vNil
	}
	return l
}

// mayBeEmpty reports whether the table may be empty.
func (t *Table) mayBeEmpty() bool {
	if t == nil {
		return false
	}
	certain := func(v Value) bool { return !v.Bottom() && present(v).equal(v) && !v.mayBe(isUnknown) }
	if slices.ContainsFunc(t.Items, certain) {
		return false
	}
	for _, v := range t.Fields {
		if certain(v) {
			return false
		}
	}
	return true
}

// nextItem follows a step of ipairs.
func (a *analyzer) nextItem(st *state, x Value) List {
	var item Value
	index := vNil
	for _, k := range x.kinds {
		switch k := k.(type) {
		case Ref:
			if t := st.heap[k.site]; t != nil { // ipairs of Lua 5.1 ignores metatables
				item = Join(item, present(t.anyItem()))
				if n := (Number{Class: Integer}); t.gapless() {
					n.Within, n.Least = k.site, 1
					index = Join(index, Of(n))
				} else {
					index = Join(index, Of(n))
				}
			}
		case Unknown:
			item, index = Join(item, Of(k)), Join(index, anyIndex)
		}
	}
	if item.Bottom() {
		return List{Items: []Value{vNil, vNil}}
	}
	return List{Items: []Value{index, item}}
}

// iterate follows a step of for … in.
func (a *analyzer) iterate(st *state, n *ast.GenericForStmt, next, over, control Value) List {
	if f, one := next.only(); one && (f == Kind(Builtin{"next"}) || f == Kind(Builtin{"pairs.next"})) {
		return a.next(st, n.Exprs[0], over) // a step after the last item has no value either
	} else if one && f == Kind(Builtin{"ipairs.next"}) {
		return a.nextItem(st, over)
	}
	l := a.call(st, n.Exprs[0], next, List{Items: []Value{over, control}})
	if l.live != nil { // otherwise the loop ends
		live := *l.live
		live.Items = slices.Clone(live.Items)
		if len(live.Items) > 0 && !live.Open {
			return live
		}
	}
	return l
}

// unpack follows unpack(list, from, to).
func (a *analyzer) unpack(st *state, n ast.Expr, args List) List {
	x, from, to := args.at(0), args.at(1), args.at(2)
	if many := a.unpacked(n, from, to); many > mostUnpacked {
		a.misuse(n, fmt.Sprintf("unpack is asked for %d values at once here, and fails above %d; take fewer, as "+
			"in unpack(list, i, math.min(i + 999, #list))", many, mostUnpacked))
	}
	if first, known := from.Num(); known && first > 1 {
		a.useAll(x)
	} else {
		a.useWhole(n, x)
	}
	var all *List
	for _, k := range x.kinds {
		var l List
		switch k := k.(type) {
		case Ref:
			t := st.heap[k.site]
			if t == nil {
				continue
			}
			if t.Gap != (Gap{}) && (to.mayBe(falsy) || to.mayBe(isLength)) {
				a.misuse(n, "a gap or a nil inside an unpacked list may end it there: "+t.Gap.Why(a.script))
			}
			if last, bounded := whole(to); bounded { // each of KEYS and ARGV is an entry by its number
				first, _ := whole(from)
				for i := max(first, 1); i <= min(last, first+mostItems); i++ {
					a.useEntries(n, st, Of(k), Of(Num{F: float64(i)}))
				}
			}
			l = t.slice(from, to)
		case Unknown:
			l = List{Rest: Of(k), Open: true}
		case Builtin:
			if members[k.Name] == nil {
				continue // raises an error at run time
			}
			l = (&Table{Exact: true}).slice(from, to) // a library has no elements
		case Raised:
			if !k.Raw {
				continue // raises an error at run time
			}
			l = rawError.slice(from, to)
		default:
			continue // raises an error at run time
		}
		all = joinLists(all, &l)
	}
	if all == nil {
		st.dead = !x.Bottom()
		return List{}
	}
	return *all
}

// isLength reports whether a number may come from the length of a list.
func isLength(k Kind) bool { n, ok := k.(Number); return ok && n.Within != nil }

func (t *Table) slice(from, to Value) List {
	first, known := from.Num()
	if from.equal(vNil) {
		first, known = 1, true
	}
	last, bounded := to.Num()
	behind := absent
	if t.Gap != (Gap{}) {
		behind = vNil
	}
	switch {
	// The servers cut the number to an int.
	case !known || first < 1 || first != math.Trunc(first) || first > math.MaxInt32:
		return List{Rest: Join(t.Elements(), vNil), Open: true}
	case bounded && last-first < mostItems:
		var l List
		for i := first; i <= last; i++ {
			l.Items = append(l.Items, t.item(i))
		}
		return l
	case !to.equal(vNil):
		return List{Rest: Join(t.Elements(), behind), Open: true}
	}
	var l List
	for i := int(first); i <= len(t.Items); i++ {
		if i > t.sure() { // the list may end here
			l.Rest, l.Open = Join(l.Rest, t.Items[i-1]), true
			l.cut = l.cut || t.Items[i-1].mayBe(Vanishes) && (i < len(t.Items) || mayIndex(t.Names, false))
			continue
		}
		l.Items = append(l.Items, t.Items[i-1])
	}
	if mayIndex(t.Names, false) {
		l.Rest, l.Open = Join(l.Rest, t.Rest), true
		if t.Pairs != nil && t.sure() == len(t.Items) && int(first) <= len(t.Items)+1 {
			shift := len(t.Items) % 2 // of the first place after the items
			l.Pairs = &[2]Value{t.Pairs[shift], t.Pairs[1-shift]}
		}
	}
	if l.Open && t.Gap != (Gap{}) {
		l.Rest = Join(l.Rest, vNil)
	}
	return l
}

// length follows #v.
func (a *analyzer) length(st *state, v Value) Value {
	a.useAll(v)
	a.emptyCompared(v, Of(Str{}))
	result := v.each(func(k Kind) Value { return a.lengthOf(st, k) })
	if result.Bottom() && !v.Bottom() {
		st.dead = true
	}
	return result
}

func (a *analyzer) lengthOf(st *state, k Kind) Value {
	switch k := k.(type) {
	case Ref:
		if t := st.heap[k.site]; t != nil && t.Exact && !mayIndex(t.Names, false) {
			return Of(Num{F: float64(len(t.Items))})
		}
		return Of(Number{Class: Integer, Within: k.site})
	case Str:
		return Of(Num{F: float64(len(k.S))})
	case Empty:
		return Of(Num{})
	case Text, Key, Arg, Read, Raised, Unknown:
		return Of(Number{Class: Integer})
	case Builtin:
		if members[k.Name] != nil { // a library is a table without elements
			return Of(Number{Class: Integer})
		}
	}
	return Value{}
}

// mostUnpacked is the number of values that unpack always has room for on Lua's stack.
const mostUnpacked = 7900

// unpacked returns for how many values the text writes an unpack; 0: the text does not say.
func (a *analyzer) unpacked(n ast.Expr, from, to Value) int {
	if last, known := whole(to); known {
		first, known := whole(from)
		if !known && !from.equal(vNil) {
			return 0
		}
		return last - max(first, 1) + 1
	}
	call, ok := n.(*ast.FuncCallExpr)
	if !ok || call.Func == nil || len(call.Args) != 3 {
		return 0
	}
	end := call.Args[2]
	if least, ok := end.(*ast.FuncCallExpr); ok && a.callees[least].equal(Of(Builtin{"math.min"})) &&
		len(least.Args) == 2 {
		end = least.Args[0]
		if _, sum := least.Args[1].(*ast.ArithmeticOpExpr); sum {
			end = least.Args[1]
		}
	}
	sum, ok := end.(*ast.ArithmeticOpExpr)
	if !ok || sum.Operator != "+" || !a.sameExpr(sum.Lhs, call.Args[1]) {
		return 0
	}
	number, ok := sum.Rhs.(*ast.NumberExpr)
	if !ok {
		return 0
	}
	more, _ := whole(constant(number.Value))
	return more + 1
}
