package analyze

import (
	"slices"

	"github.com/yuin/gopher-lua/ast"
)

// noField finds reads of string fields. Strings have only the functions of string.
func (a *analyzer) noField(n ast.Expr, object, key Value) {
	name, constant := key.Str()
	if !constant || slices.Contains(members["string"], name) ||
		!object.All(func(k Kind) bool { return TypeOf(k) == "string" }) {
		return
	}
	a.misuse(n, DescribeValue(object)+" is a string, which has no "+name+"; for JSON write cjson.decode(…)")
}

// noIndex notes that the script reads a field of a value without fields.
func (a *analyzer) noIndex(n ast.Expr, object Value) {
	if field, ok := n.(*ast.AttrGetExpr); ok {
		a.callees[field] = Join(a.callees[field], object)
	}
}

// useEntries notes a use of KEYS or ARGV.
func (a *analyzer) useEntries(n ast.Expr, st *state, object, key Value) {
	for _, k := range object.kinds {
		ref, ok := k.(Ref)
		if !ok || st.heap[ref.site] == nil {
			continue
		}
		var uses *Uses
		switch Of(ref).kinds[0] {
		case a.keys.kinds[0]:
			uses = &a.facts.Keys
		case a.args.kinds[0]:
			uses = &a.facts.Args
		default:
			continue
		}
		pos := a.script.Pos(n)
		for _, index := range key.kinds {
			switch i := index.(type) {
			case Num:
				use := Index{int(i.F), pos}
				if !slices.Contains(uses.Constant, use) {
					uses.Constant = append(uses.Constant, use)
				}
			case Str, Empty: // a field that does not exist
			default:
				if !slices.Contains(uses.Computed, pos) {
					uses.Computed = append(uses.Computed, pos)
				}
			}
		}
	}
}

// useAll notes that the script counts or walks all of KEYS or ARGV.
func (a *analyzer) useAll(v Value) {
	for _, k := range v.kinds {
		a.facts.Keys.All = a.facts.Keys.All || k == a.keys.kinds[0]
		a.facts.Args.All = a.facts.Args.All || k == a.args.kinds[0]
	}
}

// useWhole notes that the script passes on or walks all of KEYS or ARGV.
func (a *analyzer) useWhole(n ast.Expr, v Value) {
	a.useAll(v)
	pos := a.script.Pos(n)
	for _, k := range v.kinds {
		for _, of := range []struct {
			table Value
			uses  *Uses
		}{{a.keys, &a.facts.Keys}, {a.args, &a.facts.Args}} {
			if k == of.table.kinds[0] && !slices.Contains(of.uses.Whole, pos) {
				of.uses.Whole = append(of.uses.Whole, pos)
			}
		}
	}
}

func (a *analyzer) misuse(n ast.Expr, message string) {
	a.facts.Misuses = append(a.facts.Misuses, Misuse{message, a.script.Pos(n)})
}
