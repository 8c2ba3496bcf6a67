package main

import (
	"bytes"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// examples returns the indented texts that start as a script does. A blank line does
// not end one.
func examples(text string) []string {
	var all []string
	var example []string
	end := func() {
		if lua := strings.TrimRight(strings.Join(example, "\n"), "\n"); strings.HasPrefix(lua, "-- ") {
			all = append(all, lua+"\n")
		}
		example = nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		indented, is := strings.CutPrefix(line, "\t")
		switch {
		case is:
			example = append(example, indented)
		case line == "" && example != nil:
			example = append(example, "")
		default:
			end()
		}
	}
	end()
	return all
}

// requireAccepted runs the generator on one script.
func requireAccepted(t *testing.T, lua string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "example.lua"), []byte(lua), 0o666))
	var stdout, stderr bytes.Buffer
	err := run([]string{"-scripts", dir, "-out", filepath.Join(dir, "bindings")}, &stdout, &stderr)
	require.NoError(t, err, "%s\n%s", stderr.String(), lua)
}

// The scripts in the documentation are accepted as they stand.
func TestDocumentedExamples(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "doc.go", nil, parser.ParseComments)
	require.NoError(t, err)
	scripts := 0
	for _, lua := range examples(file.Doc.Text()) {
		if lua == "-- include: shared/window.lua\n" {
			continue // a line, not a script
		}
		scripts++
		requireAccepted(t, lua)
	}
	require.NotZero(t, scripts)
}

// So is the script that -help shows, and what it says of its bindings is true.
func TestHelpExample(t *testing.T) {
	t.Parallel()
	var scripts []string
	for _, lua := range examples(usage) {
		scripts = append(scripts, lua)
		requireAccepted(t, lua)
	}
	require.Len(t, scripts, 1)

	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "visit.lua"), []byte(scripts[0]), 0o666))
	var stdout, stderr bytes.Buffer
	out := filepath.Join(dir, "bindings")
	require.NoError(t, run([]string{"-scripts", dir, "-out", out}, &stdout, &stderr), stderr.String())
	text, err := os.ReadFile(filepath.Join(out, "visit.lua.go"))
	require.NoError(t, err)
	require.Contains(t, usage, "bindings.New().Visit(ctx, client, bindings.VisitParams{Visits: \"v\", Keep: "+
		"time.Hour})")
	require.Contains(t, string(text),
		"Visit(ctx context.Context, c rueidis.Client, p VisitParams) (int64, error)")
	require.Regexp(t, `Visits\s+string`, string(text))
	require.Regexp(t, `Keep\s+time.Duration`, string(text))
}
