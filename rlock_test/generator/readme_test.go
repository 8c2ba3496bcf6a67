package generator

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// pages are those of the root directory and of docs. MIGRATION.md has the code of other libraries, and a test
// of its own in rlock_test/interop.
var pages = []string{
	"README.md", "SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md",
	"docs/PRODUCTION.md", "docs/RUNBOOK.md", "docs/SERVERS.md", "docs/MIGRATION.md",
}

func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	require.NoError(t, err)
	return string(text)
}

// Every Go snippet of README.md and PRODUCTION.md stands in an example, line by line, and so
// compiles and runs.
func TestReadmeSnippetsAreExamples(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob(filepath.Join(root, "rlock", "example*_test.go"))
	require.NoError(t, err)
	var code string
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		code += unindented(string(text))
	}
	for _, name := range []string{"README.md", "docs/PRODUCTION.md"} {
		snippets := goSnippet.FindAllStringSubmatch(page(t, name), -1)
		require.NotEmpty(t, snippets)
		for _, snippet := range snippets {
			if strings.HasPrefix(snippet[1], "package main\n") {
				continue // TestReadmeProgram runs it
			}
			require.True(t, strings.Contains(code, strings.TrimSpace(unindented(snippet[1]))),
				"%s has code that is in no example:\n%s", name, snippet[1])
		}
	}
}

// The whole program of the README runs as it stands, but for the address.
func TestReadmeProgram(t *testing.T) {
	t.Parallel()
	_, program, found := strings.Cut(page(t, "README.md"), "```go\npackage main\n")
	require.True(t, found)
	program, _, _ = strings.Cut(program, "```")
	const address = "localhost:6379"
	require.Equal(t, 1, strings.Count(program, address))
	path := filepath.Join(t.TempDir(), "main.go")
	server := env.Start(t)
	require.NoError(t, os.WriteFile(path,
		[]byte("package main\n"+strings.Replace(program, address, server.Addr(), 1)), 0o666))
	stdout, stderr, err := run(t, root, nil, "run", path)
	require.NoError(t, err, stderr)
	require.Equal(t, "alone with report:2026-11\n", stdout)
}

// The tests that the pages name exist.
func TestPagesNameTests(t *testing.T) {
	t.Parallel()
	tests := testsOf(t, root)
	for _, name := range pages {
		if name == "CONTRIBUTING.md" {
			continue // it writes one, and has a test of its own
		}
		for _, test := range testName.FindAllString(page(t, name), -1) {
			require.True(t, tests[test], "%s names %s, which does not exist", name, test)
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
)

// The links of the pages lead to files and headings that exist.
func TestPagesLinks(t *testing.T) {
	t.Parallel()
	for _, name := range append([]string{"docs/GENERATOR.md", "docs/INTEROP.md", "docs/GUARANTEES.md",
		"docs/CLIENT.md", "rlock_test/README.md"}, pages...) {
		for _, match := range link.FindAllStringSubmatch(page(t, name), -1) {
			if strings.Contains(match[1], "://") {
				continue
			}
			target, anchor, anchored := strings.Cut(match[1], "#")
			path := filepath.Join(root, filepath.Dir(filepath.FromSlash(name)), filepath.FromSlash(target))
			if target == "" {
				path = filepath.Join(root, filepath.FromSlash(name))
			}
			_, err := os.Stat(path)
			require.NoError(t, err, "%s links to %s", name, match[1])
			if !anchored {
				continue
			}
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			var anchors []string
			for _, h := range heading.FindAllStringSubmatch(string(text), -1) {
				anchors = append(anchors, strings.ReplaceAll(strings.ToLower(strings.ReplaceAll(h[1], ",", "")), " ",
					"-"))
			}
			require.Contains(t, anchors, anchor, "%s links to %s", name, match[1])
		}
	}
}

// The page of the black-box tests names every folder of them.
func TestPagesNameFolders(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(filepath.Join(root, "rlock_test"))
	require.NoError(t, err)
	for _, entry := range entries {
		if entry.IsDir() {
			require.Contains(t, page(t, "rlock_test/README.md"), "`"+entry.Name()+"/`")
		}
	}
}

// Every whole script of the generator's page passes the generator.
func TestReadmeScriptsPass(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	scripts := 0
	for _, snippet := range regexp.MustCompile("(?s)```lua\n(.*?)```").FindAllStringSubmatch(
		page(t, "docs/GENERATOR.md"), -1) {
		if !strings.Contains(snippet[1], "\nreturn ") {
			continue // a part of a script
		}
		scripts++
		name := filepath.Join(dir, "lua", fmt.Sprintf("script%d.lua", scripts))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o777))
		require.NoError(t, os.WriteFile(name, []byte(snippet[1]), 0o666))
	}
	require.NotZero(t, scripts)
	_, stderr, err := run(t, root, nil, "run", "./generator/redislua", "-scripts", filepath.Join(dir, "lua"),
		"-out", filepath.Join(dir, "bindings"))
	require.NoError(t, err, stderr)
}

