package analyze

import "slices"

// cellOf returns the cell of a local that several functions use.
func (a *analyzer) cellOf(v *variable) cell {
	e := a.run.env
	for e != nil && e.fn != v.owner {
		e = e.outer
	}
	return cell{v, e}
}

func (a *analyzer) read(st *state, v *variable) Value {
	if v.captured {
		return st.cells[a.cellOf(v)].Value
	}
	return st.frame[v.slot]
}

// declare begins the life of a local.
func (a *analyzer) declare(st *state, v *variable, value Value) {
	a.overwrite(st, v)
	if !v.captured {
		st.frame[v.slot] = value
		return
	}
	at := a.cellOf(v)
	if before, again := st.cells[at]; again || a.run.recursive {
		st.cells[at] = held{Join(before.Value, value), true}
		return
	}
	st.cells[at] = held{value, false}
}

// overwrite forgets the number of a local.
func (a *analyzer) overwrite(st *state, v *variable) {
	at := place{run: a.run, slot: v.slot}
	if v.captured {
		at = place{cell: a.cellOf(v)}
	}
	st.forgetCounts(at)
}

func (a *analyzer) write(st *state, v *variable, value Value) {
	a.overwrite(st, v)
	if !v.captured {
		st.frame[v.slot] = value
		return
	}
	at := a.cellOf(v)
	before := st.cells[at]
	if before.many {
		value = Join(before.Value, value)
	}
	st.cells[at] = held{value, before.many}
}

// alloc makes a table. If some value still has an earlier table of the same site, the site stands for both
// tables.
func (a *analyzer) alloc(st *state, node any, part int, t *Table) Value {
	at := a.site(node, a.run.env.context, part)
	if old := st.heap[at]; old != nil && (a.run.recursive || old.many || a.reachable(st, at)) ||
		a.run.recursive {
		j := t
		if old != nil {
			j = joinTables(old, t)
		}
		many := *j
		many.many = true
		t = &many
	}
	st.heap[at] = t
	st.resized(at)
	return Of(Ref{at})
}

// reachable reports whether a local or a table may hold the table of a site.
func (a *analyzer) reachable(st *state, at *site) bool {
	seen := map[*site]bool{}
	var in func(Value) bool
	in = func(v Value) bool {
		for _, k := range v.kinds {
			if n, ok := k.(Number); ok && n.Within == at {
				return true
			}
			r, ok := k.(Ref)
			if !ok || seen[r.site] {
				continue
			}
			if r.site == at {
				return true
			}
			seen[r.site] = true
			if t := st.heap[r.site]; t != nil && (in(t.everything()) || in(t.Names) || in(t.Meta)) {
				return true
			}
		}
		return false
	}
	for _, h := range st.cells {
		if in(h.Value) {
			return true
		}
	}
	if slices.ContainsFunc(st.frame, in) || in(a.keys) || in(a.args) {
		return true
	}
	for r := a.run; r != nil; r = r.outer {
		if in(r.varargs.all()) || r.caller != nil && slices.ContainsFunc(r.caller.frame, in) ||
			r.result != nil && in(r.result.all()) {
			return true
		}
	}
	return false
}
