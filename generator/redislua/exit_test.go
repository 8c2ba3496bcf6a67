package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// build compiles the command, as go tool does it for a user.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "redislua.exe")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

// put writes files below a directory.
func put(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
}

const (
	goodScript = "-- mode: read\n-- KEYS[1] k key\n-- returns: int\nreturn redis.call('EXISTS', KEYS[1])\n"
	badScript  = "-- mode: read\n-- KEYS[1] k key\n-- returns: int\nreturn redis.call('INCR', KEYS[1])\n"
)

// The exit codes of the built program: 0 if all is well, 1 for findings and drift, 2 for a
// wrong command line, and for files and servers that fail.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	binary := build(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close()) // nobody listens there any more

	fine := map[string]string{"scripts/a.lua": goodScript}
	foreign := map[string]string{"scripts/a.lua": goodScript, "gen/scripts.go": "package gen\n"}
	for name, c := range map[string]struct {
		files map[string]string
		first []string // a run before, which must succeed
		args  []string
		code  int
	}{
		"bindings written":    {fine, nil, nil, 0},
		"help":                {nil, nil, []string{"-help"}, 0},
		"audit":               {fine, nil, []string{"-audit", "-json"}, 0},
		"no drift":            {fine, []string{}, []string{"-check"}, 0},
		"no finding as SARIF": {fine, []string{}, []string{"-check", "-format", "sarif"}, 0},
		"findings":            {map[string]string{"scripts/a.lua": badScript}, nil, nil, 1},
		"findings for GitHub": {map[string]string{"scripts/a.lua": badScript}, nil,
			[]string{"-format", "github"}, 1},
		"findings as SARIF": {map[string]string{"scripts/a.lua": badScript}, nil,
			[]string{"-format", "sarif"}, 1},
		"findings with -audit":        {map[string]string{"scripts/a.lua": badScript}, nil, []string{"-audit"}, 1},
		"drift":                       {fine, nil, []string{"-check"}, 1},
		"drift for GitHub":            {fine, nil, []string{"-check", "-format", "github"}, 1},
		"no Lua at all":               {map[string]string{"scripts/a.lua": "if"}, nil, nil, 1},
		"unknown flag":                {fine, nil, []string{"-nonsense"}, 2},
		"argument":                    {fine, nil, []string{"scripts"}, 2},
		"flags that exclude others":   {fine, nil, []string{"-check", "-audit"}, 2},
		"unknown format":              {fine, nil, []string{"-format", "xml"}, 2},
		"no name of a package":        {fine, nil, []string{"-out", "a-b"}, 2},
		"no directory":                {nil, nil, nil, 2},
		"a directory without scripts": {map[string]string{"scripts/readme": ""}, nil, nil, 2},
		"unreadable beside findings": {map[string]string{"scripts/a.lua": badScript}, nil,
			[]string{"-scripts", "scripts", "-scripts", "none"}, 2},
		"unreadable as SARIF":          {nil, nil, []string{"-format", "sarif"}, 2},
		"a file where a directory is":  {map[string]string{"scripts/a.lua": goodScript, "gen": ""}, nil, nil, 2},
		"a file that is not generated": {foreign, nil, nil, 2},
		"no server":                    {fine, nil, []string{"-redis", closed.Addr().String()}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			put(t, dir, c.files)
			exit := func(args ...string) (int, string) {
				command := exec.CommandContext(t.Context(), binary, args...)
				command.Dir = dir
				out, err := command.CombinedOutput()
				if failed := new(exec.ExitError); errors.As(err, &failed) {
					return failed.ExitCode(), string(out)
				}
				require.NoError(t, err)
				return 0, string(out)
			}
			if c.first != nil {
				code, said := exit(c.first...)
				require.Zero(t, code, said)
			}
			code, said := exit(c.args...)
			require.Equal(t, c.code, code, said)
			if code != 0 {
				require.NotEmpty(t, said, "a failure says why")
			}
		})
	}
	t.Run("an output that cannot be written", func(t *testing.T) {
		readable, err := os.Open(os.DevNull)
		require.NoError(t, err)
		defer readable.Close()
		dir := t.TempDir()
		put(t, dir, fine)
		command := exec.CommandContext(t.Context(), binary, "-audit")
		command.Dir, command.Stdout = dir, readable
		var failed *exec.ExitError
		require.ErrorAs(t, command.Run(), &failed)
		require.Equal(t, 2, failed.ExitCode())
	})
}
