package analyze

import (
	"slices"
	"strings"
)

// held reports whether an equality of two values proves a held guard. One value is then the lock's value, and
// the other is the caller's token.
func (a *analyzer) held(left, right Value) bool {
	g := a.script.Guard
	if g == nil || g.Fenced || left.Bottom() || right.Bottom() {
		return false
	}
	lock := Read{Source: Source{Command: "get", Key: g.Key}}
	token := Arg{Index: g.Arg}
	for _, k := range left.kinds {
		for _, l := range right.kinds {
			if mayEqual(k, l) && !(k == Kind(lock) && l == Kind(token)) && !(k == Kind(token) && l == Kind(lock)) {
				return false
			}
		}
	}
	return true
}

// callersFence reports whether a value is the caller's fence, as a number.
func (a *analyzer) callersFence(v Value) bool {
	g := a.script.Guard
	k, one := v.only()
	arg, isArg := k.(Arg)
	return g != nil && g.Fenced && one && isArg && arg.Index == g.Arg && arg.Number
}

// fenceReadings reports whether a value is the stored fence, as a number. If no fence is stored, a constant
// or the caller's fence may stand in.
func (a *analyzer) fenceReadings(v Value) bool {
	if g := a.script.Guard; g == nil || !g.Fenced {
		return false
	}
	read := false
	for _, k := range v.kinds {
		switch k := k.(type) {
		case Read:
			if !k.Number || !a.fence(k.Source) {
				return false
			}
			read = true
		case Num:
			if !a.fence(k.Default) {
				return false
			}
		case Arg:
			if !k.Number || !a.fence(k.Default) {
				return false
			}
		case Nil, Absent, Missing: // its comparison raises an error
		default:
			return false
		}
	}
	return read
}

// standsIn reports whether a stand-in for a missing fence may be as large as the caller's fence. The caller's
// own fence is equal to itself, and a constant may be larger. The bindings refuse fences that are not above
// 0.
func standsIn(k Kind) bool {
	if n, ok := k.(Num); ok {
		return n.F > 0
	}
	_, own := k.(Arg)
	return own
}

// fence reports whether a reading is a reading of the fence.
func (a *analyzer) fence(s Source) bool { return a.source != Source{} && s == a.source }

// candidate notes that the script compares the caller's fence with a reading. If there is one such reading,
// the fence is stored there.
func (a *analyzer) candidate(callers, read Value) {
	if !a.callersFence(callers) {
		return
	}
	for _, k := range read.kinds {
		if r, ok := k.(Read); ok && r.Number && r.Key == a.script.Guard.Key &&
			(r.Command == "get" || r.Command == "hget") {
			a.facts.Fences[r.Source] = true
		}
	}
}

// advance returns the progress of the script after a write.
func (a *analyzer) advance(before Progress, names []string, words []Word) Progress {
	g := a.script.Guard
	if g == nil || !g.Fenced || before == Unchecked {
		return before
	}
	stores, keeps := len(names) > 0, len(names) > 0
	for _, name := range names {
		s, k := a.storesFence(strings.ToLower(name), words)
		stores, keeps = stores && s, keeps && k
	}
	switch {
	case stores:
		return Stored
	case before == Stored && keeps:
		return Stored
	}
	return Wrote
}

// storesFence reports whether a write stores the caller's fence in the place of comparison. It also reports
// whether the write keeps the stored fence.
func (a *analyzer) storesFence(name string, words []Word) (stores, keeps bool) {
	g := a.script.Guard
	touches := false
	for _, w := range words[1:] {
		touches = touches || w.mayBe(func(k Kind) bool {
			key, isKey := k.(Key)
			return isKey && (key.Index == g.Key || key.Index == 0) || isUnknown(k)
		})
	}
	if !touches {
		return false, !slices.Contains([]string{"flushall", "flushdb", "swapdb"}, name)
	}
	if len(words) < 3 || !is(words[1], Key{g.Key}) {
		return false, false
	}
	source := a.source
	fence := func(w Word) bool {
		only, one := w.only()
		arg, isArg := only.(Arg)
		return one && isArg && !w.Open && arg.Index == g.Arg
	}
	switch {
	case name == "set" && source.Command == "get":
		return fence(words[2]) && len(words) == 3, false
	case (name == "hset" || name == "hmset") && source.Command == "hget":
		keeps = true
		for i := 2; i < len(words); i += 2 {
			field, constant := words[i].Str()
			switch {
			case words[i].Open || !constant || i+1 < len(words) && words[i+1].Open:
				return false, false // it may be the field of the fence
			case field != source.Field:
			case i+1 < len(words) && fence(words[i+1]):
				stores = true
			default:
				stores, keeps = false, false
			}
		}
		return stores, keeps
	case slices.Contains([]string{"hincrby", "hincrbyfloat", "hsetnx", "hdel"}, name) &&
		source.Command == "hget":
		for i, w := range words[2:] {
			field, constant := w.Str()
			if (i == 0 || name == "hdel") && (w.Open || !constant || field == source.Field) {
				return false, false
			}
		}
		return false, true
	case name == "persist":
		return false, true
	}
	return false, false
}

// is reports whether a word is certainly one kind.
func is(w Word, k Kind) bool {
	only, one := w.only()
	return one && !w.Open && only == k
}
