package analyze

import (
	"maps"
	"math"
	"slices"

	"github.com/yuin/gopher-lua/ast"
)

// place is where a number is: in a slot of a running function, or in a local that several functions use.
type place struct {
	run  *run
	slot int
	cell cell
}

// count pairs a number with a list. A state knows by how much the number is larger than the length of the
// list. If it is larger by 1, list[n] is the place behind the last element.
type count struct {
	place
	site *site
}

// farthest is the largest known difference.
const farthest = 8

// hidden returns a place of the running function that no local has. A loop keeps its own counter there, and a
// value waits there for its assignment.
func (a *analyzer) hidden(n int) place { return place{run: a.run, slot: -1 - n} }

// placeOf returns the place of a local; false: the local may stand for several.
func (a *analyzer) placeOf(st *state, v *variable) (place, bool) {
	if !v.captured {
		return place{run: a.run, slot: v.slot}, true
	}
	at := a.cellOf(v)
	return place{cell: at}, !st.cells[at].many
}

// gapless reports whether the length of the table is a definite number at every time.
func (t *Table) gapless() bool { return t != nil && !t.many && t.Gap == (Gap{}) }

// exactly returns the length, if it is a constant.
func (t *Table) exactly() (int, bool) {
	if !t.gapless() || !t.Exact || mayIndex(t.Names, false) {
		return 0, false
	}
	return len(t.Items), true
}

// beyond returns by how much a count is larger than the length of its list. The state has noted the
// difference, or both are constants.
func (s *state) beyond(c count) (int, bool) {
	if d, noted := s.lengths[c]; noted {
		return d, true
	}
	n, known := s.number(c.place)
	if !known {
		return 0, false
	}
	length, known := s.heap[c.site].exactly()
	return n - length, known
}

func (s *state) number(at place) (int, bool) {
	var v Value
	switch {
	case at.cell != cell{}:
		if h := s.cells[at.cell]; !h.many {
			v = h.Value
		}
	case at.run == s.run && 0 <= at.slot && at.slot < len(s.frame):
		v = s.frame[at.slot]
	}
	return whole(v)
}

func whole(v Value) (int, bool) {
	f, known := v.Num()
	return int(f), known && f == math.Trunc(f) && math.Abs(f) < 1e9
}

// joinLengths returns what both states know. The caller must not have changed the locals of either state.
func joinLengths(s, t *state) map[count]int {
	joined := map[count]int{}
	both := func(c count) {
		d, known := s.beyond(c)
		e, also := t.beyond(c)
		if known && also && d == e {
			joined[c] = d
		}
	}
	for c := range s.lengths {
		both(c)
	}
	for c := range t.lengths {
		both(c)
	}
	// Two different constants may differ by as much as the lengths of the lists do.
	constants := func(at place) {
		n, known := s.number(at)
		m, also := t.number(at)
		if !known || !also || n == m {
			return
		}
		for site, table := range s.heap {
			if other := t.heap[site]; other != nil && other != table {
				both(count{at, site})
			}
		}
	}
	if s.run == t.run && len(s.frame) == len(t.frame) {
		for slot := range s.frame {
			constants(place{run: s.run, slot: slot})
		}
	}
	for at := range s.cells {
		constants(place{cell: at})
	}
	return joined
}

// note replaces the knowledge about the number at a place.
func (s *state) note(at place, differences map[*site]int) {
	s.forgetCounts(at)
	for site, d := range differences {
		if -farthest <= d && d <= farthest {
			s.lengths[count{at, site}] = d
		}
	}
}

func (s *state) forgetCounts(at place) {
	maps.DeleteFunc(s.lengths, func(c count, _ int) bool { return c.place == at })
}

// forgetRun forgets the numbers of an ended function.
func (s *state) forgetRun(r *run) {
	maps.DeleteFunc(s.lengths, func(c count, _ int) bool { return c.run == r })
	s.run = nil
}

// noted returns what the state notes about the number at a place.
func (s *state) noted(at place) map[*site]int {
	var found map[*site]int
	for c, d := range s.lengths {
		if c.place == at {
			if found == nil {
				found = map[*site]int{}
			}
			found[c.site] = d
		}
	}
	return found
}

// grown notes that the list is longer by a known number.
func (s *state) grown(at *site, by int) {
	for c, d := range s.lengths {
		switch {
		case c.site != at:
		case d-by < -farthest:
			delete(s.lengths, c)
		default:
			s.lengths[c] = d - by
		}
	}
}

