package analyze

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// quantity is the knowledge about a kind as a number.
type quantity struct {
	class Class
	unit  Unit
	value float64
	known bool

	undefined bool // the same as in Number
}

// Quantity returns the class and the unit of a kind as a number; false: it is not a number.
func Quantity(s *script.Script, k Kind) (Class, Unit, bool) {
	q, ok := (&analyzer{script: s}).quantity(k)
	return q.class, q.unit, ok
}

// quantity reads a kind as a number. Strings are numbers too, as in arithmetic.
func (a *analyzer) quantity(k Kind) (quantity, bool) {
	switch k := k.(type) {
	case Num:
		return quantity{class: classOf(k.F), value: k.F, known: true}, true
	case Number:
		return quantity{class: k.Class, unit: k.Unit, undefined: k.Undefined}, true
	case Text:
		// The digits may be so many that the number is infinite.
		return quantity{class: numeric(k.Class), unit: k.Unit, undefined: k.Undefined || k.Class == Digits}, true
	case Str:
		if f, err := strconv.ParseFloat(strings.TrimSpace(k.S), 64); err == nil && decimal.MatchString(k.S) &&
			!math.IsInf(f, 0) {
			if f == 0 && math.Signbit(f) { // its text is -0
				return quantity{class: Integer}, true
			}
			return quantity{class: classOf(f), value: f, known: true}, true
		}
		return quantity{class: Any}, !words.MatchString(k.S)
	case Arg:
		class, unit := a.argClass(k.Index)
		return quantity{class: class, unit: unit}, true
	case Read, Key, Raised, Unknown:
		return quantity{class: Any}, true
	}
	return quantity{}, false
}

// operandOf reads a kind as arithmetic and tonumber do. A text from the caller or from the script may have a
// fraction. The analysis trusts that a stored text has none.
func (a *analyzer) operandOf(k Kind) (quantity, bool) {
	q, ok := a.quantity(k)
	if ok && !q.known && q.class == Any {
		switch k := k.(type) {
		case Arg, Str, Key:
			q.class, q.undefined = Fraction, true
		case Text:
			if k.Class == Built {
				q.class, q.undefined = Fraction, true
			}
		}
	}
	return q, ok
}

var (
	decimal = regexp.MustCompile(`^[ \t\n]*[-+]?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?[ \t\n]*$`)
	// No number in C starts like these words: not hex, inf or nan.
	words = regexp.MustCompile(`^([G-HJ-MO-Zg-hj-mo-z_:].*)?$`)
)

// numeric returns the class of the number in a text of a class.
func numeric(c Class) Class {
	switch c {
	case Binary, Integer, Decimal, Fraction:
		return c
	case Written, Digits:
		return Integer
	}
	return Any
}

// argClass returns the class and the unit of an argument as a number.
func (a *analyzer) argClass(index int) (Class, Unit) {
	t, _ := a.declared(index)
	switch t.Base {
	case "int":
		return Integer, None
	case "bool":
		return Binary, None
	case "duration":
		return Integer, Milliseconds
	case "time":
		return Integer, UnixMilliseconds
	case "float":
		return Fraction, None
	}
	return Any, None
}

var arithmeticEvents = map[string]string{"+": "__add", "-": "__sub", "*": "__mul", "/": "__div", "%": "__mod",
	"^": "__pow"}

func (a *analyzer) arithmetic(st *state, n ast.Expr, operator string, left, right Value) Value {
	_, unary := n.(*ast.UnaryMinusOpExpr)
	var v Value
	if unary {
		v = a.event(st, n, "__unm", right)
	} else {
		v = a.event(st, n, arithmeticEvents[operator], left, right)
	}
	a.needs(n, left)
	a.needs(n, right)
	if operator == "+" || operator == "-" && !unary {
		a.test(n, Test{Operator: operator, Left: left, Right: right})
	}
	for _, k := range left.kinds {
		for _, l := range right.kinds {
			p, ok := a.operandOf(k)
			q, also := a.operandOf(l)
			if ok && also {
				if unary && q.known && q.value == 0 { // the text of the result is -0
					q = quantity{class: Integer}
				}
				v = Join(v, a.indexed(st, n, operator, k, l, calculate(operator, p, q)))
			}
		}
	}
	if v.Bottom() && !left.Bottom() && !right.Bottom() {
		st.dead = true // the operation raises an error
	}
	return v
}

