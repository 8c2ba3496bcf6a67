// Package report prints findings for people, as annotations of GitHub, or as SARIF. It does not know how
// package check finds them.
package report

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf16"

	"github.com/rlock-go/toolkit/generator/internal/file"
	"github.com/rlock-go/toolkit/generator/internal/finding"
)

type Format string

// The formats.
const (
	Text   Format = "text"   // path:line:col: message
	GitHub Format = "github" // workflow commands, which GitHub turns into annotations
	SARIF  Format = "sarif"  // a SARIF 2.1.0 log
)

// Formats are all formats, in the order that messages show.
var Formats = []Format{Text, GitHub, SARIF}

// unnamed is the rule of findings without a rule. They say that the text is not a script.
var unnamed = finding.Rule{Name: "script", Demand: "the text can be read as a script with a header"}

// Findings prints findings in a format. The list is in the order of finding.Sort. rules are all rules that
// findings may name. Findings prints a SARIF log even without findings, because its reader then learns that
// the earlier findings are mended.
func Findings(w io.Writer, format Format, findings []finding.Finding, rules []finding.Rule) error {
	switch format {
	case GitHub:
		return annotate(w, findings)
	case SARIF:
		return writeLog(w, findings, append([]finding.Rule{unnamed}, rules...))
	}
	for _, f := range findings {
		if _, err := fmt.Fprintln(w, f); err != nil {
			return err
		}
	}
	return nil
}

func ruleOf(f finding.Finding) string {
	if f.Rule == "" {
		return unnamed.Name
	}
	return f.Rule
}

// places converts the places of findings for services of repositories. There, the path is relative to the
// repository, and the column counts UTF-16 code units. In a finding, the path is relative to the working
// directory, and the column counts bytes.
type places struct {
	root  string
	lines map[string][]string // of the files that it read, by path
}

// newPlaces takes the repository of the working directory, which GitHub names in GITHUB_WORKSPACE. Without a
// repository, it takes the working directory itself.
func newPlaces() *places {
	p := &places{lines: map[string][]string{}}
	if p.root = os.Getenv("GITHUB_WORKSPACE"); p.root != "" {
		return p
	}
	here, err := os.Getwd()
	if err != nil {
		return p
	}
	for dir := here; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			p.root = dir
			return p
		}
		if dir == filepath.Dir(dir) {
			p.root = here
			return p
		}
	}
}

// path returns the path of a file in the repository, with slashes. If the file is elsewhere, inside is false
// and the path is absolute.
func (p *places) path(name string) (path string, inside bool) {
	absolute, err := filepath.Abs(name)
	if err != nil {
		return filepath.ToSlash(name), true
	}
	relative, err := filepath.Rel(p.root, absolute)
	if err != nil || relative == ".." || strings.HasPrefix(relative, ".."+string(filepath.Separator)) {
		return filepath.ToSlash(absolute), false
	}
	return filepath.ToSlash(relative), true
}

// column returns the column of a finding in UTF-16 code units, from 1. If it cannot read the line, it returns
// the column in bytes, which is the same for ASCII.
func (p *places) column(f finding.Finding) int {
	lines, read := p.lines[f.Path]
	if !read {
		if text, err := file.Read(filepath.FromSlash(f.Path)); err == nil {
			lines = strings.Split(string(text), "\n")
		}
		p.lines[f.Path] = lines
	}
	if f.Line < 1 || f.Line > len(lines) || f.Column < 1 || f.Column-1 > len(lines[f.Line-1]) {
		return f.Column
	}
	return 1 + len(utf16.Encode([]rune(lines[f.Line-1][:f.Column-1])))
}
