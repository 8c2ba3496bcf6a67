package check

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/rlock-go/toolkit/generator/internal/analyze"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// misfit is a part of a reply that does not fit the declared type.
type misfit struct {
	what  string // what the script returns
	want  string // the declared type
	mend  string
	field string // the declared name of the part; empty: all of it
	full  string // the whole message, if it has another form
	item  int    // the place of the part in the reply; 0: all of it
}

// fitter compares values with declared types.
type fitter struct {
	script   *script.Script
	heap     analyze.Heap
	version3 bool
	depth    int
}

// failure reports whether a kind is an error reply. Every script may answer an error.
func (f fitter) failure(k analyze.Kind) bool {
	switch k := k.(type) {
	case analyze.Ref:
		return isError(f.heap.Table(k).Fields["err"])
	case analyze.Raised:
		return !k.Script
	}
	return false
}

func isString(k analyze.Kind) bool { return analyze.TypeOf(k) == "string" }

// isError reports whether Redis turns {err = v} into an error. If pcall answered v, the checker trusts that
// the call failed.
func isError(v analyze.Value) bool {
	return v.All(isString) ||
		v.MayBe(func(k analyze.Kind) bool { r, ok := k.(analyze.Raised); return ok && !r.Raw })
}

// half returns what is wrong with a table that is an error or a status in some runs only. Redis takes the
// fields err and ok for an error and a status only if they are strings.
func (f fitter) half(k analyze.Kind, t script.Type) *misfit {
	r, ok := k.(analyze.Ref)
	if !ok {
		return nil
	}
	for _, name := range []string{"err", "ok"} {
		v := f.heap.Table(r).Fields[name]
		if v.All(isString) || name == "err" && isError(v) ||
			!v.MayBe(func(k analyze.Kind) bool { return analyze.TypeOf(k) != "nil" }) {
			continue
		}
		mend := map[string]string{"err": "return redis.error_reply(tostring(…)), or an error of redis.pcall as " +
			"it is", "ok": "return redis.status_reply(tostring(…))"}[name]
		return &misfit{what: "a table is returned whose " + name +
			" may be no string, so that Redis makes an empty list of it", want: t.String(), mend: mend}
	}
	return nil
}

func (f fitter) onlyErrors(v analyze.Value) bool {
	return len(v.Kinds()) > 0 && !v.MayBe(func(k analyze.Kind) bool { return !f.failure(k) })
}

// none describes the answer of a script that is declared to answer nothing.
func (f fitter) none(v analyze.Value) string {
	for _, k := range v.Kinds() {
		switch k := k.(type) {
		case analyze.Nil, analyze.Absent:
			continue
		case analyze.Missing, analyze.Bool:
			if isFalse(k) && !f.keptFalse(k) {
				continue
			}
		}
		if !f.failure(k) {
			return "a value"
		}
	}
	return ""
}

func (f fitter) ok(v analyze.Value) string {
	for _, k := range v.Kinds() {
		if s, isText := k.(analyze.Str); f.failure(k) || f.statusOK(k) || f.trusted(k) || isText && s.S == "OK" {
			continue
		}
		if f.trustedValue(v) && f.partOfData(k) {
			continue
		}
		return f.describe(k) + " may be returned"
	}
	return ""
}

func (f fitter) status(k analyze.Kind) bool {
	r, ok := k.(analyze.Ref)
	if !ok {
		return false
	}
	return f.heap.Table(r).Fields["ok"].All(isString)
}

// statusOK reports whether a kind is the status OK, and no other.
func (f fitter) statusOK(k analyze.Kind) bool {
	r, ok := k.(analyze.Ref)
	return ok && f.heap.Table(r).Fields["ok"].All(
		func(k analyze.Kind) bool { s, is := k.(analyze.Str); return is && s.S == "OK" })
}

// trusted reports whether a kind is the answer of a command that the header waives.
func (f fitter) trusted(k analyze.Kind) bool {
	r, ok := k.(analyze.Ref)
	return ok && f.heap.Table(r).Origin == analyze.Waived
}

func (f fitter) trustedValue(v analyze.Value) bool { return v.MayBe(f.trusted) }

