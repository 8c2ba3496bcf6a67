package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// A key is free, or one owner's. The order in which the server ran the operations
// is not known, only the time between call and return of each; porcupine looks for
// an order that fits. A lease that ends is an operation too, of nobody's, at some
// time when it may have.

type operation int

const (
	take      operation = iota // the key was free, and is the owner's
	keep                       // the key was the owner's, and stays so
	free                       // the key was the owner's, and is free
	miss                       // the key was not the owner's
	refuse                     // the key was somebody's
	mayExpire                  // the key is free now, if it was the owner's
)

func (o operation) String() string {
	return [...]string{"take", "keep", "free", "miss", "refuse", "may expire"}[o]
}

// step is the input of an operation.
type step struct {
	operation
	owner owner
}

var leases = porcupine.Model{
	Init: func() any { return owner{} },
	Step: func(state, input, _ any) (bool, any) {
		s, has := input.(step), state.(owner)
		switch s.operation {
		case take:
			return has == owner{}, s.owner
		case keep:
			return has == s.owner, has
		case free:
			return has == s.owner, owner{}
		case miss:
			return has != s.owner, has
		case refuse:
			return has != owner{}, has
		default:
			if has == s.owner {
				return true, owner{}
			}
			return true, has
		}
	},
}

// orderLimit bounds the search for the order of one key's operations.
const orderLimit = 10 * time.Second

// order is what was found out about the order of operations.
type order struct {
	operations int // that were checked
	refusals   int // of those
	undecided  int // keys for which the search took too long
}

// checkOrder finds keys whose operations no order explains.
func (h *history) checkOrder(grants map[string][]*grant) (o order, found []violation) {
	if !h.keeps {
		return o, nil
	}
	for key, list := range h.steps(grants) {
		o.operations += len(list)
		for _, op := range list {
			if op.Input.(step).operation == refuse {
				o.refusals++
			}
		}
		switch porcupine.CheckOperationsTimeout(leases, list, orderLimit) {
		case porcupine.Unknown:
			o.undecided++
		case porcupine.Illegal:
			found = append(found, violation{"no order", key, explain(list)})
		}
	}
	return o, found
}

// steps turns the history into operations by key.
func (h *history) steps(grants map[string][]*grant) map[string][]porcupine.Operation {
	steps := map[string][]porcupine.Operation{}
	add := func(key string, o operation, who owner, call, end instant) {
		steps[key] = append(steps[key], porcupine.Operation{Input: step{o, who}, Call: int64(call), Return: int64(end)})
	}
	for key, list := range grants {
		for _, g := range list {
			add(key, take, g.owner, g.call, g.from)
			if !g.freed {
				over := max(g.over, g.from+1) // not before it is taken
				add(key, mayExpire, g.owner, over, max(over, g.gone))
			}
		}
	}
	strangers := h.strangers()
	for _, e := range h.events {
		who, during := owner{e.Process, e.Lock}, span{e.Call, e.Return}
		for _, key := range e.Keys {
			switch {
			case e.Outcome == done && (e.Kind == extended || e.Kind == checked):
				add(key, keep, who, e.Call, e.Return)
			case h.freedAtOnce(e):
				add(key, free, who, e.Call, e.Return)
			case e.Outcome == lost && len(e.Keys) == 1:
				add(key, miss, who, e.Call, e.Return)
			case e.Kind == acquired && e.Outcome == held && len(e.Keys) == 1 && !strangers.meet(key, during):
				add(key, refuse, who, e.Call, e.Return)
			}
		}
	}
	return steps
}

// explain shows the operations up to the first that no order explains.
func explain(list []porcupine.Operation) string {
	list = slices.SortedFunc(slices.Values(list), func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	n := 1 + sort.Search(len(list)-1, func(n int) bool {
		return porcupine.CheckOperationsTimeout(leases, list[:n+1], orderLimit) == porcupine.Illegal
	})
	text := ""
	for _, op := range list[max(0, n-12):n] {
		s := op.Input.(step)
		text += fmt.Sprintf("\n\t%v %v [%d, %d]", s.owner, s.operation, op.Call, op.Return)
	}
	return text
}
