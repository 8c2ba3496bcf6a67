package analyze

import (
	"math"

	"github.com/yuin/gopher-lua/ast"
)

// mostSpare is the largest known distance between a number and the length of a list.
const mostSpare = 4

// index returns a number with known limits. The number is at least least, and at least spare below the length
// of a list. If least is negative, no lower limit is known. Least 0 with Spare 0 stands for the length
// itself, so index never returns both.
func (n Number) index(least, spare int) Number {
	if least < 0 || least == 0 && spare == 0 {
		least = -1
	}
	n.Least, n.Spare = min(least, mostEntries), min(spare, mostSpare)
	return n
}

// isLengthOf reports whether a number is the length that a list had when the script asked for it.
func (n Number) isLengthOf(at *site) bool { return n.Within == at && n.Least == 0 && n.Spare == 0 }

// indexed returns the result of a calculation, with the list whose index it is.
func (a *analyzer) indexed(st *state, n ast.Expr, operator string, k, l Kind, result Value) Value {
	only, _ := result.only()
	sum, ok := only.(Number)
	if !ok || sum.Unit != None {
		return result
	}
	if operator == "+" && isIndex(l) {
		k, l = l, k
	}
	index, ok := k.(Number)
	by, constant := whole(Of(l))
	if !ok || index.Within == nil || index.Class != Integer {
		return result
	}
	sum.Within = index.Within
	other, isNumber := l.(Number)
	switch {
	case operator == "+" && constant && 0 < by && by <= index.Spare:
		if index.Least < 0 {
			by, index.Least = 0, -1
		}
		return Of(sum.index(index.Least+by, index.Spare-by))
	case operator == "-" && constant && by > 0:
		return Of(sum.index(index.Least-by, index.Spare+by))
	case operator == "-" && isNumber && other.Within == index.Within && fromOne(other) && other.Class == Integer:
		binary, _ := n.(*ast.ArithmeticOpExpr)
		if beyond, known := a.differences(st, binary.Lhs)[index.Within]; known && beyond == 0 {
			return Of(sum.index(other.Spare, other.Least))
		}
	case operator == "/" && constant && by >= 1 && index.Least >= 0:
		return Of(sum.index(-1, index.Spare))
	}
	return result
}

func isIndex(k Kind) bool { n, ok := k.(Number); return ok && n.Within != nil }

// indexOf is indexed for a function of math.
func indexOf(name string, args List, result Value) Value {
	only, _ := result.only()
	answer, ok := only.(Number)
	if !ok || args.Open || len(args.Items) == 0 || answer.Unit != None {
		return result
	}
	last, _ := args.at(len(args.Items) - 1).only()
	limit, ok := last.(Number)
	if !ok || limit.Within == nil {
		return result
	}
	answer.Within = limit.Within
	switch {
	case name == "floor" && len(args.Items) == 1:
		return Of(answer.index(-1, limit.Spare))
	case name == "random" && limit.Class == Integer && len(args.Items) <= 2:
		least := 1
		if len(args.Items) == 2 {
			f, known := args.at(0).Num()
			if !known || f < 1 || f != math.Trunc(f) {
				return result
			}
			least = int(f)
		}
		return Of(answer.index(least, limit.Spare))
	}
	return result
}

// counter is the number of a loop that goes up to an index of a list, or down from one.
func (a *analyzer) counter(n Number, init, limit, step Value) Number {
	by, known := step.Num()
	from, to := init, limit
	if known && by < 0 {
		from, to = limit, init
	}
	least, certain := from.Num()
	only, _ := to.only()
	bound, ok := only.(Number)
	if !known || by == 0 || !certain || least < 1 || !ok || bound.Within == nil {
		return n
	}
	n.Within = bound.Within
	return n.index(int(least), bound.Spare)
}

// walks notes that a local has each name of a table in turn, because pairs gives it the names.
func (a *analyzer) walks(v *variable, next, over Value) {
	f, _ := next.only()
	k, one := over.only()
	ref, isTable := k.(Ref)
	at := ref.site
	walked := f == Kind(Builtin{"pairs.next"}) || f == Kind(Builtin{"next"})
	if !one || !isTable || !walked || v.assigned || v.captured {
		at = nil
	}
	if known, again := a.named[v]; again && known != at {
		at = nil
	}
	a.named[v] = at
}

// isName reports whether the script reads a table by a name that the table has. The script never took an
// element out of the table.
func (a *analyzer) isName(st *state, n *ast.AttrGetExpr, object Value) bool {
	name, ok := n.Key.(*ast.IdentExpr)
	k, one := object.only()
	ref, isTable := k.(Ref)
	if !ok || !one || !isTable {
		return false
	}
	t := st.heap[ref.site]
	if t == nil || ref.site != a.named[a.names.uses[name]] {
		return false
	}
	return t.Origin == Made && !t.many && !t.shrunk && t.Meta.Bottom()
}