func calculate(operator string, p, q quantity) Value {
	if p.known && q.known {
		var f float64
		switch operator {
		case "+":
			f = p.value + q.value
		case "-":
			f = p.value - q.value
		case "*":
			f = p.value * q.value
		case "/":
			f = p.value / q.value
		case "%":
			f = p.value - math.Floor(p.value/q.value)*q.value
		case "^":
			f = math.Pow(p.value, q.value)
		}
		switch {
		// C may round differently.
		case (operator == "%" || operator == "^") && !(isExact(p.value) && isExact(q.value) && isExact(f)):
			p.known = false
			return calculate(operator, p, q)
		case f == 0 && math.Signbit(f): // its text is -0
			return Of(Number{Class: Integer})
		case !math.IsNaN(f) && !math.IsInf(f, 0):
			return Of(Num{F: f})
		}
		return Of(Number{Class: Fraction, Undefined: true})
	}
	class := Any
	switch {
	case operator == "/" || p.class == Fraction || q.class == Fraction,
		operator == "^" && !(q.known && q.value >= 0): // such as 2 ^ -1
		class = Fraction
	case operator == "-" && p.known && p.value == 1 && q.class == Binary,
		operator == "*" && p.class == Binary && q.class == Binary:
		class = Binary
	case isWhole(p.class) && isWhole(q.class):
		class = Integer
	}
	divides := (operator == "/" || operator == "%") && !(q.known && q.value != 0)
	return Of(Number{Class: class, Unit: unitOf(operator, p, q),
		Undefined: p.undefined || q.undefined || divides || operator == "^"})
}

// isExact reports whether a number is whole, and so small that its neighbours are exact too.
func isExact(f float64) bool { return f == math.Trunc(f) && math.Abs(f) <= 1<<53 }

// needs notes that arithmetic uses an optional argument.
func (a *analyzer) needs(n ast.Expr, v Value) {
	for _, k := range v.kinds {
		index := 0
		switch k := k.(type) {
		case Empty:
			index = k.Index
		case Missing:
			if k.Of.Command == "argv" {
				index = k.Of.Key
			}
		}
		if index > 0 {
			a.facts.Needed[a.script.Pos(n)] = index
		}
	}
}

func isWhole(c Class) bool { return c == Integer || c == Binary }

// Span returns the unit of the difference of two times. For any other unit it returns the same unit.
func (u Unit) Span() Unit { return cmp.Or(spanOf[u], u) }

// spanOf is the unit of the difference of two times.
var spanOf = map[Unit]Unit{UnixMilliseconds: Milliseconds, UnixSeconds: Seconds,
	UnixMicroseconds: Microseconds}

// Instant reports whether the unit is the unit of a time.
func (u Unit) Instant() bool { return spanOf[u] != None }

// finer maps a unit to the unit that is a thousand times smaller.
var finer = map[Unit]Unit{Seconds: Milliseconds, UnixSeconds: UnixMilliseconds, Milliseconds: Microseconds,
	UnixMilliseconds: UnixMicroseconds}

// unitOf returns the unit of the result of an operation.
func unitOf(operator string, p, q quantity) Unit {
	// A number without a unit may be a stored time, unless it is a constant.
	open := func(q quantity) bool { return q.unit == None && !q.known }
	span := func(q quantity) bool { return q.unit != None && q.unit != Lost && !q.unit.Instant() }
	switch operator {
	case "+":
		if open(p) && span(q) || span(p) && open(q) {
			return None
		}
		return sumOf(p.unit, q.unit)
	case "-":
		if open(p) && span(q) || p.unit.Instant() && open(q) {
			return None
		}
		return differenceOf(p.unit, q.unit)
	case "*":
		if p.known {
			p, q = q, p
		}
		if q.known && q.value != 0 {
			return scaled(p.unit, q.value)
		}
	case "/":
		if q.known && q.value != 0 {
			return scaled(p.unit, 1/q.value)
		}
	case "%":
		return cmp.Or(spanOf[p.unit], p.unit)
	case "^":
		if p.unit != None || q.unit != None {
			return Lost
		}
	}
	if p.unit == Lost || q.unit == Lost {
		return Lost
	}
	return None
}

