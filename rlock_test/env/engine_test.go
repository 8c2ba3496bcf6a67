package env_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
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

// server is a program that says it is a Redis of a version.
func server(t *testing.T, dir, name, version string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\necho 'Redis server v="+version+" sha=0'\n"), 0o700))
	return path
}

// Without any variable there is a server to test with wherever one was unpacked, and
// one that is installed is only taken where none was.
func TestEnginesFindsServers(t *testing.T) {
	home, installed := t.TempDir(), t.TempDir()
	dir := filepath.Join(home, ".cache", "rlock-engines")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	for _, name := range []string{"RLOCK_SERVERS", "RLOCK_ENGINES", "XDG_CACHE_HOME"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", home)
	t.Setenv("PATH", installed)

	onPath := server(t, installed, "valkey-server", "1.0.0")
	require.Equal(t, []env.Engine{{Path: onPath, Version: "redis 1.0.0"}}, env.Engines(t))
	valkey := server(t, dir, "valkey8", "8.0.1")
	require.Equal(t, []env.Engine{{Path: valkey, Version: "redis 8.0.1"}}, env.Engines(t))
	redis := server(t, dir, "redis7", "7.0.0")
	require.Equal(t, []env.Engine{{Path: redis, Version: "redis 7.0.0"}}, env.Engines(t), "one, and the oldest")

	t.Setenv("RLOCK_SERVERS", "valkey8")
	require.Equal(t, []env.Engine{{Path: valkey, Version: "redis 8.0.1"}}, env.Engines(t))
	t.Setenv("RLOCK_SERVERS", "all")
	require.Len(t, env.Engines(t), 2)
	t.Setenv("RLOCK_SERVERS", "redis8")
	require.Contains(t, fatal(t, func(tb testing.TB) { env.Engines(tb) }), "make setup")
	t.Setenv("RLOCK_SERVERS", "")
	t.Setenv("RLOCK_ENGINES", t.TempDir())
	require.Equal(t, onPath, env.Engines(t)[0].Path, "RLOCK_ENGINES says where they are")
}

// A program says its version once, however often a package of tests asks.
func TestVersionIsAskedForOnce(t *testing.T) {
	asked := filepath.Join(t.TempDir(), "asked")
	t.Setenv("RLOCK_SERVERS", script(t, "one", "echo x >>'"+asked+"'; echo 'Redis server v=7.0.0 sha=0'"))
	for range 3 {
		require.Equal(t, "redis 7.0.0", env.Engines(t)[0].Version)
	}
	text, err := os.ReadFile(asked)
	require.NoError(t, err)
	require.Equal(t, "x\n", string(text))
}

func TestEnginesTakesServersFromEnvironment(t *testing.T) {
	first := script(t, "one", "echo 'Redis server v=6.2.14 sha=00000000:0 malloc=jemalloc bits=64'")
	second := script(t, "two", "echo 'Valkey server v=8.1.2 sha=00000000:0 malloc=jemalloc bits=64'")
	third := script(t, "three", "echo 'Server v=7.2.5 sha=00000000:0 malloc=jemalloc bits=64'")
	list := string(os.PathListSeparator)
	t.Setenv("RLOCK_SERVERS", strings.Join([]string{first, second, "", third}, list))

	require.Equal(t, []env.Engine{
		{Path: first, Version: "redis 6.2.14"},
		{Path: second, Version: "valkey 8.1.2"},
		{Path: third, Version: "valkey 7.2.5"},
	}, env.Engines(t))
}

func TestEnginesFailsWithoutServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("RLOCK_ENGINES", t.TempDir())
	for _, list := range []string{"", "all"} {
		t.Setenv("RLOCK_SERVERS", list)
		message := fatal(t, func(tb testing.TB) { env.Engines(tb) })
		require.Contains(t, message, "make setup")
		require.Contains(t, message, "RLOCK_SERVERS")
		require.NotContains(t, message, "\n")
	}
}

func TestEnginesFailsWithUnusableServer(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing-server")
	silent := script(t, "silent", "exit 0")
	for _, path := range []string{missing, silent} {
		t.Setenv("RLOCK_SERVERS", path)
		require.Contains(t, fatal(t, func(tb testing.TB) { env.Engines(tb) }), path)
	}
}

func TestEachRunsSubtestPerServer(t *testing.T) {
	t.Setenv("RLOCK_SERVERS", script(t, "one", "echo 'Redis server v=6.2.14 sha=0'"))
	var names []string
	env.Each(t, func(t *testing.T, e env.Engine) {
		require.Equal(t, "redis 6.2.14", e.Version)
		names = append(names, t.Name())
	})
	require.Equal(t, []string{t.Name() + "/redis-6.2.14"}, names)
}