// resized notes that the list may have any other length.
func (s *state) resized(at *site) {
	maps.DeleteFunc(s.lengths, func(c count, _ int) bool { return c.site == at })
}

// unsure is an unknown growth.
const unsure = math.MinInt

// replace replaces a table by another. by is the number of additional elements, or unsure. An entry of KEYS
// or ARGV may be at another place from then on.
func (s *state) replace(at *site, t *Table, by int) {
	before, known := s.heap[at].exactly()
	if t.sent {
		u := *t
		u.sent, t = false, &u
	}
	s.heap[at] = t
	after, also := t.exactly()
	switch {
	case known && also:
		s.grown(at, after-before)
	case by == unsure || !t.gapless():
		s.resized(at)
	default:
		s.grown(at, by)
	}
}

// grows returns by how much a list grows if the script stores v behind its last element.
func grows(v Value) int {
	if v.mayBe(mayVanish) || v.mayBe(isUnknown) {
		return unsure
	}
	return 1
}

// differences returns the differences between a number and the lengths of lists. The analysis must have
// followed the expression directly before.
func (a *analyzer) differences(st *state, e ast.Expr) map[*site]int {
	switch n := e.(type) {
	case *ast.IdentExpr:
		if v := a.names.uses[n]; v != nil {
			if at, one := a.placeOf(st, v); one {
				return st.noted(at)
			}
		}
	case *ast.UnaryLenOpExpr:
		list, known := a.peek(st, n.Expr)
		k, one := list.only()
		if ref, isTable := k.(Ref); known && one && isTable && st.heap[ref.site].gapless() {
			return map[*site]int{ref.site: 0}
		}
	case *ast.ArithmeticOpExpr:
		by, known := a.constantOf(st, n.Rhs)
		switch {
		case n.Operator == "+" && known:
			return shifted(a.differences(st, n.Lhs), by)
		case n.Operator == "-" && known:
			return shifted(a.differences(st, n.Lhs), -by)
		case n.Operator == "+":
			if by, known = a.constantOf(st, n.Lhs); known {
				return shifted(a.differences(st, n.Rhs), by)
			}
		}
	}
	return nil
}

func (a *analyzer) constantOf(st *state, e ast.Expr) (int, bool) {
	v, _ := a.peek(st, e)
	return whole(v)
}

func shifted(differences map[*site]int, by int) map[*site]int {
	moved := make(map[*site]int, len(differences))
	for at, d := range differences {
		moved[at] = d + by
	}
	return moved
}

// loopCounters is the first hidden place for loops.
const loopCounters = 1000

// counted is list for values of an assignment. The knowledge about each number waits in a hidden place for
// the assignment.
func (a *analyzer) counted(st *state, exprs []ast.Expr) List {
	return a.listOf(st, exprs, func(i int) { st.note(a.hidden(2*i), a.differences(st, exprs[i])) })
}

func (a *analyzer) forgetHidden(st *state, n int) {
	maps.DeleteFunc(st.lengths, func(c count, _ int) bool {
		return c.run == a.run && -2*n <= c.slot &&
			c.slot < 0
	})
}

// startCount notes a loop's own counter, if it starts with a constant.
func (s *state) startCount(at place, first Value) {
	n, known := whole(first)
	if !known {
		return
	}
	for site, t := range s.heap {
		if length, exact := t.exactly(); exact && t.Origin == Made && len(t.Fields) == 0 && -farthest <= n-length &&
			n-length <= farthest {
			s.lengths[count{at, site}] = n - length
		}
	}
}

// copyCount notes that a local has the number of a hidden place, plus a constant.
func (a *analyzer) copyCount(st *state, v *variable, hidden place, plus int) {
	if at, one := a.placeOf(st, v); one {
		st.note(at, shifted(st.noted(hidden), plus))
	}
}

func (s *state) advanceCount(counter place, by int, known bool) {
	if !known {
		s.forgetCounts(counter)
		return
	}
	s.note(counter, shifted(s.noted(counter), by))
}

// isElement reports whether list[index] is certainly not behind the end of the list. The analysis must have
// followed the expression directly before.
func (a *analyzer) isElement(st *state, n *ast.AttrGetExpr, list, index Value) bool {
	k, one := list.only()
	ref, isTable := k.(Ref)
	if !one || !isTable || !st.heap[ref.site].gapless() || !st.heap[ref.site].Meta.Bottom() {
		return false
	}
	beyond, known := a.differences(st, n.Key)[ref.site]
	return a.inside(st, ref.site, beyond, known, index)
}

