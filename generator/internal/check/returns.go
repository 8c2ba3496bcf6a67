package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/analyze"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// returns holds what the script returns against the declared reply.
func (c *checker) returns() {
	before := len(c.findings)
	defer func() { c.dead = c.dead || len(c.findings) > before }()
	declared := c.script.Returns
	nilIsFine := declared.Kind == script.ReturnNone || declared.Kind == script.ReturnValue &&
		(declared.Type.Optional || declared.Type.Base == script.RawType)
	for _, r := range c.facts.Returns {
		f := fitter{script: c.script, heap: r.Heap}
		switch first := r.Values.At(0); {
		case f.onlyErrors(first):
		case len(r.Values.Items) > 1:
			c.findf(r.Pos, "%d values are returned, of which Redis answers the first; return them in a table", len(r.Values.Items))
		case len(r.Exprs) == 0 || len(r.Values.Items) == 0 && !r.Values.Open:
			if !nilIsFine {
				c.nothing(r.Pos, declared)
			}
		case declared.Kind == script.ReturnNone:
			if wrong := f.none(first); wrong != "" {
				c.findf(r.Pos, "%s is returned, but the header says returns: none", wrong)
			}
		case declared.Kind == script.ReturnOK:
			if wrong := f.ok(first); wrong != "" {
				c.findf(r.Pos, "%s, but the header says returns: ok; return redis.status_reply('OK')", wrong)
			}
		default:
			if m := f.fits(first, declared.Type); m != nil {
				c.misfit(r, m, declared)
			}
		}
	}
	if c.facts.EndReached != nil && !nilIsFine {
		c.findf(declared.Pos, "the script can end without a return, but the header says returns: %s", declared)
	}
}

func (c *checker) nothing(pos script.Pos, declared script.Returns) {
	if declared.Type.Kind == script.Struct {
		c.findf(pos, "the header declares %d values; return them in a table: {%s}", len(declared.Type.Fields), names(declared.Type.Fields))
		return
	}
	c.findf(pos, "nothing is returned, but the header says returns: %s", declared)
}

// misfit reports a reply that does not fit, at the part of the return that is meant.
func (c *checker) misfit(r *analyze.Return, m *misfit, declared script.Returns) {
	pos := r.Pos
	if table, ok := r.Exprs[0].(*ast.TableExpr); ok && m.item > 0 && m.item <= len(table.Fields) && !slices.ContainsFunc(table.Fields, func(f *ast.Field) bool { return f.Key != nil }) {
		pos = c.script.Pos(table.Fields[m.item-1].Value)
	}
	if m.full != "" {
		c.findf(pos, "%s", m.full)
		return
	}
	field := ""
	if m.field != "" {
		field = " for " + m.field
	}
	c.findf(pos, "%s%s, but the header says %s; %s", m.what, field, m.want, m.mend)
}

// misfit is a part of a reply that does not fit what is declared.
type misfit struct {
	what  string // what is returned
	want  string // the declared type of it
	mend  string
	field string // the declared name of the part; empty: all of it
	full  string // the whole message, where it is of another form
	item  int    // where the part stands in the reply; 0: all of it
}

// fitter holds values against declared types.
type fitter struct {
	script *script.Script
	heap   analyze.Heap
	depth  int
}

// failure reports whether a kind is an error reply, which every script may answer.
func (f fitter) failure(k analyze.Kind) bool {
	switch k := k.(type) {
	case analyze.Ref:
		err, named := f.heap.Table(k).Fields["err"]
		return named && err.MayBe(func(k analyze.Kind) bool { return analyze.TypeOf(k) != "nil" })
	case analyze.Raised:
		return !k.Script
	}
	return false
}

func (f fitter) onlyErrors(v analyze.Value) bool {
	return len(v.Kinds()) > 0 && !v.MayBe(func(k analyze.Kind) bool { return !f.failure(k) })
}

