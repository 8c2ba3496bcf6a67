package draft

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/analyze"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// chooseReply declares the reply. It is the type of the returned values, or raw if the generator does not
// accept that type.
func (d *draft) chooseReply() {
	s, findings := d.parse()
	if len(findings) > 0 {
		return
	}
	facts := analyze.Analyze(s)
	all := replyOf{fields: d.fields, script: s}
	var v seen
	for _, r := range facts.Returns {
		v.join(all.look(r.Values.At(0), r.Heap, 0))
		v.none = v.none || len(r.Values.Items) == 0
	}
	v.none = v.none || facts.EndReached != nil
	choices := all.choices(v)
	d.choose(func(returns string) { d.returns = returns }, append(choices, "raw")...)
}

type replyOf struct {
	fields []string
	script *script.Script
}

// seen is what the values may be.
type seen struct {
	none, yes                   bool // nil or false, and true
	binary, integer, fraction   bool // numbers
	units                       []analyze.Unit
	text, json, status, unknown bool
	list, pairs                 *seen   // elements
	items                       []*seen // of tables of one length
	tables, ragged              bool
}

func (s *seen) join(t seen) {
	s.none, s.yes, s.binary, s.integer, s.fraction = s.none || t.none, s.yes || t.yes, s.binary || t.binary,
		s.integer || t.integer, s.fraction || t.fraction
	s.text, s.json, s.status, s.unknown = s.text || t.text, s.json || t.json, s.status || t.status,
		s.unknown || t.unknown
	s.units = append(s.units, t.units...)
	merge := func(to **seen, from *seen) {
		switch {
		case from == nil:
		case *to == nil:
			*to = from
		default:
			(*to).join(*from)
		}
	}
	merge(&s.list, t.list)
	merge(&s.pairs, t.pairs)
	switch {
	case !t.tables:
	case !s.tables:
		s.items, s.ragged = t.items, t.ragged
	case t.ragged || len(s.items) != len(t.items):
		s.ragged = true
	default:
		for i := range s.items {
			s.items[i].join(*t.items[i])
		}
	}
	s.tables = s.tables || t.tables
}

// deepest is the depth of the tables inside tables that replyOf reads.
const deepest = 4

func (r replyOf) look(v analyze.Value, heap analyze.Heap, depth int) seen {
	var s seen
	if _, top := v.Top(); top || depth > deepest {
		s.unknown = true
		return s
	}
	for _, k := range v.Kinds() {
		class, unit, _ := analyze.Quantity(r.script, k)
		switch k := k.(type) {
		case analyze.Nil, analyze.Absent, analyze.Missing:
			s.none = true
			continue
		case analyze.Bool:
			s.none, s.yes = s.none || !k.V, s.yes || k.V
			continue
		case analyze.Num:
			s.binary = s.binary || k.F == 0 || k.F == 1
			s.integer = s.integer || class == analyze.Integer && k.F != 0 && k.F != 1
			s.fraction = s.fraction || class == analyze.Fraction
			continue
		case analyze.Raised:
			continue // raises an error at run time
		case analyze.Ref:
			r.table(&s, heap, k, depth)
			continue
		case analyze.Text:
			s.json = s.json || k.Class == analyze.JSON
			s.text = s.text || k.Class != analyze.JSON
			continue
		}
		if analyze.TypeOf(k) == "number" {
			s.binary = s.binary || class == analyze.Binary
			s.fraction = s.fraction || class == analyze.Fraction
			s.integer = s.integer || class != analyze.Binary && class != analyze.Fraction
			s.units = append(s.units, unit)
			continue
		}
		s.text = true
	}
	return s
}

