package main

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var fenced = regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$")

// CONTRIBUTING.md changes a script of this module. What it says of each step is so.
func TestContributingExample(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../CONTRIBUTING.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "## Change a Lua script\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := fenced.FindAllStringSubmatch(section, -1)
	languages := make([]string, len(blocks))
	for i, b := range blocks {
		languages[i] = b[1]
	}
	require.Equal(t, []string{"go", "diff", "", "diff", "go"}, languages)
	declare, finding, give, result := blocks[1][2], blocks[2][2], blocks[3][2], blocks[4][2]

	dir := t.TempDir()
	lua, out := filepath.Join(dir, "scripts"), filepath.Join(dir, "gen")
	require.NoError(t, os.CopyFS(lua, os.DirFS("../../scripts")))
	script := filepath.Join(lua, "attach.lua")
	change := func(diff string) {
		t.Helper()
		text, err := os.ReadFile(script)
		require.NoError(t, err)
		lines := strings.Split(strings.TrimSpace(diff), "\n")
		for i := 0; i < len(lines); i += 2 {
			before, removes := strings.CutPrefix(lines[i], "-")
			after, adds := strings.CutPrefix(lines[i+1], "+")
			require.True(t, removes && adds, diff)
			require.Equal(t, 1, bytes.Count(text, []byte("\n"+before+"\n")), before)
			text = bytes.Replace(text, []byte("\n"+before+"\n"), []byte("\n"+after+"\n"), 1)
		}
		require.NoError(t, os.WriteFile(script, text, 0o666))
	}
	generate := func() (string, error) {
		var stdout, stderr bytes.Buffer
		err := run([]string{"-scripts", lua, "-out", out}, &stdout, &stderr)
		return strings.ReplaceAll(stderr.String(), filepath.ToSlash(lua), "../scripts"), err
	}

	change(declare)
	said, err := generate()
	require.ErrorIs(t, err, errReported)
	require.Equal(t, finding, said)
	require.NoDirExists(t, out)

	change(give)
	said, err = generate()
	require.NoError(t, err, said)
	text, err := os.ReadFile(filepath.Join(out, "attach.lua.go"))
	require.NoError(t, err)
	require.Contains(t, string(text), result)
}

// The tests that CONTRIBUTING.md names exist, but for the one that it writes.
func TestContributingNamesTests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../CONTRIBUTING.md")
	require.NoError(t, err)
	names := map[string]bool{}
	for _, name := range regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*`).FindAllString(
		fenced.ReplaceAllString(string(page), ""), -1) {
		names[name] = true
	}
	require.NotEmpty(t, names)
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	require.NoError(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			delete(names, string(m[1]))
		}
		return err
	}))
	require.Empty(t, slices.Sorted(maps.Keys(names)))
}