// describe names a part of a reply.
func (f fitter) describe(k analyze.Kind) string {
	switch k := k.(type) {
	case analyze.Ref:
		switch t := f.heap.Table(k); {
		case t.Origin == analyze.Decoded:
			return "what " + t.What + " gives, of whatever type,"
		case t.Origin == analyze.Foreign:
			return "what " + t.What + " answers, whose shape is not known here,"
		case f.status(k):
			return "a status"
		case len(t.Fields) > 0:
			return "a table with named fields, which Redis drops,"
		}
	case analyze.Str, analyze.Num, analyze.Bool, analyze.Missing, analyze.Nil, analyze.Absent:
	case analyze.Number:
		if k.Class == analyze.Fraction {
			return "a number that may have a fraction"
		}
	case analyze.Arg:
		if class, _, _ := analyze.Quantity(f.script, k); k.Number && class == analyze.Any {
			return "a text of the caller's as a number, which may have a fraction,"
		}
	case analyze.Text:
		switch k.Class {
		case analyze.Wording, analyze.Label:
			return "a text that is no number"
		case analyze.Built, analyze.Digits:
			return "a text that the script has made"
		case analyze.JSON:
			return "JSON"
		}
	}
	return analyze.Describe(k)
}

// fits returns the first part of a value that does not fit a type; nil: the value fits.
func (f fitter) fits(v analyze.Value, t script.Type) *misfit {
	if t.Base == script.RawType || len(v.Kinds()) == 0 {
		return nil
	}
	if f.depth++; f.depth > 20 {
		return &misfit{full: "what is returned is nested too deeply, or is part of itself; return a table of its " +
			"own"}
	}
	if u, top := v.Top(); top {
		if u.Found {
			return nil
		}
		return &misfit{what: fmt.Sprintf("what is returned is not known (%s: %s)", f.script.Line(u.Pos), u.Why),
			want: t.String(), mend: "make sure of it with tostring(…) or tonumber(…), or declare raw"}
	}
	given := f.given(v, t)
	for _, k := range v.Kinds() {
		if r, ok := k.(analyze.Ref); ok && !given {
			if table := f.heap.Table(r); table.Origin == analyze.Decoded || table.Origin == analyze.Foreign {
				return f.wrong(k, t, "make sure of it: tostring(…) for a string or a float, cjson.encode(…) for json, a "+
					"table of your own for a list; or declare raw")
			}
		}
	}
	for _, k := range v.Kinds() {
		if f.failure(k) {
			if f.depth == 1 {
				continue
			}
			return &misfit{what: "an error inside a table may be returned", want: t.String(),
				mend: "the call then fails, and the rest of the reply is lost; return the error alone, " +
					"as in if type(v) == 'table' and v.err then return v end, or declare raw here"}
		}
		if given && f.partOfData(k) {
			continue
		}
		if m := f.kindFits(k, t); m != nil {
			return m
		}
	}
	return nil
}

// given reports whether the checker trusts that a value has the declared type, because the generator cannot
// know it. Such a value is the answer of a command that the header waives, or one value of a decoded text.
func (f fitter) given(v analyze.Value, t script.Type) bool {
	return v.MayBe(func(k analyze.Kind) bool {
		r, ok := k.(analyze.Ref)
		if !ok {
			return false
		}
		switch f.heap.Table(r).Origin {
		case analyze.Waived:
			return true
		case analyze.Decoded:
			return t.Kind == script.Scalar && t.Base != "float" && t.Base != "json"
		}
		return false
	})
}

// partOfData reports whether a kind may be a part of a value that given trusts.
func (f fitter) partOfData(k analyze.Kind) bool {
	switch k := k.(type) {
	case analyze.Ref:
		origin := f.heap.Table(k).Origin
		return origin == analyze.Waived || origin == analyze.Decoded || f.status(k)
	case analyze.Text:
		return k.Class == analyze.Any
	case analyze.Number:
		return k.Class == analyze.Any
	case analyze.Bool:
		return true
	case analyze.Missing:
		return k.Malformed || k == analyze.Missing{}
	case analyze.Builtin:
		return k.Name == "cjson.null"
	}
	return false
}

func (f fitter) wrong(k analyze.Kind, t script.Type, mend string) *misfit {
	return &misfit{what: f.describe(k) + " is returned", want: t.String(), mend: mend}
}

func (f fitter) kindFits(k analyze.Kind, t script.Type) *misfit {
	switch analyze.TypeOf(k) {
	case "nil":
		return f.nilFits(k, t)
	case "boolean":
		if isFalse(k) {
			return f.nilFits(k, t)
		}
	}
	if m := f.half(k, t); m != nil {
		return m
	}
	if raised, ok := k.(analyze.Raised); ok && raised.Script {
		return &misfit{what: "what pcall answers for an error, which may be a text, is returned", want: t.String(),
			mend: "return redis.error_reply(…)"}
	}
	switch t.Kind {
	case script.List:
		return f.listFits(k, t)
	case script.Map:
		return f.mapFits(k, t)
	case script.Struct:
		return f.structFits(k, t)
	}
	if r, ok := k.(analyze.Ref); ok {
		return f.tableFitsScalar(r, t)
	}
	return f.scalarFits(k, t)
}