// The figures of the generator's page about public scripts are those of the table.
func TestPublicFigures(t *testing.T) {
	t.Parallel()
	rows := strings.Split(strings.TrimSuffix(page(t, "rlock_test/corpus/public.tsv"), "\n"), "\n")
	projects, outcomes := map[string]bool{}, map[string]int{}
	for _, row := range rows[1:] {
		cells := strings.Split(row, "\t")
		require.Len(t, cells, 8, row)
		outcome, _, _ := strings.Cut(strings.ReplaceAll(cells[7], ",", ""), " ")
		projects[cells[0]] = true
		outcomes[strings.TrimSuffix(outcome, ":")]++
	}
	require.Len(t, outcomes, 3)
	text := strings.Join(strings.Fields(page(t, "docs/GENERATOR.md")), " ")
	require.Contains(t, text, fmt.Sprintf("%d scripts of %d public projects", len(rows)-1, len(projects)))
	require.Contains(t, text, fmt.Sprintf("accepts %d of the %d scripts",
		outcomes["accepted"]+outcomes["mended"], len(rows)-1))
	require.Contains(t, text, fmt.Sprintf("accepts %d of the %d only because we changed",
		outcomes["mended"], outcomes["accepted"]+outcomes["mended"]))
}

var (
	goSnippet  = regexp.MustCompile("(?s)```go\n(.*?)```")
	function   = regexp.MustCompile(`(?m)^func (?:\(\w+ \*?(\w+)\) )?([A-Z]\w*)`)
	sentinel   = regexp.MustCompile(`(?m)^\t(Err[A-Z]\w*)\b`)
	calledName = regexp.MustCompile(`\b(?:(?:rlock|rlocktest|locker|lock)\.[A-Z]\w*|With[A-Z]\w+)`)
)

// The functions and errors of rlock and rlocktest that the README's prose names exist.
func TestReadmeNamesExist(t *testing.T) {
	t.Parallel()
	exist := map[string]bool{}
	for pkg, dir := range map[string]string{"rlock": "rlock", "rlocktest": "rlock/rlocktest"} {
		paths, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*.go"))
		require.NoError(t, err)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			for _, f := range function.FindAllStringSubmatch(string(text), -1) {
				exist[cmp.Or(strings.ToLower(f[1]), pkg)+"."+f[2]] = true
			}
			for _, e := range sentinel.FindAllStringSubmatch(string(text), -1) {
				exist[pkg+"."+e[1]] = true
			}
		}
	}
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	names := calledName.FindAllString(goSnippet.ReplaceAllString(string(readme), ""), -1)
	require.NotEmpty(t, names)
	for _, name := range names {
		if !strings.Contains(name, ".") {
			name = "rlock." + name
		}
		require.True(t, exist[name], "the README has %s, which does not exist", name)
	}
}

func unindented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}
