package generator

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// wanted is a line of a script that says what -try finds.
var wanted = regexp.MustCompile(`(?m)^--> (\d+) (\S+) (.+)\n`)

// found takes a finding of -v apart.
var found = regexp.MustCompile(`(?m)^(\S+\.lua):(\d+):\d+: (.*) \[(run-[a-z]+)\]$`)

// buildGenerator returns a program that is the generator.
func buildGenerator(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "generator")
	_, stderr, err := run(t, root, nil, "build", "-o", program, "./generator/redislua")
	require.NoError(t, err, stderr)
	return program
}

// tryOut runs the generator, and returns what it prints.
func tryOut(t *testing.T, program string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, diagnostics strings.Builder
	command := exec.CommandContext(t.Context(), program, args...)
	command.Stdout, command.Stderr = &out, &diagnostics
	err = command.Run()
	return out.String(), diagnostics.String(), err
}

// faultyScripts writes the scripts of the table into a directory, and returns what is to be found of each
// file.
func faultyScripts(t *testing.T, dir string) map[string][][]string {
	t.Helper()
	archive, err := txtar.ParseFile(root + "/generator/internal/try/testdata/faults.txtar")
	require.NoError(t, err)
	want := map[string][][]string{}
	files := map[string]string{}
	for _, f := range archive.Files {
		want[f.Name] = [][]string{}
		for _, m := range wanted.FindAllStringSubmatch(string(f.Data), -1) {
			want[f.Name] = append(want[f.Name], m[1:])
		}
		files[f.Name] = wanted.ReplaceAllString(string(f.Data), "")
	}
	writeFiles(t, dir, files)
	return want
}

// A run finds what the table of scripts says and nothing else, on every server, and a second run prints the
// same.
func TestTryFindsFaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	want := faultyScripts(t, dir)
	program := buildGenerator(t)
	env.Each(t, func(t *testing.T, e env.Engine) {
		stdout, stderr, err := tryOut(t, program, "-scripts", dir, "-try", e.Path, "-v")
		require.Error(t, err)
		require.Contains(t, stdout, "endless.lua: with some arguments it does not end within 1s")
		require.Contains(t, stdout, "unknown.lua: it is not run, because the server does not know a command of it")
		got := map[string][]string{}
		for _, m := range found.FindAllStringSubmatch(stderr, -1) {
			name, err := filepath.Rel(dir, m[1])
			require.NoError(t, err)
			name = filepath.ToSlash(name)
			got[name] = append(got[name], fmt.Sprintf("%s %s %s", m[2], m[4], m[3]))
		}
		for name, findings := range want {
			for _, w := range findings {
				require.True(t, slices.ContainsFunc(got[name], func(g string) bool {
					return strings.HasPrefix(g, w[0]+" "+w[1]+" ") && strings.Contains(g, w[2])
				}), "%s: want %q, and there is %q", name, w, got[name])
			}
			for _, g := range got[name] {
				require.True(t, slices.ContainsFunc(findings, func(w []string) bool {
					return strings.HasPrefix(g, w[0]+" "+w[1]+" ")
				}), "%s: nobody wants %q", name, g)
			}
		}

		again, stderrAgain, err := tryOut(t, program, "-scripts", dir, "-try", e.Path, "-v")
		require.Error(t, err)
		require.Equal(t, stdout, again)
		require.Equal(t, stderr, stderrAgain)
	})
}

// Of the scripts of this project nothing is found.
func TestTryFindsNothing(t *testing.T) {
	t.Parallel()
	program := buildGenerator(t)
	directories := []string{"-scripts", root + "/scripts"}
	if !testing.Short() {
		directories = append(directories, "-scripts", "../corpus/lua")
	}
	env.Each(t, func(t *testing.T, e env.Engine) {
		_, stderr, err := tryOut(t, program, append(directories, "-try", e.Path)...)
		require.NoError(t, err, stderr)
		require.Empty(t, stderr)
	})
}