// inside reports whether an index is an element of a list. beyond is by how much the index is larger than the
// length.
func (a *analyzer) inside(st *state, at *site, beyond int, known bool, index Value) bool {
	return known && (beyond == 0 && st.heap[at].holds() || beyond <= 0 && index.All(fromOne))
}

func fromOne(k Kind) bool { n, ok := k.(Number); return ok && n.Within != nil && n.Least > 0 }

// notBeyond notes that a number is not above a limit. If the limit is the length of a list, and the number is
// at least 1, the number is an index of the list. A number is at least 1 if it is behind the end of some
// list.
func (a *analyzer) notBeyond(st *state, number, limit ast.Expr) {
	name, isName := number.(*ast.IdentExpr)
	length, isLength := limit.(*ast.UnaryLenOpExpr)
	if !isName || !isLength || a.names.uses[name] == nil {
		return
	}
	at, one := a.placeOf(st, a.names.uses[name])
	list, known := a.peek(st, length.Expr)
	k, single := list.only()
	ref, isTable := k.(Ref)
	if !one || !known || !single || !isTable || !st.heap[ref.site].gapless() {
		return
	}
	v := a.read(st, a.names.uses[name])
	if _, exact := st.heap[ref.site].exactly(); exact ||
		v.mayBe(func(k Kind) bool { n, ok := k.(Num); return ok && n.F < 1 }) {
		return
	}
	behind := v.All(func(k Kind) bool { _, ok := k.(Num); return ok }) && st.heap[ref.site].Origin == Made
	for _, beyond := range st.noted(at) {
		behind = behind || beyond >= 1
	}
	if behind {
		st.startCount(at, v)
		a.become(st, number, func(v Value) Value { return withinList(v, ref.site) })
	}
}

// above notes that a number is above another, or equal to it. If the number is at least 1, and not above the
// length of a list, it is an index of the list.
func (a *analyzer) above(st *state, number, other ast.Expr, limit Value, orEqual bool) {
	if least, known := limit.Num(); !known || !a.callFree(other) || least < 0 || orEqual && least <= 0 {
		return
	}
	a.filled(st, number)
}

// notZero notes that a number differs from another, which may be 0.
func (a *analyzer) notZero(st *state, number, other ast.Expr, v Value) {
	if f, known := v.Num(); known && f == 0 && a.callFree(other) {
		a.filled(st, number)
	}
}

// filled notes that the length of a list is not 0. The expression is the length, or a local with the length.
func (a *analyzer) filled(st *state, number ast.Expr) {
	switch e := number.(type) {
	case *ast.UnaryLenOpExpr:
		list, known := a.peek(st, e.Expr)
		k, one := list.only()
		if ref, isTable := k.(Ref); known && one && isTable && st.heap[ref.site].gapless() {
			u := *st.heap[ref.site]
			u.some = true
			st.heap[ref.site] = &u
		}
	case *ast.IdentExpr:
		a.become(st, e, func(v Value) Value {
			return v.mapped(func(k Kind) Value {
				if n, ok := k.(Number); ok && n.Within != nil && n.Least >= 0 {
					n.Least = max(n.Least, 1)
					return Of(n)
				}
				return Of(k)
			})
		})
	}
}

// mayShrink reports whether the expressions may have made one of the lists shorter.
func (a *analyzer) mayShrink(st *state, lists Value, exprs []ast.Expr) bool {
	shrunk := lists.mayBe(func(k Kind) bool {
		r, ok := k.(Ref)
		return ok && st.heap[r.site] != nil && st.heap[r.site].shrunk
	})
	return shrunk && slices.ContainsFunc(exprs, func(e ast.Expr) bool { return !a.calm(e) })
}

// calm reports whether an expression changes no table.
func (a *analyzer) calm(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.FuncCallExpr:
		return a.callees[e].All(func(k Kind) bool { _, is := k.(Command); return is }) &&
			!slices.ContainsFunc(e.Args, func(arg ast.Expr) bool { return !a.calm(arg) })
	case *ast.AttrGetExpr:
		return a.callFree(e)
	case *ast.IdentExpr, *ast.FunctionExpr, *ast.Comma3Expr, ast.ConstExpr:
		return true
	}
	return false
}
