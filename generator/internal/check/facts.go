package check

import (
	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// facts is what following a script's tree brings to light.
type facts struct {
	keys, argv   uses
	calls        []call
	entries      []entry
	values       map[ast.Expr]value // of all expressions
	random       []globalUse        // uses of functions that answer differently each time
	raised       []raise
	texts        []string // all string literals
	returns      []returned
	fallsThrough bool // the end of the script can be reached without a return
	globalWrites []globalUse
	globalFields []globalUse
	globalReads  []globalUse
	unsafe       []globalUse // functions that make code no analysis can follow
	misuses      []misuse
}

// uses are the places where KEYS or ARGV is used.
type uses struct {
	constant []constantUse
	whole    []script.Pos // computed indices, ipairs(KEYS), unpack(ARGV), #KEYS
}

type constantUse struct {
	index int
	pos   script.Pos
}

// covers reports whether some use reads the declared entry.
func (u uses) covers(p script.Param) bool {
	for _, use := range u.constant {
		if use.index == p.Index || p.Variadic && use.index > p.Index {
			return true
		}
	}
	return false
}

// place is where something stands: in which statement of the script itself, in
// which part of that if it is an if, and in which function.
type place struct {
	top    int
	part   part
	within *function // nil: in the script itself
}

// part is a part of an if statement of the script itself.
type part int

const (
	whole part = iota // of any other statement
	condition
	thenBranch
	elseBranch
)

// entry is a place from which a function of the script may be called.
type entry struct {
	place
	fn *function
}

// call is one call of a Redis command.
type call struct {
	place
	names []string // what the command may be; empty when it is not a literal
	words []word   // the command and its arguments
	pos   script.Pos
}

// word is one argument of a command.
type word struct {
	expr  ast.Expr
	value value
	open  bool // any number of words, each like value: unpack(KEYS)
	pos   script.Pos
}

// returned is one return statement of the script itself.
type returned struct {
	pos     script.Pos
	values  int
	scalar  bool // one literal that is no table
	number  bool // one literal number
	table   bool // one literal table, whose length is known
	length  int
	open    bool // its last value is a call, which may bring any number of values
	keyed   bool // the table has fields with names
	failure bool // an error, whatever the header declares
	nilAt   script.Pos
}

// raise is an error that is raised with a text, to which the server adds its place.
type raise struct {
	texts []string
	pos   script.Pos
}

// misuse is something that Redis' Lua does not take, or not as it is meant.
type misuse struct {
	message string
	pos     script.Pos
}

type globalUse struct {
	name string
	pos  script.Pos
}
