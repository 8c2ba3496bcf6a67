package script

import (
	"bytes"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"

	"github.com/rlock-go/toolkit/generator/internal/finding"
)

// Parse reads one file. If there are findings, the script is incomplete.
func Parse(path string, text []byte) (*Script, []finding.Finding) {
	s := &Script{Path: path, Base: filepath.Base(path)}
	if len(bytes.TrimSpace(text)) == 0 {
		return s,
			[]finding.Finding{{Path: path, Line: 1, Column: 1, Message: "the file is empty; a script needs a header " +
				"and a body"}}
	}
	var expanded source
	expanded.expand(path, text, nil)
	s.Includes = expanded.includes
	if len(expanded.findings) > 0 {
		return s, expanded.findings
	}
	s.Source, s.origins = string(text), expanded.origins
	if len(s.Includes) > 0 {
		s.Source = expanded.text.String()
	}

	lines := strings.Split(s.Source, "\n")
	first := 0
	if strings.HasPrefix(s.Source, "#!") {
		first = 1
	}
	findings := readHeader(s, lines, first)
	if first == 1 {
		findings = append(findings, s.shebang(lines[0])...)
	}
	return s, append(findings, s.tree()...)
}

// tree parses the Lua. A shebang is not Lua, so tree turns its first two bytes into a comment. All positions
// stay the same.
func (s *Script) tree() []finding.Finding {
	text := s.Source
	if strings.HasPrefix(text, "#!") {
		text = "--" + text[2:]
	}
	body, err := parse.Parse(strings.NewReader(text), s.Path)
	var bad *parse.Error
	switch {
	case errors.As(err, &bad):
		if bad.Pos.Line < 1 || strings.HasPrefix(bad.Message, "unterminated") ||
			strings.HasPrefix(bad.Message, "invalid multiline") {
			pos, why := ending(text) // the parser reports the end of the file as this
			return []finding.Finding{s.Findf(pos, "this is not Lua: %s; complete it", why)}
		}
		pos := Pos{bad.Pos.Line, max(1, bad.Pos.Column)}
		near := ""
		if bad.Token != "" {
			near = " near " + quote(bad.Token)
		}
		return []finding.Finding{s.Findf(pos, "this is not Lua: %s%s; write what Lua 5.1 takes there",
			strings.TrimSpace(bad.Message), near)}
	case err != nil:
		return []finding.Finding{s.Findf(Pos{1, 1}, "this is not Lua: %v; write what Lua 5.1 takes there", err)}
	}
	s.Tokens = scan(text)
	findings := s.syntax()
	if len(findings) > 0 {
		return findings
	}
	p := &positions{finder: s.Tokens.Finder(), places: map[ast.Expr]Pos{}}
	p.block(body)
	s.Body, s.places = body, p.places
	return nil
}

var shebang = regexp.MustCompile(`^#!lua(?: flags=([a-z,-]+))?$`)

// shebangFlags are the flags that a server takes in the first line of a script.
var shebangFlags = []string{"no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"}

// shebang checks that the first line agrees with the header.
func (s *Script) shebang(line string) []finding.Finding {
	m := shebang.FindStringSubmatch(line)
	if m == nil {
		return []finding.Finding{s.Findf(Pos{1, 1}, "EVAL takes no other first line than #!lua or #!lua "+
			"flags=a,b; this is %s", quote(line))}
	}
	var findings []finding.Finding
	flags := strings.FieldsFunc(m[1], func(r rune) bool { return r == ',' })
	for _, flag := range flags {
		if !slices.Contains(shebangFlags, flag) {
			findings = append(findings,
				s.Findf(Pos{1, 1}, "unknown flag %s; want %s", quote(flag), strings.Join(shebangFlags, ", ")))
		}
	}
	if reads := slices.Contains(flags, "no-writes"); reads == s.Mode.Write {
		findings = append(findings, s.Findf(Pos{1, 1}, "the first line and mode: disagree; read scripts must have "+
			"flags=no-writes, and others must not"))
	}
	return findings
}