func isFalse(k analyze.Kind) bool {
	switch k := k.(type) {
	case analyze.Bool:
		return !k.V
	case analyze.Missing:
		return true
	}
	return false
}

// keptFalse reports whether a kind is a false that does not arrive as nil. After redis.setresp(3), false is a
// boolean. A client that speaks version 2 gets 0.
func (f fitter) keptFalse(k analyze.Kind) bool {
	return f.version3 && analyze.TypeOf(k) == "boolean" && isFalse(k)
}

func (f fitter) nilFits(k analyze.Kind, t script.Type) *misfit {
	isBool := t.Kind == script.Scalar && t.Base == "bool"
	if t.Optional && !isBool && f.keptFalse(k) {
		return &misfit{what: "false may be returned after redis.setresp(3), and a client that speaks " +
			"version 2 gets 0 for it", want: t.String(),
			mend: "call redis.setresp(2) before the return, or return nil"}
	}
	if t.Optional || isBool {
		return nil
	}
	if m, ok := k.(analyze.Missing); ok && m.Malformed && t.Kind == script.Scalar {
		return nil // the checker trusts that a stored value is what the header says
	}
	optional := t
	optional.Optional = true
	instead := "or a value that stands for it"
	switch {
	case t.Kind != script.Scalar:
		instead = "or {}"
	case t.Base == "string" || t.Base == "bytes":
		instead = "or ''"
	case t.Base == "int" || t.Base == "duration":
		instead = "or 0"
	case t.Base == "float":
		instead = "or '0'"
	}
	what := analyze.Describe(k)
	if m, ok := k.(analyze.Missing); ok {
		what += ", where there is nothing"
		if m.Nil {
			what = "nil, where there is no number"
		}
		what += ","
	}
	return &misfit{what: what + " may be returned, which arrives as nil", want: t.String(),
		mend: fmt.Sprintf("declare %s, or return … %s", optional, instead)}
}

func (f fitter) scalarFits(k analyze.Kind, t script.Type) *misfit {
	if _, ok := k.(analyze.Bool); ok { // it is true
		if t.Base == "bool" {
			return nil
		}
		if t.Base == "int" {
			return f.wrong(k, t, "true arrives as 1; return 1, or declare bool")
		}
		return f.wrong(k, t, "true arrives as 1; declare bool")
	}
	class, unit, _ := analyze.Quantity(f.script, k)
	switch analyze.TypeOf(k) {
	case "number":
		return f.numberFits(k, t, class, unit)
	case "string", "":
		return f.textFits(k, t, class, unit)
	}
	return f.wrong(k, t, "return a value of that type")
}

var units = map[string]analyze.Unit{"duration": analyze.Milliseconds, "time": analyze.UnixMilliseconds}

// keepUnit says how to keep the unit of times and durations.
const keepUnit = "count with + and -, multiply or divide by 1000 in a step of its own, make no text of it, " +
	"and take now - now % 60 for the start of a minute"

// unitFits checks the unit of a number where the header declares a duration or a time.
func (f fitter) unitFits(k analyze.Kind, t script.Type, unit analyze.Unit) *misfit {
	want, counted := units[t.Base]
	if !counted || unit == analyze.None || unit == want {
		return nil
	}
	mend := "declare int, or return " + want.String()
	switch {
	case unit == analyze.Lost:
		return &misfit{what: analyze.Describe(k) + " is returned that was made of a time or a duration, in a way " +
			"that may change what it counts", want: t.String() + ", which is " + want.String(), mend: keepUnit}
	case unit == analyze.Seconds && want == analyze.Milliseconds,
		unit == analyze.UnixSeconds && want == analyze.UnixMilliseconds:
		mend = "return milliseconds: * 1000, or PTTL in place of TTL and PEXPIRETIME in place of EXPIRETIME"
	case want == analyze.Milliseconds && unit == analyze.UnixMilliseconds:
		mend = "declare time, or return the difference to another instant"
	case want == analyze.UnixMilliseconds && unit == analyze.Milliseconds:
		mend = "declare duration, or add it to an instant"
	}
	return &misfit{what: analyze.Describe(k) + " of " + unit.String() + " is returned",
		want: t.String() + ", which is " + want.String(), mend: mend}
}