func sumOf(p, q Unit) Unit {
	switch {
	case p == Lost || q == Lost:
		return Lost
	case p == None:
		return q
	case q == None || spanOf[p] == q:
		return p
	case spanOf[q] == p:
		return q
	case p == q && spanOf[p] == None:
		return p
	}
	return None
}

func differenceOf(p, q Unit) Unit {
	switch {
	case p == Lost || q == Lost:
		return Lost
	case q == None || spanOf[p] == q:
		return p
	case p == None && spanOf[q] == None:
		return q
	case p == q && spanOf[p] != None:
		return spanOf[p]
	case p == q:
		return p
	}
	return None
}

// larger are the factors between seconds, minutes, hours and days. After a multiplication or a division by
// one of them, a number most likely has another unit.
var larger = []float64{24, 60}

// scaled returns the unit of a number after a multiplication by a constant.
func scaled(u Unit, by float64) Unit {
	about := func(f float64) bool { return math.Abs(by-f) < f*1e-9 }
	coarser := func(u Unit) Unit {
		for from, to := range finer {
			if to == u {
				return from
			}
		}
		return None
	}
	to := None
	switch {
	case u == None:
		return None
	case about(1000):
		to = finer[u]
	case about(1e6):
		to = finer[finer[u]]
	case about(0.001):
		to = coarser(u)
	case about(1e-6):
		to = coarser(coarser(u))
	case by > 0.0011 && by < 1000 && !u.Instant() &&
		!slices.ContainsFunc(larger, func(f float64) bool { return about(f) || about(1/f) }):
		to = u
	}
	return cmp.Or(to, Lost)
}

// operate notes that two operands raised no error. It must not run if a metatable may have answered in
// place of the error, because any operand is then possible.
func (a *analyzer) operate(st *state, left, right ast.Expr) {
	if a.steady(left, right) {
		a.narrow(st, left, operand)
	}
	if a.steady(right, left) {
		a.narrow(st, right, operand)
	}
}

// operand reports whether a kind can be an operand. Any other kind raises an error.
func operand(k Kind) bool {
	switch TypeOf(k) {
	case "nil", "boolean", "function":
		return false
	}
	return true
}

func (a *analyzer) concat(st *state, n *ast.StringConcatOpExpr) Value {
	left, right := a.expr(st, n.Lhs), a.expr(st, n.Rhs)
	var v Value
	if did := a.during(func() { v = a.event(st, n, "__concat", left, right) }); !did.eventful {
		a.operate(st, n.Lhs, n.Rhs)
	}
	a.cutShort(n, left)
	a.cutShort(n, right)
	for _, k := range left.kinds {
		for _, l := range right.kinds {
			v = Join(v, a.concatKinds(k, l))
		}
	}
	if v.Bottom() && !left.Bottom() && !right.Bottom() {
		st.dead = true // the operation raises an error
	}
	return v
}

// cutShort finds a time in microseconds that becomes a text. The time has 16 digits, and Lua writes 14.
func (a *analyzer) cutShort(n ast.Expr, v Value) {
	if v.mayBe(func(k Kind) bool { number, is := k.(Number); return is && number.Unit == UnixMicroseconds }) {
		a.misuse(n, "the text of a time in microseconds has an exponent, and not all of its digits; write "+
			"string.format('%.0f', …)")
	}
}

