// Package script reads a Lua file into a Script. A Script has the typed header, the syntax tree with the
// place of each expression, and the Go names. The package refuses text that Lua 5.1 in Redis does not accept.
// It does not know what the body does.
package script

import (
	"fmt"
	"path"
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/finding"
)

// Script is one Lua file: its header and the tree of its body. Parse fills a Script, and nothing changes it
// later.
type Script struct {
	Path   string // the path that the user named, for findings
	Base   string // the file name, for generated text
	Source string // exactly the bytes that the server runs, with the fragments

	Includes []string // paths of the fragments in Source

	Doc     []string // the prose of the header, one element a line
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

// Mode is how a program may call a script.
type Mode struct {
	Write     bool // it may change data
	Retryable bool // a caller may repeat the write
	Cached    bool // the client-side cache may answer a read
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

// Param is one declared entry of KEYS or ARGV.
type Param struct {
	Index    int // n of KEYS[n], from 1
	Variadic bool
	Skipped  bool // the script does not read it; it has no type, and its name is _
	Name     string
	Type     Type
	Doc      string
	Pos      Pos
}

// String returns the place of the entry, as a header spells it.
func (p Param) String() string {
	if p.Variadic {
		return fmt.Sprintf("[%d..]", p.Index)
	}
	return fmt.Sprintf("[%d]", p.Index)
}

// Returns is the declared reply: nothing, the status OK, or a value of a type. A list of names with types is
// a value of kind Struct.
type Returns struct {
	Kind ReturnKind
	Type Type // of a value
	Pos  Pos
}

// ReturnKind is a form of a returns directive.
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

// ErrorCode is the first word of an error reply. A program compares it with errors.Is.
type ErrorCode struct {
	Code string
	Pos  Pos
}

// Sentinel returns the Go name of the error: NO_STOCK becomes ErrNoStock.
func (e ErrorCode) Sentinel() string { return "Err" + Camel(strings.ToLower(e.Code)) }

// Guard ties a script to a lock. A held guard compares the value of the lock's key with an argument, the
// token. A fenced guard compares the largest fence that a key stores with an argument, the fence of the
// caller.
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

// Waiver switches off one check, with a reason for the audit.
type Waiver struct {
	Rule   string
	Reason string
	Pos    Pos
}

// Pos is a place in the Source of a script. Both numbers count from 1. A column counts bytes.
type Pos struct{ Line, Column int }

// Findf returns a finding about a place. The finding names the file that a person edits, which may be a
// fragment.
func (s *Script) Findf(pos Pos, format string, args ...any) finding.Finding {
	f := finding.Finding{Path: s.Path, Line: pos.Line, Column: pos.Column, Message: fmt.Sprintf(format, args...)}
	n := pos.Line - 1
	if len(s.Includes) > 0 { // the text may end with a fragment
		n = min(n, len(s.origins)-1)
	}
	if n >= 0 && n < len(s.origins) {
		f.Path, f.Line = s.origins[n].path, s.origins[n].line
	}
	return f
}

// Included reports whether a place is in a fragment.
func (s *Script) Included(pos Pos) bool {
	n := pos.Line - 1
	return n >= 0 && n < len(s.origins) && s.origins[n].path != s.Path
}

// Line names the line of a place, in a message about another place.
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
