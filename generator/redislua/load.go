package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/check"
	"github.com/rlock-go/toolkit/generator/internal/file"
	"github.com/rlock-go/toolkit/generator/internal/finding"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// scriptSet is what a run knows of its scripts: load reads them, check judges them.
type scriptSet struct {
	scripts    []*script.Script // those with a header, in the order of their file names
	valid      []*script.Script // those of them that load has no finding about
	findings   []finding.Finding
	fragments  []string // paths of the files that the scripts include, also of those that do not exist
	unreadable bool     // a file or a directory cannot be read; a finding names it
}

// load reads and parses the scripts of the directories.
func load(dirs []string) *scriptSet {
	s := &scriptSet{}
	for _, path := range s.files(dirs) {
		s.parse(path)
	}
	return s
}

// files returns the Lua files of the directories, in the order of their names. It leaves
// out files whose names start with a dot, because editors keep such files.
func (s *scriptSet) files(dirs []string) []string {
	var paths []string
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			s.cannotRead(dir, "the directory cannot be read: %v; name another with -scripts", file.Cause(err))
			continue
		}
		found := false
		for _, entry := range entries {
			if name := entry.Name(); strings.HasSuffix(name, ".lua") && !strings.HasPrefix(name, ".") {
				paths, found = append(paths, filepath.Join(dir, name)), true
			}
		}
		if !found {
			s.cannotRead(dir, "the directory has no .lua file; name another with -scripts")
		}
	}
	slices.SortFunc(paths, func(a, b string) int {
		return cmp.Or(cmp.Compare(filepath.Base(a), filepath.Base(b)), cmp.Compare(a, b))
	})
	return slices.Compact(paths)
}

func (s *scriptSet) parse(path string) {
	text, err := file.Read(path)
	if err != nil {
		s.cannotRead(path, "the file cannot be read: %v", file.Cause(err))
		return
	}
	parsed, findings := script.Parse(filepath.ToSlash(path), text)
	s.findings = append(s.findings, findings...)
	for _, fragment := range parsed.Includes {
		s.fragments = append(s.fragments, filepath.FromSlash(fragment))
	}
	if parsed.Name == "" {
		return // its bytes are no text, so it has no header either
	}
	s.scripts = append(s.scripts, parsed)
	switch {
	case len(findings) == 0:
		s.valid = append(s.valid, parsed)
	case parsed.Body != nil:
		s.findings = append(s.findings, check.Body(parsed)...)
	}
}

// cannotRead adds a finding about a file or a directory. The run goes on with the other
// files, so that the user sees all findings at once.
func (s *scriptSet) cannotRead(path, format string, args ...any) {
	s.unreadable = true
	s.findings = append(s.findings,
		finding.Finding{Path: filepath.ToSlash(path), Line: 1, Column: 1, Rule: ruleFiles.Name,
			Message: fmt.Sprintf(format, args...)})
}
