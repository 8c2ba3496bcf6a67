package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCopies(t *testing.T) {
	t.Parallel()
	const dir = "../.."
	copied := map[string]bool{}
	require.NoError(t, each(dir, func(file, to string) error {
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		got, err := os.ReadFile(to)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got),
			"%s is a copy of %s; edit that, and run go generate ./redislua/...", to, file)
		copied[to] = true
		return nil
	}))
	for _, pattern := range []string{runtime + "*/*", goredis + "testdata/fuzz/FuzzDecode/*"} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		for _, path := range paths {
			require.Contains(t, copied, path, "it is a copy of nothing; remove it")
		}
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "redislua")
	require.ErrorContains(t, write(dir), "luaimpl/call*.go: there is no such file")
	require.NoError(t, os.CopyFS(dir, os.DirFS("../..")))
	const name = "goredis/luaimpl/call.go"
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("package luaimpl\n"), 0o666))
	require.NoError(t, write(dir))
	want, err := os.ReadFile(filepath.Join(dir, "luaimpl/call.go"))
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}
