package script

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/finding"
)

// includeLine is a line that stands for a fragment: a file that several scripts
// share, named relative to the file that includes it.
var includeLine = regexp.MustCompile(`^-- include: *(\S*)\s*$`)

// origin is where a line of a script comes from.
type origin struct {
	path string
	line int
}

// source is the text that runs, with the origin of every line.
type source struct {
	text     bytes.Buffer
	origins  []origin
	includes []string // paths of the fragments
	findings []finding.Finding
}

// expand reads a file and puts fragments in the place of its include lines, each
// behind the line itself, so that a reader of the text sees where they come from.
func (s *source) expand(name string, text []byte, stack []string) {
	stack = append(stack, path.Clean(name))
	s.check(name, text)
	header := true
	for number, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		header = header && (strings.HasPrefix(line, "--") || number == 0 && strings.HasPrefix(line, "#!"))
		s.text.WriteString(line + "\n")
		s.origins = append(s.origins, origin{name, number + 1})
		m := includeLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if header && len(stack) == 1 {
			s.findf(name, number+1, "include: stands in the header; put it below an empty line")
			continue
		}
		s.include(name, number+1, m[1], stack)
	}
}

func (s *source) include(from string, line int, fragment string, stack []string) {
	if fragment == "" {
		s.findf(from, line, "include: names no file; want a path, relative to this file")
		return
	}
	name := path.Join(path.Dir(from), fragment)
	switch {
	case slices.Contains(stack, name):
		s.findf(from, line, "include: %s includes itself, by way of %s", name, strings.Join(append(stack, name), " → "))
		return
	case slices.Contains(s.includes, name):
		s.findf(from, line, "include: %s is already included by this script; keep one", name)
		return
	}
	s.includes = append(s.includes, name)
	text, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		s.findf(from, line, "include: %s cannot be read; the path is relative to this file", name)
		return
	}
	s.expand(name, text, stack)
}

// check refuses what would make the text that runs differ from the file that was
// read: Go raw strings drop carriage returns, and Redis takes no BOM.
func (s *source) check(name string, text []byte) {
	if bytes.HasPrefix(text, []byte("\xef\xbb\xbf")) {
		s.findf(name, 1, "the file starts with a byte order mark, which Redis refuses; save it as plain UTF-8")
	}
	if at := bytes.IndexByte(text, '\r'); at >= 0 {
		s.findf(name, 1+bytes.Count(text[:at], []byte("\n")),
			`the line has a carriage return; save the file with LF line ends, and keep them with ".gitattributes: *.lua text eol=lf"`)
	}
	if at := bytes.IndexByte(text, 0); at >= 0 {
		s.findf(name, 1+bytes.Count(text[:at], []byte("\n")), `the line has a NUL byte; in a string write \0`)
	}
}

func (s *source) findf(name string, line int, format string, args ...any) {
	s.findings = append(s.findings, finding.Finding{Path: name, Line: line, Column: 1, Message: fmt.Sprintf(format, args...)})
}
