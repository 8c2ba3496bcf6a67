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
)

// Every Go snippet of the README stands in an example, line by line, and so
// compiles and runs.
func TestReadmeSnippetsAreExamples(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	examples, err := os.ReadFile(filepath.Join(root, "rlock", "example_test.go"))
	require.NoError(t, err)
	code := unindented(string(examples))

	snippets := goSnippet.FindAllStringSubmatch(string(readme), -1)
	require.NotEmpty(t, snippets)
	for _, snippet := range snippets {
		require.Contains(t, code, unindented(snippet[1]))
	}
}

// Every whole script of the README passes the generator.
func TestReadmeScriptsPass(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	dir := t.TempDir()
	scripts := 0
	for _, snippet := range regexp.MustCompile("(?s)```lua\n(.*?)```").FindAllStringSubmatch(string(readme), -1) {
		if !strings.Contains(snippet[1], "\nreturn ") {
			continue // a header alone
		}
		scripts++
		name := filepath.Join(dir, "lua", fmt.Sprintf("script%d.lua", scripts))
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o777))
		require.NoError(t, os.WriteFile(name, []byte(snippet[1]), 0o666))
	}
	require.Equal(t, 2, scripts)
	_, stderr, err := run(t, root, nil, "run", "./generator", "-scripts", filepath.Join(dir, "lua"), "-out", filepath.Join(dir, "bindings"))
	require.NoError(t, err, stderr)
}

var (
	goSnippet  = regexp.MustCompile("(?s)```go\n(.*?)```")
	function   = regexp.MustCompile(`(?m)^func (?:\(\w+ \*?(\w+)\) )?([A-Z]\w*)`)
	calledName = regexp.MustCompile(`\b(?:(?:rlock|rlocktest|locker|lock)\.[A-Z]\w*|With[A-Z]\w+)`)
)

// The functions of rlock and rlocktest that the README's prose names exist.
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