// table reads a table. A list of fixed length has items, and any other list has elements.
func (r replyOf) table(s *seen, heap analyze.Heap, ref analyze.Ref, depth int) {
	t := heap.Table(ref)
	if t.Err || !t.Fields["err"].Bottom() {
		return
	}
	if !t.Fields["ok"].Bottom() {
		s.status = true
		return
	}
	if t.Origin != analyze.Made && len(t.Items) == 0 && t.Rest.Bottom() && t.Pairs == nil {
		s.unknown = true
		return
	}
	one := seen{tables: true, ragged: !t.Exact}
	elements := r.look(t.Rest, heap, depth+1)
	for _, item := range t.Items {
		looked := r.look(item.Without(analyze.Absent{}), heap, depth+1)
		one.items = append(one.items, &looked)
		elements.join(r.look(item.Without(analyze.Absent{}), heap, depth+1))
	}
	one.list = &elements
	if t.Pairs != nil {
		pairs := r.look(t.Pairs[1], heap, depth+1)
		one.pairs = &pairs
	}
	s.join(one)
}

// choices returns the possible replies, the best one first.
func (r replyOf) choices(s seen) []string {
	scalar := s.text || s.json || s.binary || s.integer || s.fraction || s.yes
	switch {
	case s.unknown || s.fraction:
		return nil
	case s.status && !scalar && !s.tables:
		if s.none {
			return []string{"bool", "string?"} // such as SET with NX
		}
		return []string{"ok", "string"}
	case s.none && !scalar && !s.tables:
		return []string{"none"}
	}
	all := r.types(s, r.fields)
	for i, t := range all {
		all[i] = bare(t)
	}
	return all
}

// bare returns a struct without its parentheses, as a returns directive has it.
func bare(t string) string {
	if strings.HasPrefix(t, "(") && strings.HasSuffix(t, ")") && strings.Contains(t, " ") {
		return t[1 : len(t)-1]
	}
	return t
}

// types returns the possible types of the values, the best one first.
func (r replyOf) types(s seen, fields []string) []string {
	optional := func(t string) string {
		switch {
		case !s.none || t == "bool" || t == script.RawType:
			return t
		case strings.HasPrefix(t, "[]") || strings.HasPrefix(t, "map["):
			return "(" + t + ")?"
		}
		return t + "?"
	}
	scalar := s.scalar()
	var all []string
	switch {
	case s.unknown || s.fraction || s.tables && scalar != "":
		return []string{script.RawType}
	case s.tables:
		all = r.tableTypes(s, fields)
	case scalar != "":
		all = []string{scalar}
	case s.none:
		return []string{"bool"} // always false
	default:
		all = []string{"string"} // there is never a value
	}
	for i, t := range all {
		all[i] = optional(t)
	}
	return all
}

// scalar returns the type of the values that are not tables; empty: there is only nil and false.
func (s seen) scalar() string {
	counts := func(unit analyze.Unit) bool {
		return slices.Contains(s.units, unit) &&
			!slices.ContainsFunc(s.units, func(u analyze.Unit) bool { return u != unit && u != analyze.None })
	}
	switch {
	case s.text && (s.binary || s.integer):
		return "int"
	case s.text || s.status:
		return "string"
	case s.json:
		return "json"
	case s.integer && counts(analyze.Milliseconds):
		return "duration"
	case s.integer && counts(analyze.UnixMilliseconds):
		return "time"
	case s.integer:
		return "int"
	case s.binary || s.yes:
		return "bool"
	}
	return ""
}

func (r replyOf) tableTypes(s seen, fields []string) []string {
	var all []string
	if !s.ragged && len(s.items) > 0 {
		e := evidence{taken: map[string]bool{}}
		var list []string
		for i, item := range s.items {
			name := ""
			if len(fields) == len(s.items) {
				name = fields[i]
			}
			list = append(list, e.free(name, "value", i+1)+" "+r.types(*item, nil)[0])
		}
		all = append(all, "("+strings.Join(list, ", ")+")")
	}
	if s.pairs != nil {
		all = append(all, "map[string]"+r.types(*s.pairs, nil)[0])
	}
	for _, element := range r.types(*s.list, nil) {
		all = append(all, "[]"+element)
	}
	return append(all, fmt.Sprintf("[]%s", script.RawType))
}