func (f fitter) numberFits(k analyze.Kind, t script.Type, class analyze.Class, unit analyze.Unit) *misfit {
	switch t.Base {
	case "int", "duration", "time":
		if n, known := k.(analyze.Num); known && math.Abs(n.F) >= 1<<63 {
			return f.wrong(k, t, "it is too large for an integer, and Redis makes another number of it; return a "+
				"smaller one, or declare string and return string.format('%.0f', …)")
		}
		if _, isArg := k.(analyze.Arg); class == analyze.Fraction || isArg && class == analyze.Any {
			return f.wrong(k, t, "Redis cuts the fraction off a returned number; return math.floor(…), or declare "+
				"float and return tostring(…)")
		}
		return f.unitFits(k, t, unit)
	case "bool":
		if n, ok := k.(analyze.Num); class == analyze.Binary || ok && (n.F == 0 || n.F == 1) {
			return nil
		}
		return f.wrong(k, t, "it may be other than 0 and 1; return … > 0, or declare int")
	case "float":
		return f.wrong(k, t, "Redis cuts the fraction off a returned number; return a string, such as that of "+
			"tostring")
	case "json":
		return f.wrong(k, t, "return cjson.encode(…)")
	}
	return f.wrong(k, t, "return tostring(…), or declare int")
}

func (f fitter) textFits(k analyze.Kind, t script.Type, class analyze.Class, unit analyze.Unit) *misfit {
	s, constant := k.(analyze.Str)
	_, empty := k.(analyze.Empty)
	text, _ := k.(analyze.Text)
	if (empty || constant && s.S == "") && t.Optional && (t.Base == "duration" || t.Base == "time") {
		return nil // an empty text decodes as absent
	}
	worded := text.Class == analyze.Wording || text.Class == analyze.Label
	arg, isArg := k.(analyze.Arg)
	base := ""
	if isArg {
		declared, _ := analyze.ArgType(f.script, arg.Index)
		base = declared.Base
	}
	if _, isKey := k.(analyze.Key); isKey {
		base = script.KeyType
	}
	anyText := slices.Contains([]string{"string", "bytes", script.KeyType, script.ChannelType, script.EnumType},
		base)
	if (text.Class == analyze.Built || text.Class == analyze.Digits) && t.Base != "string" && t.Base != "bytes" {
		mend := map[string]string{"json": "return cjson.encode(…)",
			"bool":  "return true or false, such as … == '1'",
			"float": "return tostring(tonumber(…) or 0)"}[t.Base]
		if mend == "" {
			mend = "return tonumber(…) or 0"
		}
		return f.wrong(k, t, mend)
	}
	here := base // how the header may declare it in a reply
	if anyText && base != "bytes" {
		here = "string"
	}
	switch t.Base {
	case "string", "bytes":
		return nil
	case "int", "duration", "time":
		_, err := strconv.ParseInt(s.S, 10, 64)
		switch {
		case text.Class == analyze.Written:
			return f.wrong(k, t, "as a text it has an exponent from 1e14 on; return the number itself, or "+
				"string.format('%.0f', …)")
		case constant && err != nil, worded, empty, text.Class == analyze.JSON,
			!constant && class == analyze.Fraction && (isArg || text.Class == analyze.Fraction):
			return f.wrong(k, t, "return a whole number, or declare another type")
		case anyText || base == "json":
			return f.wrong(k, t, fmt.Sprintf("it is declared %s; return tonumber(…), or declare %s here", base, here))
		}
		return f.unitFits(k, t, unit)
	case "float":
		_, err := strconv.ParseFloat(s.S, 64)
		if constant && err != nil || worded || empty || text.Class == analyze.JSON {
			return f.wrong(k, t, "return a number as a string, such as that of tostring")
		}
		if anyText || base == "json" || base == "bool" {
			return f.wrong(k, t, fmt.Sprintf("it is declared %s; return tostring(tonumber(…)), or declare %s here",
				base, here))
		}
	case "bool":
		switch {
		case constant && slices.Contains([]string{"0", "1", "OK"}, s.S), base == "bool",
			text.Class == analyze.Binary:
			return nil
		case isRead(k) && !constant:
			return nil // a stored bool
		}
		return f.wrong(k, t, "return true or false, such as … == '1'")
	case "json":
		switch {
		case constant && !json.Valid([]byte(s.S)), worded, empty, text.Undefined:
			return f.wrong(k, t, "return cjson.encode(…)")
		case anyText:
			return f.wrong(k, t, "return cjson.encode(…)")
		}
	}
	return nil
}

func isRead(k analyze.Kind) bool {
	switch k := k.(type) {
	case analyze.Read:
		return true
	case analyze.Text:
		return k.Class == analyze.Any
	}
	return false
}
