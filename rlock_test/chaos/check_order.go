package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// A key is free, or has one owner, or several owners share it. The history does not tell in which
// order the server ran the operations. It tells only when each operation was called and returned.
// porcupine looks for an order that fits. The end of a lease is also an operation, at some time at
// which the lease may end.

type operation int

const (
	take      operation = iota // what the owner wants of the key was free; now the owner has it
	keep                       // the owner had the key, and keeps it
	free                       // the owner had the key, and no longer has it
	miss                       // the owner did not have the key
	refuse                     // another owner had what the owner wants of the key
	mayExpire                  // the owner loses the key, if it has the key
)

func (o operation) String() string {
	return [...]string{"take", "keep", "free", "miss", "refuse", "may expire"}[o]
}

// step is the input of an operation.
type step struct {
	operation
	owner owner
	share share
}

// holders are the owners of a key. The owners that share a key are one text, because states must be
// comparable. The text is sorted, so the order in which the owners came makes no difference.
type holders struct {
	whole   owner
	reads   bool
	permits int // in use
	sharers string
}

// name is the entry of an owner that shares a key. All entries have the same length.
func (s step) name() string {
	return fmt.Sprintf("%04d/%08d*%03d ", s.owner.process, s.owner.lock, s.share.Permits)
}

// fits reports whether the part of the key that the step wants is free.
func (s step) fits(h holders) bool {
	if s.share.whole() {
		return h == holders{}
	}
	return h.whole == owner{} && (h.sharers == "" || h.reads == (s.share.Limit == 0)) &&
		(s.share.Limit == 0 || h.permits+s.share.Permits <= s.share.Limit)
}

func (s step) has(h holders) bool {
	if s.share.whole() {
		return h.whole == s.owner
	}
	return s.at(h) >= 0
}

func (s step) at(h holders) int { return strings.Index(h.sharers, s.name()) }

func (s step) with(h holders) holders {
	if s.share.whole() {
		h.whole = s.owner
		return h
	}
	name, at := s.name(), 0
	for at < len(h.sharers) && h.sharers[at:at+len(name)] < name {
		at += len(name)
	}
	return holders{
		reads: s.share.Limit == 0, permits: h.permits + s.share.Permits,
		sharers: h.sharers[:at] + name + h.sharers[at:],
	}
}

func (s step) without(h holders) holders {
	at := s.at(h)
	if s.share.whole() || len(h.sharers) == len(s.name()) {
		return holders{}
	}
	h.sharers = h.sharers[:at] + h.sharers[at+len(s.name()):]
	h.permits -= s.share.Permits
	return h
}

var leases = porcupine.Model{
	Init: func() any { return holders{} },
	Step: func(state, input, _ any) (bool, any) {
		s, h := input.(step), state.(holders)
		switch s.operation {
		case take:
			return s.fits(h), s.with(h)
		case keep:
			return s.has(h), h
		case free:
			if !s.has(h) {
				return false, h
			}
			return true, s.without(h)
		case miss:
			return !s.has(h), h
		case refuse:
			return !s.fits(h), h
		default:
			if s.has(h) {
				return true, s.without(h)
			}
			return true, h
		}
	},
}

// orderLimit bounds the search for the order of one key's operations.
const orderLimit = 10 * time.Second

// order is what checkOrder found out about the order of operations.
type order struct {
	operations int // that the search checked
	refusals   int // of the checked operations
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
			if is := op.Input.(step).operation; is == refuse {
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
	add := func(key string, s step, call, end instant) {
		steps[key] = append(steps[key], porcupine.Operation{Input: s, Call: int64(call), Return: int64(end)})
	}
	shares := map[owner]share{}
	for key, list := range grants {
		for _, g := range list {
			shares[g.owner] = g.share
			add(key, step{take, g.owner, g.share}, g.call, g.from)
			if !g.freed {
				over := g.over
				if over >= g.from { // the lease may be over at the return, but the key is taken first
					over = max(over, g.from+1)
				}
				add(key, step{mayExpire, g.owner, g.share}, over, max(over, g.gone))
			}
		}
	}
	strangers := h.strangers()
	for _, e := range h.events {
		who, during := owner{e.Process, e.Lock}, span{e.Call, e.Return}
		has, tried := shares[who], e.Kind == acquired && len(e.Keys) == 1
		for _, key := range e.Keys {
			switch {
			case e.Outcome == done && (e.Kind == extended || e.Kind == checked):
				add(key, step{keep, who, has}, e.Call, e.Return)
			case h.freedAtOnce(e):
				add(key, step{free, who, has}, e.Call, e.Return)
			case e.Outcome == lost && len(e.Keys) == 1:
				add(key, step{miss, who, has}, e.Call, e.Return)
			case strangers.meet(key, during):
			case tried && e.Outcome == held && (e.Share.whole() || nobodyWaits(key)):
				add(key, step{refuse, who, e.Share}, e.Call, e.Return)
			}
		}
	}
	return steps
}

// nobodyWaits reports whether no acquisition waits for a key. A waiter stops callers who want a
// share later, even where the share is free.
func nobodyWaits(key string) bool {
	return slices.Contains(sharedKeys[len(sharedKeys)-1], key)
}

// explain shows the operations up to the first operation that no order explains.
func explain(list []porcupine.Operation) string {
	list = slices.SortedFunc(slices.Values(list),
		func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	n := 1 + sort.Search(len(list)-1, func(n int) bool {
		return porcupine.CheckOperationsTimeout(leases, list[:n+1], orderLimit) == porcupine.Illegal
	})
	text := ""
	for _, op := range list[max(0, n-12):n] {
		s := op.Input.(step)
		text += fmt.Sprintf("\n\t%v %v %v [%d, %d]", s.owner, s.operation, s.share, op.Call, op.Return)
	}
	return text
}