// On a server that others have started, a run leaves nothing, does not touch a server that has data, and does
// not run what may touch any key.
func TestTryOnAServerOfOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	faultyScripts(t, dir)
	program := buildGenerator(t)
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		stdout, stderr, err := tryOut(t, program, "-scripts", dir, "-try", "redis://"+server.Addr())
		require.Error(t, err)
		require.Contains(t, stdout, "read_writes.lua is not run")
		require.Contains(t, stderr, "repeat_list.lua:2:4: ")
		require.Contains(t, stderr, "repeat_counter.lua:2:4: ")
		require.Empty(t, strs(t, server.Do(t, "KEYS", "*")))
		require.Equal(t, []string{"default"}, strs(t, server.Do(t, "ACL", "USERS")))

		server.Do(t, "SELECT", "3")
		server.Do(t, "SET", "precious", "1")
		_, stderr, err = tryOut(t, program, "-scripts", dir, "-try", server.Addr())
		require.Error(t, err)
		require.Contains(t, stderr, "has data (db3:keys=1")
		require.Equal(t, []string{"precious"}, strs(t, server.Do(t, "KEYS", "*")))
		require.Equal(t, []string{"default"}, strs(t, server.Do(t, "ACL", "USERS")))
	})
}

// Ctrl-C ends a run, which leaves nothing behind: no user, no key, no server and no directory.
func TestTryIsInterrupted(t *testing.T) {
	t.Parallel()
	program := buildGenerator(t)
	dir := t.TempDir()
	writeFiles(t, dir,
		map[string]string{"slow.lua": "-- mode: write\n-- KEYS[1..] k key\n-- ARGV[1] n int\n-- " +
			"returns: none\n" +
			"for _, key in ipairs(KEYS) do redis.call('SET', key, ARGV[1]) end\nfor i = 1, 5000000 do math.floor(i) " +
			"end\n"})
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		for _, where := range []string{server.Addr(), e.Path} {
			temporary := t.TempDir()
			command := exec.CommandContext(t.Context(), program, "-scripts", dir, "-try", where)
			command.Env = append(os.Environ(), "TMPDIR="+temporary)
			var stderr strings.Builder
			command.Stderr = &stderr
			require.NoError(t, command.Start())
			env.Soon(t, func() bool {
				started, err := os.ReadDir(temporary)
				users := strs(t, server.Do(t, "ACL", "USERS"))
				return err == nil && len(started)+len(users) > 1 &&
					(where == e.Path || len(strs(t, server.Do(t, "KEYS", "*"))) > 0)
			}, "the run has begun")
			require.NoError(t, command.Process.Signal(os.Interrupt))
			require.Error(t, command.Wait())
			require.Contains(t, stderr.String(), "context canceled")
			left, err := os.ReadDir(temporary)
			require.NoError(t, err)
			require.Empty(t, left)
			require.Empty(t, strs(t, server.Do(t, "KEYS", "*")))
			require.Equal(t, []string{"default"}, strs(t, server.Do(t, "ACL", "USERS")))
		}
	})
}

// What a run prints is a Go test of the package of the bindings, which fails until the script is mended.
func TestTryPrintsTests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := buildGenerator(t)
	lua, bindings := filepath.Join(dir, "lua"), filepath.Join(dir, "bindings")
	faultyScripts(t, lua)
	require.NoError(t, os.Remove(filepath.Join(lua, "endless.lua")))
	require.NoError(t, os.Remove(filepath.Join(lua, "crash.lua")))
	_, refused, err := tryOut(t, program, "-scripts", lua, "-audit")
	require.Error(t, err)
	for _, m := range regexp.MustCompile(`(?m)^(\S+\.lua):\d+`).FindAllStringSubmatch(refused, -1) {
		_ = os.Remove(m[1]) // it may have several findings
	}
	stranger(t, dir, "example.test/tried", false)
	_, stderr, err := tryOut(t, program, "-scripts", lua, "-out", bindings)
	require.NoError(t, err, stderr)

	server := env.Start(t)
	stdout, _, err := tryOut(t, program, "-scripts", lua, "-out", bindings, "-try", env.Engines(t)[0].Path)
	require.Error(t, err)
	test := strings.ReplaceAll(stdout, "127.0.0.1:6379", server.Addr())
	writeFiles(t, dir, map[string]string{"bindings/try_test.go": test})
	out, stderr, err := run(t, dir, offline, "test", "-json", "./bindings")
	require.Error(t, err, out+stderr)
	names := regexp.MustCompile(`(?m)^func (Test\w+)`).FindAllStringSubmatch(test, -1)
	require.Greater(t, len(names), 3, test)
	for _, name := range names {
		require.Regexp(t, `"Action":"fail".*"Test":"`+name[1]+`"`, out, "%s does not fail:\n%s", name[1], test)
	}
}

// strs returns the texts of a reply, sorted.
func strs(t *testing.T, m rueidis.RedisMessage) []string {
	t.Helper()
	texts, err := m.AsStrSlice()
	require.NoError(t, err)
	slices.Sort(texts)
	return texts
}
