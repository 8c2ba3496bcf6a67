// Package script reads a Lua file into a Script: its typed header, its syntax tree with the
// place of each expression, and its names in Go. It does not know what a script may do.
package script

import (
	"fmt"
	"path"
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/finding"
)

// Script is one Lua file: what its header declares, and the tree of its body. Parse fills it,
// and nothing changes it afterwards.
type Script struct {
	Path   string // as the user named it, for findings
	Base   string // file name, for generated text
	Source string // byte for byte what the server runs, with the included fragments

	Includes []string // paths of the fragments in Source

	Doc     []string // prose of the header, one element a line
	Name    string   // Go identifier of the wrapper
	Mode    Mode
	Keys    []Param
	Args    []Param
	Returns Returns
	Errors  []ErrorCode
	Waivers []Waiver
	Guard   *Guard // nil: the script has no guard

	Body   []ast.Stmt
	Tokens *Tokens

	places  map[ast.Expr]Pos
	origins []origin // of the lines of Source
}

// Mode is how a script may be called.
type Mode struct {
	Write     bool // it may change data
	Retryable bool // a write that is safe to repeat
	Cached    bool // a read that may be answered from the client-side cache
}

// modes lists what a mode directive may say.
var modes = map[string]Mode{
	"write":           {Write: true},
	"write retryable": {Write: true, Retryable: true},
	"read":            {},
	"read cached":     {Cached: true},
}

// String returns the mode as a header spells it.
func (m Mode) String() string {
	for text, mode := range modes {
		if mode == m {
			return text
		}
	}
	return "unknown"
}

// Param is one declared KEYS or ARGV entry.
type Param struct {
	Index    int // n of KEYS[n], from 1
	Variadic bool
	Skipped  bool // the script does not use it; it has no type and the name _
	Name     string
	Type     Type
	Doc      string
	Pos      Pos
}

// String returns the entry's place in its table, as a header spells it.
func (p Param) String() string {
	if p.Variadic {
		return fmt.Sprintf("[%d..]", p.Index)
	}
	return fmt.Sprintf("[%d]", p.Index)
}

// Returns is the declared reply: nothing, the status OK, or a value of a type. A list of
// names with types is a value of kind Struct.
type Returns struct {
	Kind ReturnKind
	Type Type // of a value
	Pos  Pos
}

// ReturnKind tells the forms of a returns directive apart.
type ReturnKind int

// The forms of a returns directive.
const (
	ReturnNone ReturnKind = iota
	ReturnOK
	ReturnValue
)

// String returns the reply as a header spells it.
func (r Returns) String() string {
	switch {
	case r.Kind == ReturnNone:
		return "none"
	case r.Kind == ReturnOK:
		return "ok"
	case r.Type.Kind == Struct && !r.Type.Optional:
		return FieldList(r.Type.Fields)
	}
	return r.Type.String()
}

// ErrorCode is the first word of an error reply. Callers match it with errors.Is.
type ErrorCode struct {
	Code string
	Pos  Pos
}

// Sentinel returns the Go name of the error: NO_STOCK becomes ErrNoStock.
func (e ErrorCode) Sentinel() string { return "Err" + Camel(strings.ToLower(e.Code)) }

// Guard ties a script to a lock. A held guard compares the value of the lock's key with an
// argument, which is the token. A fenced guard compares the largest fence that a key stores
// with an argument, which is the caller's fence.
type Guard struct {
	Fenced   bool
	Key, Arg int // n of KEYS[n], m of ARGV[m]
	Pos      Pos
}

// String returns the guard as a header spells it.
func (g *Guard) String() string {
	how := "held"
	if g.Fenced {
		how = "fenced"
	}
	return fmt.Sprintf("KEYS[%d] %s by ARGV[%d]", g.Key, how, g.Arg)
}

// Waiver switches one check off, with the reason that an audit prints.
type Waiver struct {
	Rule   string
	Reason string
	Pos    Pos
}

// Pos is a place in a script's Source. Both count from 1; columns are in bytes.
type Pos struct{ Line, Column int }

// Findf returns a finding about a place. It names the file that a person edits, which may be
// a fragment.
func (s *Script) Findf(pos Pos, format string, args ...any) finding.Finding {
	f := finding.Finding{Path: s.Path, Line: pos.Line, Column: pos.Column, Message: fmt.Sprintf(format, args...)}
	n := pos.Line - 1
	if len(s.Includes) > 0 { // the end of the text may be the end of a fragment
		n = min(n, len(s.origins)-1)
	}
	if n >= 0 && n < len(s.origins) {
		f.Path, f.Line = s.origins[n].path, s.origins[n].line
	}
	return f
}

// Included reports whether a place stands in a fragment.
func (s *Script) Included(pos Pos) bool {
	n := pos.Line - 1
	return n >= 0 && n < len(s.origins) && s.origins[n].path != s.Path
}

// Line names the line of a place, for a message about another place.
func (s *Script) Line(pos Pos) string {
	f := s.Findf(pos, "")
	if f.Path != s.Path {
		return fmt.Sprintf("line %d of %s", f.Line, path.Base(f.Path))
	}
	return fmt.Sprintf("line %d", f.Line)
}

// Waived reports whether the header waives the rule.
func (s *Script) Waived(rule string) bool {
	for _, w := range s.Waivers {
		if w.Rule == rule {
			return true
		}
	}
	return false
}
