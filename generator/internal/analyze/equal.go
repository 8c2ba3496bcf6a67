package analyze

import "strings"

// compare reports whether two values may be equal, and whether they may differ.
func compare(v, w Value) (equal, differ bool) {
	for _, k := range v.kinds {
		for _, l := range w.kinds {
			e := mayEqual(k, l)
			equal = equal || e
			differ = differ || !e || !sameValue(k, l)
		}
	}
	return equal, differ
}

// sameValue reports whether two kinds are certainly one and the same value.
func sameValue(k, l Kind) bool {
	switch k := k.(type) {
	case Nil, Absent:
		return TypeOf(l) == "nil"
	case Bool:
		return TypeOf(l) == "boolean" && k.V == truthy(l)
	case Missing:
		return TypeOf(k) == TypeOf(l) && !truthy(l)
	case Str, Empty:
		s, _ := constantText(k)
		t, ok := constantText(l)
		return ok && s == t
	case Num:
		n, ok := l.(Num)
		return ok && n.F == k.F
	case Builtin: // each call of string.gmatch makes another function
		return k == l && !strings.HasPrefix(k.Name, "gmatch.")
	case Command:
		return k == l
	}
	return false
}

func constantText(k Kind) (string, bool) {
	switch k := k.(type) {
	case Str:
		return k.S, true
	case Empty:
		return "", true
	}
	return "", false
}

// TypeOf returns the result of Lua's type() for a kind; empty: several are possible.
func TypeOf(k Kind) string {
	switch k := k.(type) {
	case Nil, Absent:
		return "nil"
	case Missing:
		if k.Nil {
			return "nil"
		}
		return "boolean"
	case Bool:
		return "boolean"
	case Str, Empty, Text, Key:
		return "string"
	case Num, Number:
		return "number"
	case Arg:
		if k.Number {
			return "number"
		}
		return "string"
	case Read:
		if k.Number {
			return "number"
		}
		return "string"
	case Command, Closure:
		return "function"
	case Builtin:
		if _, library := members[k.Name]; library {
			return "table"
		}
		if k.Name == "cjson.null" {
			return "userdata"
		}
		return "function"
	case Ref:
		return "table"
	}
	return ""
}

// mayEqual reports whether a value of one kind may equal a value of the other.
func mayEqual(k, l Kind) bool {
	s, t := TypeOf(k), TypeOf(l)
	if s == "" || t == "" {
		return true
	}
	if s != t {
		return false
	}
	switch s {
	case "nil":
		return true
	case "boolean":
		return truthy(k) == truthy(l)
	case "table", "function", "userdata":
		return k == l || s == "table" && isRef(k) && isRef(l) && k == l
	}
	if a, ok := constantText(k); ok {
		if b, ok := constantText(l); ok {
			return a == b
		}
	}
	if a, ok := k.(Num); ok {
		if b, ok := l.(Num); ok {
			return a.F == b.F
		}
	}
	return true
}

func isRef(k Kind) bool { _, is := k.(Ref); return is }

// meet returns the more precise of two equal kinds.
func meet(k, l Kind) Kind {
	switch l := l.(type) {
	case Str:
		switch k.(type) {
		case Str, Empty:
		default:
			return Str{S: l.S}
		}
	case Num:
		n, counted := k.(Number)
		// -0 is equal to 0, but has another text.
		if _, ok := k.(Num); !ok && (l.F != 0 || counted && n.Class == Binary) {
			return Num{F: l.F}
		}
	case Key:
		switch k.(type) {
		case Text, Arg, Read:
			return l
		}
	}
	return k
}

// mayMeet reports whether two values may be equal. It also looks at their declared types.
func (a *analyzer) mayMeet(v, w Value) bool {
	return v.mayBe(func(k Kind) bool {
		return w.mayBe(func(l Kind) bool { return mayEqual(k, l) && !a.never(k, l) && !a.never(l, k) })
	})
}

// never reports whether a declared or answered kind cannot be the constant.
func (a *analyzer) never(k, l Kind) bool {
	if n, ok := l.(Num); ok && TypeOf(k) == "number" {
		q, _ := a.quantity(k)
		return !q.known &&
			(q.class == Binary && n.F != 0 && n.F != 1 || q.class == Integer && classOf(n.F) == Fraction)
	}
	text, isText := constantText(l)
	if !isText {
		return false
	}
	switch k := k.(type) {
	case Key:
		return text == ""
	case Arg:
		t, known := a.declared(k.Index)
		return known && !k.Number && !t.Sends(text)
	}
	return false
}