func (a *analyzer) concatKinds(k, l Kind) Value {
	s, sKnown := plainText(k)
	t, tKnown := plainText(l)
	switch {
	case sKnown && tKnown:
		if len(s)+len(t) > 200 {
			return Of(Text{Class: Built, Code: startsWith(k)})
		}
		return Of(Str{S: s + t})
	case !canConcat(k) || !canConcat(l):
		return Value{}
	case sKnown && s == "":
		return a.asText(l)
	case tKnown && t == "":
		return a.asText(k)
	case wording(k):
		return Of(Text{Class: Wording, Start: a.start(k), Code: startsWith(k)})
	}
	return Of(Text{Class: Built, Start: a.start(k), Code: startsWith(k), Unit: a.rewritten(Of(k), Of(l))})
}

// rewritten returns the unit of a text that joins several parts. If a part has a unit, the unit of the text
// is Lost.
func (a *analyzer) rewritten(parts ...Value) Unit {
	for _, v := range parts {
		if v.mayBe(func(k Kind) bool { q, ok := a.quantity(k); return ok && q.unit != None }) {
			return Lost
		}
	}
	return None
}

// start returns n if a text starts with KEYS[n], and KEYS[n] has the type channels. Otherwise it returns 0.
func (a *analyzer) start(k Kind) int {
	switch k := k.(type) {
	case Text:
		return k.Start
	case Key:
		if k.Index >= 1 && k.Index <= len(a.script.Keys) &&
			a.script.Keys[k.Index-1].Type.Base == script.ChannelsType {
			return k.Index
		}
	}
	return 0
}

func canConcat(k Kind) bool {
	switch TypeOf(k) {
	case "string", "number", "":
		return true
	}
	return false
}

// plainText returns the text of a constant in a concatenation.
func plainText(k Kind) (string, bool) {
	if n, ok := k.(Num); ok {
		return numberText(n.F), plainNumber(n.F)
	}
	return constantText(k)
}

func numberText(f float64) string { return strconv.FormatFloat(f, 'g', 14, 64) }

// plainNumber reports whether the text of a number is certain.
func plainNumber(f float64) bool { return f == math.Trunc(f) && math.Abs(f) < 1e14 }

// numberStart matches the start of a number in C. The numbers of C include 0x10, inf and nan.
var numberStart = regexp.MustCompile(`^[ \t\n\v\f\r]*([-+.0-9iInN]|$)`)

// wording reports whether a text starts as no number does, so the whole text is not a number. C ignores the
// text behind a NUL.
func wording(k Kind) bool {
	switch k := k.(type) {
	case Str:
		return !numberStart.MatchString(k.S)
	case Text:
		return k.Class == Wording || k.Class == Label
	}
	return false
}

// asText is the text that tostring makes of a kind.
func (a *analyzer) asText(k Kind) Value {
	switch k := k.(type) {
	case Num:
		if !plainNumber(k.F) {
			return Of(written(classOf(k.F), None))
		}
		return Of(Str{numberText(k.F), k.Default})
	case Number:
		text := written(k.Class, k.Unit)
		text.Undefined = k.Undefined
		return Of(text)
	case Arg:
		if k.Number {
			q, _ := a.operandOf(k)
			text := written(q.class, q.unit)
			text.Undefined = q.undefined
			return Of(text)
		}
	case Read:
		if k.Number {
			return Of(Text{Class: Any})
		}
	case Nil, Absent:
		return Of(Str{S: "nil"})
	case Bool, Missing:
		switch {
		case TypeOf(k) == "nil":
			return Of(Str{S: "nil"})
		case truthy(k):
			return Of(Str{S: "true"})
		}
		return Of(Str{S: "false"})
	case Ref, Closure, Command, Builtin:
		return Of(Text{Class: Wording})
	case Raised:
		return Of(Text{Class: Built})
	}
	return Of(k)
}

// written is the text that tostring makes of a number. A number with a unit of time is below 1e14, except a
// time in microseconds.
func written(c Class, u Unit) Text {
	if c == Integer && (u == None || u == UnixMicroseconds || u == Lost) {
		c = Written
	}
	return Text{Class: c, Unit: u}
}