// none returns what a script answers that is to answer nothing.
func (f fitter) none(v analyze.Value) string {
	for _, k := range v.Kinds() {
		switch k := k.(type) {
		case analyze.Nil, analyze.Absent, analyze.Missing:
			continue
		case analyze.Bool:
			if !k.V {
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
		if s, isText := k.(analyze.Str); f.failure(k) || f.status(k) || f.trusted(k) || isText && s.S == "OK" {
			continue
		}
		if f.trustedValue(v) {
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
	_, named := f.heap.Table(r).Fields["ok"]
	return named
}

// trusted reports whether a kind is the answer of a command that the header takes the
// responsibility for.
func (f fitter) trusted(k analyze.Kind) bool {
	r, ok := k.(analyze.Ref)
	return ok && f.heap.Table(r).Origin == analyze.Waived
}

func (f fitter) trustedValue(v analyze.Value) bool { return v.MayBe(f.trusted) }

// describe tells what a part of a reply is.
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
	case analyze.Text:
		switch k.Class {
		case analyze.Wording, analyze.Label:
			return "a text that is no number"
		case analyze.JSON:
			return "JSON"
		}
	}
	return analyze.Describe(k)
}

// fits returns the first part of a value that does not fit a type; nil: it fits.
func (f fitter) fits(v analyze.Value, t script.Type) *misfit {
	if f.depth++; f.depth > 20 || t.Base == script.RawType || f.trustedValue(v) {
		return nil
	}
	if len(v.Kinds()) == 0 {
		return nil
	}
	if u, top := v.Top(); top {
		if u.Found {
			return nil
		}
		return &misfit{what: fmt.Sprintf("what is returned is not known (line %d: %s)", u.Pos.Line, u.Why), want: t.String(), mend: "make sure of it with tostring(…) or tonumber(…), or declare raw"}
	}
	for _, k := range v.Kinds() {
		if r, ok := k.(analyze.Ref); ok {
			switch table := f.heap.Table(r); {
			case table.Origin == analyze.Decoded && t.Kind == script.Scalar && t.Base != "float" && t.Base != "json":
				return nil // what is stored is trusted to be what the header says
			case table.Origin == analyze.Decoded || table.Origin == analyze.Foreign:
				return f.wrong(k, t, "make sure of it: tostring(…) for a string or a float, cjson.encode(…) for json, a table of your own for a list; or declare raw")
			}
		}
	}
	for _, k := range v.Kinds() {
		if f.failure(k) {
			continue
		}
		if m := f.kindFits(k, t); m != nil {
			return m
		}
	}
	return nil
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
	if raised, ok := k.(analyze.Raised); ok && raised.Script {
		return &misfit{what: "what pcall answers for an error, which may be a text, is returned", want: t.String(), mend: "return redis.error_reply(…)"}
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

// nilFits checks nil and false, which arrive as nil.
func (f fitter) nilFits(k analyze.Kind, t script.Type) *misfit {
	if t.Optional || t.Kind == script.Scalar && t.Base == "bool" {
		return nil
	}
	if m, ok := k.(analyze.Missing); ok && m.Malformed && (t.Base == "int" || t.Base == "float") {
		return nil // what is stored is trusted to be what the header says
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
	return &misfit{what: what + " may be returned, which arrives as nil", want: t.String(), mend: fmt.Sprintf("declare %s, or return … %s", optional, instead)}
}

// tableFitsScalar checks a table where one value is declared.
func (f fitter) tableFitsScalar(r analyze.Ref, t script.Type) *misfit {
	table := f.heap.Table(r)
	ok, isStatus := table.Fields["ok"]
	_, isDouble := table.Fields["double"]
	switch {
	case isDouble && t.Base == "float":
		return nil
	case isStatus && (t.Base == "string" || t.Base == "bytes"):
		return nil
	case isStatus && t.Base == "bool" && !ok.MayBe(func(k analyze.Kind) bool { s, is := k.(analyze.Str); return !is || s.S != "OK" }):
		return nil
	case isStatus && t.Base == "bool":
		return f.wrong(r, t, "return true or false")
	case t.Base == "json":
		return f.wrong(r, t, "return cjson.encode(…)")
	case isStatus:
		return f.wrong(r, t, "declare ok, or return a value of that type")
	case t.Base == "bool" && len(table.Items) > 0:
		return f.wrong(r, t, "return one of its values, or true or false")
	}
	return f.wrong(r, t, "return one of its values, or declare a list, a map or names")
}

func (f fitter) scalarFits(k analyze.Kind, t script.Type) *misfit {
	if _, ok := k.(analyze.Bool); ok { // true
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

// unitFits checks what a number counts where a duration or a time is declared.
func (f fitter) unitFits(k analyze.Kind, t script.Type, unit analyze.Unit) *misfit {
	want, counted := units[t.Base]
	if !counted || unit == analyze.None || unit == want {
		return nil
	}
	mend := "declare int, or return " + want.String()
	switch {
	case unit == analyze.Seconds && want == analyze.Milliseconds, unit == analyze.UnixSeconds && want == analyze.UnixMilliseconds:
		mend = "return milliseconds: * 1000, or PTTL in place of TTL and PEXPIRETIME in place of EXPIRETIME"
	case want == analyze.Milliseconds && unit == analyze.UnixMilliseconds:
		mend = "declare time, or return the difference to another instant"
	case want == analyze.UnixMilliseconds && unit == analyze.Milliseconds:
		mend = "declare duration, or add it to an instant"
	}
	return &misfit{what: analyze.Describe(k) + " of " + unit.String() + " is returned", want: t.String() + ", which is " + want.String(), mend: mend}
}

func (f fitter) numberFits(k analyze.Kind, t script.Type, class analyze.Class, unit analyze.Unit) *misfit {
	switch t.Base {
	case "int", "duration", "time":
		if class == analyze.Fraction {
			return f.wrong(k, t, "Redis cuts the fraction off a returned number; return math.floor(…), or declare float and return tostring(…)")
		}
		return f.unitFits(k, t, unit)
	case "bool":
		if n, ok := k.(analyze.Num); class == analyze.Binary || ok && (n.F == 0 || n.F == 1) {
			return nil
		}
		return f.wrong(k, t, "it may be other than 0 and 1; return … > 0, or declare int")
	case "float":
		return f.wrong(k, t, "Redis cuts the fraction off a returned number; return a string, as of tostring")
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
		return nil // it decodes as absent
	}
	worded := text.Class == analyze.Wording || text.Class == analyze.Label
	arg, isArg := k.(analyze.Arg)
	base := ""
	if isArg {
		declared, _ := analyze.ArgType(f.script, arg.Index)
		base = declared.Base
	}
	switch t.Base {
	case "string", "bytes":
		return nil
	case "int", "duration", "time":
		_, err := strconv.ParseInt(s.S, 10, 64)
		switch {
		case constant && err != nil, worded, empty, text.Class == analyze.JSON, !constant && class == analyze.Fraction && (isArg || text.Class == analyze.Fraction):
			return f.wrong(k, t, "return a whole number, or declare another type")
		case isArg && slices.Contains([]string{"string", "bytes", "json", script.ChannelType, script.EnumType}, base):
			return f.wrong(k, t, fmt.Sprintf("it is declared %s; return tonumber(…), or declare %[1]s here as well", base))
		}
		return f.unitFits(k, t, unit)
	case "float":
		_, err := strconv.ParseFloat(s.S, 64)
		if constant && err != nil || worded || empty || text.Class == analyze.JSON {
			return f.wrong(k, t, "return a number as a string, as of tostring")
		}
		if isArg && slices.Contains([]string{"string", "bytes", "json", "bool", script.ChannelType, script.EnumType}, base) {
			return f.wrong(k, t, fmt.Sprintf("it is declared %s; return tostring(tonumber(…)), or declare %[1]s here as well", base))
		}
	case "bool":
		switch {
		case constant && slices.Contains([]string{"0", "1", "OK"}, s.S), base == "bool", text.Class == analyze.Binary:
			return nil
		case isRead(k) && !constant:
			return nil // a stored bool
		}
		return f.wrong(k, t, "return true or false, as of … == '1'")
	case "json":
		switch {
		case constant && !json.Valid([]byte(s.S)), worded, empty:
			return f.wrong(k, t, "return cjson.encode(…)")
		case isArg && slices.Contains([]string{"string", "bytes", script.ChannelType, script.EnumType}, base):
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

// named reports whether a table has fields with names, which Redis drops.
func named(t *analyze.Table) bool {
	for _, field := range t.Fields {
		if field.MayBe(func(k analyze.Kind) bool { return analyze.TypeOf(k) != "nil" }) {
			return true
		}
	}
	return t.Names.MayBe(func(k analyze.Kind) bool { s := analyze.TypeOf(k); return s == "string" || s == "" })
}

const nilInside = "a nil inside a returned table cuts the reply short; use false, which arrives as nil and keeps its place"

// stored reports whether a value is part of what a text was decoded to.
func (f fitter) stored(v analyze.Value) bool {
	return v.MayBe(func(k analyze.Kind) bool {
		r, ok := k.(analyze.Ref)
		return ok && f.heap.Table(r).Origin == analyze.Decoded
	})
}

// items checks what a table holds, one after the other. Where the length counts, an item
// may not be behind the end of the list that it was taken from.
func (f fitter) items(t *analyze.Table, counted bool, check func(i int, v analyze.Value) *misfit) *misfit {
	for i, item := range t.Items {
		if !f.stored(item) && item.MayBe(func(k analyze.Kind) bool {
			return k == analyze.Kind(analyze.Nil{}) || counted && k == analyze.Kind(analyze.Absent{})
		}) {
			return &misfit{full: nilInside, item: i + 1}
		}
		v := item.Without(analyze.Absent{})
		if m := check(i, v); m != nil {
			if m.item = i + 1; m.field == "" {
				m.field = fmt.Sprintf("position %d", i+1)
			}
			return m
		}
	}
	return nil
}

func (f fitter) listFits(k analyze.Kind, t script.Type) *misfit {
	r, ok := k.(analyze.Ref)
	if !ok {
		return f.wrong(k, t, "return a table, as {…}")
	}
	table := f.heap.Table(r)
	if inner, isSet := table.Fields["set"]; isSet {
		return f.setFits(inner, t)
	}
	if f.status(k) || named(table) {
		return f.wrong(k, t, "return the values by the indices 1, 2, 3, or declare a map")
	}
	if t.Elem.Kind == script.Struct && !everything(table).MayBe(isTable) {
		return f.flatFits(k, table, t)
	}
	if m := f.items(table, false, func(_ int, v analyze.Value) *misfit { return f.fits(v, *t.Elem) }); m != nil {
		return m
	}
	if m := f.fits(table.Rest, *t.Elem); m != nil {
		m.field = "an element"
		return m
	}
	return nil
}

func isTable(k analyze.Kind) bool { _, is := k.(analyze.Ref); return is }

func everything(t *analyze.Table) analyze.Value {
	v := t.Rest
	for _, item := range t.Items {
		v = analyze.Join(v, item)
	}
	return v
}

// flatFits checks a list of structs whose values stand in turn, as WITHSCORES answers.
func (f fitter) flatFits(k analyze.Kind, table *analyze.Table, t script.Type) *misfit {
	fields := t.Elem.Fields
	n := len(fields)
	if table.Exact && len(table.Items)%n != 0 {
		return &misfit{full: fmt.Sprintf("a list of %d values is returned, which is no multiple of the %d of each element; return them in turn, or a table each: {%s}", len(table.Items), n, names(fields))}
	}
	if m := f.items(table, false, func(i int, v analyze.Value) *misfit { return f.fits(v, fields[i%n].Type) }); m != nil {
		return m
	}
	if table.Pairs != nil && n == 2 {
		for i, v := range table.Pairs {
			if m := f.fits(v, fields[i].Type); m != nil {
				m.field = fields[i].Name
				return m
			}
		}
		if table.Odd {
			return f.wrong(k, t, fmt.Sprintf("it has an odd number of values, which is no multiple of 2; return a table for each element: {%s}", names(fields)))
		}
		return nil
	}
	if table.Pairs != nil || len(table.Rest.Kinds()) > 0 && (n == 2 || n > 2 && !f.inTurn(table.Rest, fields)) {
		return f.wrong(k, t, fmt.Sprintf("return a table for each element: {%s}", names(fields)))
	}
	return nil
}

// inTurn reports whether all that a list may hold is good as one of the fields, and
// there is something for each of them. That they take turns is not known.
func (f fitter) inTurn(rest analyze.Value, fields []script.Field) bool {
	for _, k := range rest.Kinds() {
		if !slices.ContainsFunc(fields, func(field script.Field) bool { return f.fits(analyze.Of(k), field.Type) == nil }) {
			return false
		}
	}
	for _, field := range fields {
		if !rest.MayBe(func(k analyze.Kind) bool { return f.fits(analyze.Of(k), field.Type) == nil }) {
			return false
		}
	}
	return len(rest.Kinds()) > 1
}

func (f fitter) setFits(inner analyze.Value, t script.Type) *misfit {
	for _, k := range inner.Kinds() {
		if r, ok := k.(analyze.Ref); ok {
			if m := f.fits(f.heap.Table(r).Names, *t.Elem); m != nil {
				return m
			}
		}
	}
	return nil
}

func (f fitter) mapFits(k analyze.Kind, t script.Type) *misfit {
	const mend = "return names and values in turn, as {'hits', hits}, or {map = {…}} after redis.setresp(3)"
	r, ok := k.(analyze.Ref)
	if !ok {
		return f.wrong(k, t, mend)
	}
	table := f.heap.Table(r)
	if inner, isMap := table.Fields["map"]; isMap {
		return f.fieldsFit(inner, t)
	}
	if f.status(k) || named(table) {
		return f.wrong(k, t, mend)
	}
	key, value := script.Type{Base: "string"}, *t.Elem
	if table.Exact && len(table.Items)%2 != 0 {
		return &misfit{what: fmt.Sprintf("a list of %d values is returned", len(table.Items)), want: t.String(), mend: mend}
	}
	if m := f.items(table, true, func(i int, v analyze.Value) *misfit {
		if i%2 == 0 {
			return f.fits(v, key)
		}
		return f.fits(v, value)
	}); m != nil {
		return m
	}
	if table.Pairs != nil {
		if m := f.fits(table.Pairs[0], key); m != nil {
			m.field = "a name"
			return m
		}
		if m := f.fits(table.Pairs[1], value); m != nil {
			m.field = "a value"
			return m
		}
		if table.Odd {
			return &misfit{what: "a list of an odd number of values is returned", want: t.String(), mend: mend}
		}
		return nil
	}
	if len(table.Rest.Kinds()) > 0 {
		return &misfit{what: "a list is returned of which it is not known that names and values take turns", want: t.String(), mend: mend + "; append both one after the other, or declare a list"}
	}
	return nil
}

// fieldsFit checks the fields of {map = {…}}.
func (f fitter) fieldsFit(inner analyze.Value, t script.Type) *misfit {
	for _, k := range inner.Kinds() {
		r, ok := k.(analyze.Ref)
		if !ok {
			return f.wrong(k, t, "give map a table")
		}
		table := f.heap.Table(r)
		for _, v := range table.Fields {
			if m := f.fits(v, *t.Elem); m != nil {
				return m
			}
		}
		if m := f.fits(table.Rest, *t.Elem); m != nil {
			m.field = "a value"
			return m
		}
	}
	return nil
}

func (f fitter) structFits(k analyze.Kind, t script.Type) *misfit {
	fields := t.Fields
	r, ok := k.(analyze.Ref)
	if !ok {
		return &misfit{full: fmt.Sprintf("%s is returned, but the header declares %d values; return them in a table: {%s}", f.describe(k), len(fields), names(fields))}
	}
	table := f.heap.Table(r)
	if f.status(k) || named(table) {
		return &misfit{full: fmt.Sprintf("the returned table has named fields, which Redis drops; return the values in order: {%s}", names(fields))}
	}
	length := len(table.Items)
	m := f.items(table, true, func(i int, v analyze.Value) *misfit {
		if i >= len(fields) {
			return nil
		}
		m := f.fits(v, fields[i].Type)
		if m != nil && m.field == "" {
			m.field = fields[i].Name
		}
		return m
	})
	switch {
	case m != nil:
		return m
	case table.Rest.MayBe(func(analyze.Kind) bool { return true }):
		return &misfit{full: fmt.Sprintf("the length of the returned table is not known, but the header declares %d values; return them one by one, as {list[1] or false, …}: {%s}", len(fields), names(fields))}
	case length != len(fields):
		return &misfit{full: fmt.Sprintf("the returned table has length %d, but the header declares %d values: {%s}", length, len(fields), names(fields))}
	}
	return nil
}

func names(fields []script.Field) string {
	var list []string
	for _, f := range fields {
		list = append(list, f.Name)
	}
	return strings.Join(list, ", ")
}
