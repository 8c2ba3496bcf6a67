package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/audit"
	"github.com/rlock-go/toolkit/generator/internal/check"
	"github.com/rlock-go/toolkit/generator/internal/emit"
	"github.com/rlock-go/toolkit/generator/internal/file"
	"github.com/rlock-go/toolkit/generator/internal/finding"
	"github.com/rlock-go/toolkit/generator/internal/script"
	"github.com/rlock-go/toolkit/generator/internal/servercheck"
)

// source is a set of scripts as far as they could be read.
type source struct {
	scripts    []*script.Script // with a header, in the order of their file names
	audits     []audit.Script   // of those without findings
	findings   []finding.Finding
	unreadable bool // a file or directory could not be read; a finding says so
}

// load reads the scripts and checks them, each by itself and all of them together.
func load(o options) (source, error) {
	var s source
	for _, path := range s.files(o.scripts) {
		s.read(path)
	}
	reserved, err := emit.Reserved()
	if err != nil {
		return s, err
	}
	s.findings = append(s.findings, check.Package(s.scripts, reserved)...)
	if o.redis != "" && len(s.findings) == 0 {
		s.findings, err = servercheck.Run(context.Background(), o.redis, s.scripts)
	}
	return s, err
}

// files returns the Lua files of the directories, by file name. Those whose names
// start with a dot are left out: editors keep such files.
func (s *source) files(dirs []string) []string {
	var paths []string
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			s.lost(dir, "the directory cannot be read: %v; name another with -scripts", file.Cause(err))
			continue
		}
		found := false
		for _, entry := range entries {
			if name := entry.Name(); strings.HasSuffix(name, ".lua") && !strings.HasPrefix(name, ".") {
				paths, found = append(paths, filepath.Join(dir, name)), true
			}
		}
		if !found {
			s.lost(dir, "the directory has no .lua file; name another with -scripts")
		}
	}
	slices.SortFunc(paths, func(a, b string) int {
		return cmp.Or(cmp.Compare(filepath.Base(a), filepath.Base(b)), cmp.Compare(a, b))
	})
	return slices.Compact(paths)
}

func (s *source) read(path string) {
	text, err := file.Read(path)
	if err != nil {
		s.lost(path, "the file cannot be read: %v", file.Cause(err))
		return
	}
	parsed, found := script.Parse(filepath.ToSlash(path), text)
	if len(found) == 0 {
		var report check.Report
		report, found = check.Script(parsed)
		s.audits = append(s.audits, audit.Of(parsed, report))
	}
	s.findings = append(s.findings, found...)
	if parsed.Name != "" { // else its bytes could not even be read as a header
		s.scripts = append(s.scripts, parsed)
	}
}

// lost notes what could not be read. The other files are read all the same, so that
// one run tells everything.
func (s *source) lost(path, format string, args ...any) {
	s.unreadable = true
	s.findings = append(s.findings, finding.Finding{Path: filepath.ToSlash(path), Line: 1, Column: 1, Message: fmt.Sprintf(format, args...)})
}

// report prints the findings.
func (s *source) report(stderr io.Writer) error {
	for _, f := range finding.Sort(s.findings) {
		fmt.Fprintln(stderr, f)
	}
	switch {
	case s.unreadable:
		return errUnreadable
	case len(s.findings) > 0:
		return errReported
	}
	return nil
}
