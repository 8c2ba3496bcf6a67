package check

import (
	"slices"

	"github.com/yuin/gopher-lua/ast"
)

// kind is what is known of a value. The kinds form a lattice of three levels:
// nothing seen yet, one of these, anything.
type kind uint8

const (
	nothing   kind = iota // no value was seen; also nil and false, which are no keys
	anything              // it cannot be told
	keysTable             // KEYS
	argvTable             // ARGV
	library               // redis
	caller                // redis.call or redis.pcall
	key                   // KEYS[index], or any of KEYS for index 0
	arg                   // ARGV[index], or any of ARGV for index 0
	read                  // what the command texts[0] read from KEYS[index]
	text                  // one of the strings in texts
	number                // the number index
	made                  // a table made by the script
	closure               // a function of the script
	builtin               // the global function texts[0]
	verdict               // what the comparison relation came to
)

// value is what is known of a Lua value.
type value struct {
	kind  kind
	index int
	texts []string
	table *table
	fn    *function

	numeric   bool // an arg or a read that went through tonumber
	defaulted bool // a read that became a constant where nothing was

	relation *ast.RelationalOpExpr
}

// table is a table that the script makes. All its elements are held as one, but
// for the fields with constant names.
type table struct {
	elements value
	fields   map[string]value
}

// function is a function of the script. What its parameters stand for is
// gathered from all its calls.
type function struct {
	params []*binding
	result value
}

// binding is a local variable, or a parameter.
type binding struct{ value value }

// site is where a binding is declared: it is the same at every pass.
type site struct {
	node  ast.PositionHolder
	index int
}

var unknown = value{kind: anything}

// join returns what is known of a value that is a or b. Where that is anything,
// the caller releases both.
func join(a, b value) value {
	switch {
	case a.kind == nothing:
		return b
	case b.kind == nothing || a.equal(b):
		return a
	case a.kind == text && b.kind == text:
		texts := slices.Concat(a.texts, b.texts)
		slices.Sort(texts)
		return value{kind: text, texts: slices.Compact(texts)}
	case a.kind == b.kind && (a.kind == key || a.kind == arg):
		return value{kind: a.kind}
	}
	return unknown
}

func (v value) equal(w value) bool {
	return v.kind == w.kind && v.index == w.index && slices.Equal(v.texts, w.texts) && v.table == w.table && v.fn == w.fn &&
		v.numeric == w.numeric && v.defaulted == w.defaulted && v.relation == w.relation
}

// elements returns what is known of the elements of a table.
func (v value) elements() value {
	switch v.kind {
	case keysTable:
		return value{kind: key}
	case argvTable:
		return value{kind: arg}
	case made:
		all := v.table.elements
		for _, field := range v.table.fields {
			all = join(all, field)
		}
		return all
	case read: // a reply that is a list
		return v
	case nothing:
		return v
	}
	return unknown
}
