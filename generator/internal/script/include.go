package script

import (
	"bytes"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/file"
	"github.com/rlock-go/toolkit/generator/internal/finding"
)

// includeLine is a line that includes a fragment. A fragment is a file that several scripts share. The path
// is relative to the file with the line.
var includeLine = regexp.MustCompile(`^-- include: *(\S*)\s*$`)

// nearInclude finds comments in a body that name a fragment and include nothing. In a header, nearMiss finds
// them.
var nearInclude = regexp.MustCompile(`(?i)^\s*--\s*includes?\s*:\s*\S+\.lua\b`)

// origin is the file and the line that a line of a script comes from.
type origin struct {
	path string
	line int
}

// source is the text that runs, with the origin of each line.
type source struct {
	text     bytes.Buffer
	origins  []origin
	includes []string // paths of the fragments
	findings []finding.Finding
}

// expand appends a file to the text, with each fragment after the line that includes it. A reader of the text
// sees in that line where the fragment comes from. The text has a fragment only once, at the first line that
// includes it.
func (s *source) expand(name string, text []byte, stack []string) {
	stack = append(stack, path.Clean(name))
	s.check(name, text)
	inText := insideText(string(text))
	named := map[string]bool{} // fragments that this file itself includes
	header := true
	for number, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		header = header && (strings.HasPrefix(line, "--") || number == 0 && strings.HasPrefix(line, "#!"))
		s.text.WriteString(line + "\n")
		s.origins = append(s.origins, origin{name, number + 1})
		m := includeLine.FindStringSubmatch(line)
		if m == nil && !inText[number+1] && !(header && len(stack) == 1) && nearInclude.MatchString(line) {
			s.findf(name, number+1, "this line includes nothing; write \"-- include: path.lua\", from the start of "+
				"the line and with nothing behind it")
		}
		if m == nil || inText[number+1] {
			continue
		}
		fragment := path.Join(path.Dir(name), m[1])
		switch {
		case header && len(stack) == 1:
			s.findf(name, number+1, "include: stands in the header; put it below an empty line")
		case m[1] == "":
			s.findf(name, number+1, "include: names no file; want a path, relative to this file")
		case named[fragment]:
			s.findf(name, number+1, "include: %s is already included by this file; keep one", fragment)
		default:
			named[fragment] = true
			s.include(name, number+1, fragment, stack)
		}
	}
}

func (s *source) include(from string, line int, name string, stack []string) {
	switch {
	case slices.Contains(stack, name):
		s.findf(from, line, "include: %s includes itself, by way of %s; remove one of these lines", name,
			strings.Join(append(stack, name), " → "))
		return
	case slices.Contains(s.includes, name):
		return
	}
	s.includes = append(s.includes, name)
	text, err := file.Read(filepath.FromSlash(name))
	if err != nil {
		s.findf(from, line, "include: %s cannot be read: %v; the path is relative to this file", name,
			file.Cause(err))
		s.findings[len(s.findings)-1].Cause = "include " + name
		return
	}
	s.expand(name, text, stack)
}

// check refuses bytes that would make the text that runs differ from the file. A Go raw string drops carriage
// returns, and Redis refuses a byte order mark.
func (s *source) check(name string, text []byte) {
	if bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		s.findf(name, 1, "the file starts with a byte order mark, which Redis refuses; save it as plain UTF-8")
	}
	if at := bytes.IndexByte(text, '\r'); at >= 0 {
		s.findf(name, 1+bytes.Count(text[:at], []byte("\n")),
			`the line has a carriage return; save the file with LF line ends, and keep them with `+
				`".gitattributes: *.lua text eol=lf"`)
	}
	if at := bytes.IndexByte(text, 0); at >= 0 {
		s.findf(name, 1+bytes.Count(text[:at], []byte("\n")), `the line has a NUL byte; in a string write \0`)
	}
}

func (s *source) findf(name string, line int, format string, args ...any) {
	s.findings = append(s.findings,
		finding.Finding{Path: name, Line: line, Column: 1, Message: fmt.Sprintf(format, args...)})
}
