package generator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// What a server refuses becomes a finding, in the file and line that a person
// edits.
func TestServerCompilesScripts(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		_, stderr, err := run(t, root, nil, "run", "./generator/redislua", "-redis", server.Addr(), "-audit")
		require.NoError(t, err, stderr)
		_, stderr, err = run(t, root, nil, "run", "./generator/redislua", "-redis", "redis://"+server.Addr(),
			"-audit")
		require.NoError(t, err, stderr)

		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "shared"), 0o777))
		write := func(name, text string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
		}
		write("many.lua", "-- mode: read\n-- returns: int\n\n-- include: shared/locals.lua\nreturn 1\n")
		write("shared/locals.lua", strings.Repeat("local a = 1\n", 201))
		_, stderr, err = run(t, root, nil, "run", "./generator/redislua", "-scripts", dir, "-out",
			filepath.Join(dir, "out"), "-redis", server.Addr())
		require.Error(t, err)
		require.Contains(t, stderr, "shared/locals.lua:201:1: the server refuses it: ")
		require.Contains(t, stderr, "local variables")
		require.NoDirExists(t, filepath.Join(dir, "out"))

		server.Kill()
		_, stderr, err = run(t, root, nil, "run", "./generator/redislua", "-redis", server.Addr(), "-audit")
		require.Error(t, err)
		require.Contains(t, stderr, "redislua: -redis: ")
	})
}
