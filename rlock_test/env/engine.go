package env

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const versionTimeout = 10 * time.Second

var versionLine = regexp.MustCompile(`(?i)\b(?:(redis|valkey) )?server v=(\S+)`)

var errNoServer = errors.New(
	"no Redis server found: run `make setup`, which unpacks some beside the system, " +
		"or name programs in RLOCK_SERVERS")

// EngineAttr is the attribute with which a test names the Engine that it has started.
const EngineAttr = "engine"

// unpacked are the names that rlock_test/engines.sh gives to the servers that it unpacks. The oldest is
// first, because what works with the oldest works with the others.
var unpacked = []string{"redis7", "redis8", "valkey8"}

// Engine is a server binary to test with.
type Engine struct {
	// Path is the binary, or a wrapper script that replaces itself with the
	// binary by exec and passes its arguments on.
	Path string
	// Version is the name and the version, for example "redis 7.0.15".
	Version string

	config string   // file that a server starts from; see startSentinel
	env    []string // more variables of a server's environment; see StartWithClock
}

// Engines returns the servers to test with, at least one. The environment variable RLOCK_SERVERS lists them,
// separated by os.PathListSeparator. An entry is one of:
//
//   - a name that rlock_test/engines.sh knows,
//   - a binary or a wrapper script,
//   - "all", for all unpacked servers.
//
// Without the variable, Engines returns one server: the first unpacked one, or else a redis-server or
// valkey-server on PATH. If there is no server, or a server does not tell its version, Engines ends the test
// with a failure.
func Engines(tb testing.TB) []Engine {
	tb.Helper()
	paths, err := serverPaths(os.Getenv("RLOCK_SERVERS"))
	if err != nil {
		tb.Fatal(err)
	}
	engines := make([]Engine, 0, len(paths))
	for _, path := range paths {
		version, err := serverVersion(path)
		if err != nil {
			tb.Fatal(err)
		}
		engines = append(engines, Engine{Path: path, Version: version})
	}
	return engines
}

// Each runs fn as a subtest for each of Engines. The name of the subtest is the version with dashes for
// spaces, for example "redis-7.0.15".
func Each(t *testing.T, fn func(t *testing.T, e Engine)) {
	t.Helper()
	for _, e := range Engines(t) {
		t.Run(e.name(), func(t *testing.T) { fn(t, e) })
	}
}

func (e Engine) name() string { return strings.ReplaceAll(e.Version, " ", "-") }

func serverPaths(list string) ([]string, error) {
	var paths []string
	for _, name := range filepath.SplitList(list) {
		if name == "" {
			continue
		}
		if name == "all" {
			all := unpackedPaths()
			if len(all) == 0 {
				return nil, errNoServer
			}
			paths = append(paths, all...)
			continue
		}
		path, err := serverPath(name)
		if err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	if len(paths) > 0 {
		return paths, nil
	}
	if paths = unpackedPaths(); len(paths) > 0 {
		return paths[:1], nil
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return []string{path}, nil
		}
	}
	return nil, errNoServer
}

func serverPath(name string) (string, error) {
	if !slices.Contains(unpacked, name) {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("RLOCK_SERVERS: %w", err)
		}
		return path, nil
	}
	path := filepath.Join(unpackedDir(), name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("RLOCK_SERVERS: %s is not unpacked: run `make setup` (%w)", name, err)
	}
	return path, nil
}

func unpackedPaths() []string {
	var paths []string
	for _, name := range unpacked {
		if path, err := serverPath(name); err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}

// unpackedDir is where rlock_test/engines.sh unpacks the servers.
func unpackedDir() string {
	if dir := os.Getenv("RLOCK_ENGINES"); dir != "" {
		return dir
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if cache == "" {
		cache = filepath.Join(cmp.Or(os.Getenv("HOME"), "/tmp"), ".cache")
	}
	return filepath.Join(cache, "rlock-engines")
}

// versions are the version texts of programs, by path. A package of tests asks for them hundreds of times.
var versions sync.Map

func serverVersion(path string) (string, error) {
	if known, ok := versions.Load(path); ok {
		return known.(string), nil
	}
	version, err := askVersion(path)
	if err == nil {
		versions.Store(path, version)
	}
	return version, err
}

func askVersion(path string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = versionTimeout
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", path, err)
	}
	match := versionLine.FindSubmatch(out)
	if match == nil {
		return "", fmt.Errorf("%s --version: no version of Redis or Valkey in %q", path, out)
	}
	name := strings.ToLower(string(match[1]))
	if name == "" {
		// The first Valkey releases say only "Server v=".
		name = "valkey"
	}
	return name + " " + string(match[2]), nil
}

// A server older than Redis 7 refuses to start with an unknown option, and allows DEBUG without it.
func (e Engine) hasDebugOption() bool {
	version, isRedis := strings.CutPrefix(e.Version, "redis ")
	if !isRedis {
		return true
	}
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	return err == nil && n >= 7
}
