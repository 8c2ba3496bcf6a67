package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/analyze"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// tableFitsScalar checks a table where the header declares one value.
func (f fitter) tableFitsScalar(r analyze.Ref, t script.Type) *misfit {
	table := f.heap.Table(r)
	ok, isStatus := table.Fields["ok"], f.status(r)
	double, isDouble := table.Fields["double"]
	switch {
	case isDouble && t.Base == "float" &&
		double.All(func(k analyze.Kind) bool { return analyze.TypeOf(k) == "number" }):
		return nil
	case isStatus && (t.Base == "string" || t.Base == "bytes"):
		return nil
	case isStatus && t.Base == "bool" &&
		!ok.MayBe(func(k analyze.Kind) bool { s, is := k.(analyze.Str); return !is || s.S != "OK" }):
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

// named reports whether a table has fields with names. Redis drops such fields.
func named(t *analyze.Table) bool {
	for _, field := range t.Fields {
		if field.MayBe(func(k analyze.Kind) bool { return analyze.TypeOf(k) != "nil" }) {
			return true
		}
	}
	return t.Names.MayBe(func(k analyze.Kind) bool { s := analyze.TypeOf(k); return s == "string" || s == "" })
}

const nilInside = "a nil inside a returned table cuts the reply short; use false, which arrives as nil and " +
	"keeps its place"

// items checks the items of a table one after the other. If the length counts, no item may stand behind the
// end of the list that the script took it from.
func (f fitter) items(t *analyze.Table, counted bool, check func(i int, v analyze.Value) *misfit) *misfit {
	switch {
	case t.Gap != analyze.Gap{}:
		return &misfit{full: "a gap or a nil inside a returned table cuts the reply short: " + t.Gap.Why(f.script)}
	case t.Rest.MayBe(analyze.Vanishes):
		return &misfit{full: nilInside}
	}
	for i, item := range t.Items {
		if item.MayBe(func(k analyze.Kind) bool {
			return analyze.Vanishes(k) || counted && k == analyze.Kind(analyze.Absent{})
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
	if table.Pairs != nil && t.Elem.Kind == script.Scalar &&
		!slices.Contains([]string{"string", "bytes", script.RawType}, t.Elem.Base) && table.Pairs[0].MayBe(isText) {
		return &misfit{what: "a list of names and values in turn is returned", want: t.String(),
			mend: "declare map[string]" + t.Elem.String() + ", or a list of structs"}
	}
	if t.Elem.Kind == script.Struct && !t.Elem.Optional && !everything(table).MayBe(isTable) {
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

func isText(k analyze.Kind) bool { _, is := k.(analyze.Text); return is }

func everything(t *analyze.Table) analyze.Value {
	v := t.Rest
	for _, item := range t.Items {
		v = analyze.Join(v, item)
	}
	return v
}

// flatFits checks a flat list of structs, such as the answer to WITHSCORES.
func (f fitter) flatFits(k analyze.Kind, table *analyze.Table, t script.Type) *misfit {
	fields := t.Elem.Fields
	n := len(fields)
	if table.Exact && len(table.Items)%n != 0 {
		return &misfit{full: fmt.Sprintf("a list of %d values is returned, which is no multiple of the %d of each "+
			"element; return them in turn, or a table each: {%s}", len(table.Items), n, names(fields))}
	}
	if m := f.items(table, false,
		func(i int, v analyze.Value) *misfit { return f.fits(v, fields[i%n].Type) }); m != nil {
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
			return f.wrong(k, t, fmt.Sprintf("it has an odd number of values, which is no multiple of 2; return a "+
				"table for each element: {%s}", names(fields)))
		}
		return nil
	}
	if table.Pairs != nil || len(table.Rest.Kinds()) > 0 && (n == 2 || n > 2 && !f.inTurn(table.Rest, fields)) {
		return f.wrong(k, t, fmt.Sprintf("return a table for each element: {%s}", names(fields)))
	}
	return nil
}

// inTurn reports whether each item that a list may hold fits a field, and each field has an item that fits.
// The order of the items is not known.
func (f fitter) inTurn(rest analyze.Value, fields []script.Field) bool {
	for _, k := range rest.Kinds() {
		if !slices.ContainsFunc(fields,
			func(field script.Field) bool { return f.fits(analyze.Of(k), field.Type) == nil }) {
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

// setFits checks the names of {set = {…}}. The names are the elements of the set.
func (f fitter) setFits(inner analyze.Value, t script.Type) *misfit {
	for _, k := range inner.Kinds() {
		r, ok := k.(analyze.Ref)
		if !ok {
			return f.wrong(k, t, "give set a table whose names are the elements")
		}
		table := f.heap.Table(r)
		if m := f.fits(table.Names, *t.Elem); m != nil {
			return m
		}
		for name := range table.Fields {
			if m := f.fits(analyze.Of(analyze.Str{S: name}), *t.Elem); m != nil {
				return m
			}
		}
		if len(table.Items) > 0 {
			if m := f.fits(analyze.Of(analyze.Num{F: 1}), *t.Elem); m != nil {
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
		return &misfit{what: fmt.Sprintf("a list of %d values is returned", len(table.Items)), want: t.String(),
			mend: mend}
	}
	named := map[string]bool{}
	if m := f.items(table, true, func(i int, v analyze.Value) *misfit {
		if i%2 == 0 {
			name, constant := v.Str()
			if constant && named[name] {
				return &misfit{full: fmt.Sprintf("the name %q stands twice in the returned map, which the call refuses; "+
					"keep one", name)}
			}
			named[name] = true
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
		return &misfit{what: "a list is returned of which it is not known that names and values take turns",
			want: t.String(), mend: mend + "; append both one after the other, or declare a list"}
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
		if len(table.Items) > 0 ||
			table.Names.MayBe(func(k analyze.Kind) bool { return analyze.TypeOf(k) != "string" }) {
			return &misfit{what: "a map whose names may be numbers is returned", want: t.String(),
				mend: "name its values by strings, as map[tostring(i)] = …"}
		}
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
		if len(fields) == 1 {
			return &misfit{full: fmt.Sprintf("%s is returned, but the header declares a list of one value, with a "+
				"name; write returns: %s, or return {%s}", f.describe(k), fields[0].Type, names(fields))}
		}
		return &misfit{full: fmt.Sprintf("%s is returned, but the header declares %d values; return them in a "+
			"table: {%s}", f.describe(k), len(fields), names(fields))}
	}
	table := f.heap.Table(r)
	if f.status(k) || named(table) {
		return &misfit{full: fmt.Sprintf("the returned table has named fields, which Redis drops; return the "+
			"values in order: {%s}", names(fields))}
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
		return &misfit{full: fmt.Sprintf("the length of the returned table is not known, but the header declares "+
			"%d values; return them one by one, as {list[1] or false, …}: {%s}", len(fields), names(fields))}
	case length != len(fields):
		return &misfit{full: fmt.Sprintf("the returned table has length %d, but the header declares %d values; "+
			"return {%s}", length, len(fields), names(fields))}
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
