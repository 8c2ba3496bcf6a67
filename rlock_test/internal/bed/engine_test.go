package bed_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

// script writes a wrapper script; a server in it gets the script's arguments.
func script(t *testing.T, name, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700))
	return path
}

// fatal runs fn with a testing.TB that records a failure instead of failing.
func fatal(t *testing.T, fn func(tb testing.TB)) string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn(r)
	}()
	<-done
	return r.message
}

type recorder struct {
	testing.TB
	message string
}

func (r *recorder) Fatal(args ...any) {
	r.message = strings.TrimSuffix(fmt.Sprintln(args...), "\n")
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }

func TestEnginesFindsServersOnPath(t *testing.T) {
	t.Setenv("RLOCK_SERVERS", "")
	for _, e := range bed.Engines(t) {
		require.FileExists(t, e.Path)
		require.Regexp(t, `^(redis|valkey) \d+\.\d+\.\d+`, e.Version)
	}
}

func TestEnginesTakesServersFromEnvironment(t *testing.T) {
	first := script(t, "one", "echo 'Redis server v=6.2.14 sha=00000000:0 malloc=jemalloc bits=64'")
	second := script(t, "two", "echo 'Valkey server v=8.1.2 sha=00000000:0 malloc=jemalloc bits=64'")
	third := script(t, "three", "echo 'Server v=7.2.5 sha=00000000:0 malloc=jemalloc bits=64'")
	list := string(os.PathListSeparator)
	t.Setenv("RLOCK_SERVERS", strings.Join([]string{first, second, "", third}, list))

	require.Equal(t, []bed.Engine{
		{Path: first, Version: "redis 6.2.14"},
		{Path: second, Version: "valkey 8.1.2"},
		{Path: third, Version: "valkey 7.2.5"},
	}, bed.Engines(t))
}

func TestEnginesFailsWithoutServer(t *testing.T) {
	t.Setenv("RLOCK_SERVERS", "")
	t.Setenv("PATH", t.TempDir())
	message := fatal(t, func(tb testing.TB) { bed.Engines(tb) })
	require.Contains(t, message, "redis-server")
	require.Contains(t, message, "valkey-server")
	require.Contains(t, message, "RLOCK_SERVERS")
	require.NotContains(t, message, "\n")
}

func TestEnginesFailsWithUnusableServer(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing-server")
	silent := script(t, "silent", "exit 0")
	for _, path := range []string{missing, silent} {
		t.Setenv("RLOCK_SERVERS", path)
		require.Contains(t, fatal(t, func(tb testing.TB) { bed.Engines(tb) }), path)
	}
}

func TestEachRunsSubtestPerServer(t *testing.T) {
	t.Setenv("RLOCK_SERVERS", script(t, "one", "echo 'Redis server v=6.2.14 sha=0'"))
	var names []string
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		require.Equal(t, "redis 6.2.14", e.Version)
		names = append(names, t.Name())
	})
	require.Equal(t, []string{t.Name() + "/redis-6.2.14"}, names)
}
