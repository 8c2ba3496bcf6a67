package bed

import (
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
	"testing"
	"time"
)

const versionTimeout = 10 * time.Second

var versionLine = regexp.MustCompile(`(?i)\b(?:(redis|valkey) )?server v=(\S+)`)

var errNoServer = errors.New("no Redis server found: install the package redis-server or valkey-server, " +
	"or list server binaries in RLOCK_SERVERS")

// Engine is a server binary to test with.
type Engine struct {
	// Path is the binary, or a wrapper script that replaces itself with the
	// binary by exec and passes its arguments on.
	Path string
	// Version is the name and the version, for example "redis 7.0.15".
	Version string

	config string   // file that a server starts from; see startSentinel
	env    []string // further variables of a server's environment; see StartWithClock
}

// Engines returns the servers to test with, at least one. They are the
// binaries and wrapper scripts of the environment variable RLOCK_SERVERS, a
// list separated by os.PathListSeparator, or else whichever of redis-server
// and valkey-server are on PATH. Engines ends the test with a failure when
// there is none or when one of them does not tell its version.
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

// Each runs fn as a subtest for each of Engines. The subtest has the name of
// the version with dashes for spaces, for example "redis-7.0.15".
func Each(t *testing.T, fn func(t *testing.T, e Engine)) {
	t.Helper()
	for _, e := range Engines(t) {
		t.Run(strings.ReplaceAll(e.Version, " ", "-"), func(t *testing.T) { fn(t, e) })
	}
}

func serverPaths(list string) ([]string, error) {
	var paths []string
	for _, name := range filepath.SplitList(list) {
		if name == "" {
			continue
		}
		path, err := exec.LookPath(name)
		if err != nil {
			return nil, fmt.Errorf("RLOCK_SERVERS: %w", err)
		}
		paths = append(paths, path)
	}
	if len(paths) == 0 {
		paths = installedPaths()
	}
	if len(paths) == 0 {
		return nil, errNoServer
	}
	return paths, nil
}

// A Valkey package may install redis-server as a link to valkey-server, and
// testing the same binary twice only costs time.
func installedPaths() []string {
	var paths, targets []string
	for _, name := range []string{"redis-server", "valkey-server"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		target, err := filepath.EvalSymlinks(path)
		if err != nil || slices.Contains(targets, target) {
			continue
		}
		paths, targets = append(paths, path), append(targets, target)
	}
	return paths
}

func serverVersion(path string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--version")
	cmd.WaitDelay = time.Second
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

// A server older than Redis 7 refuses to start with an option it does not
// know, and allows DEBUG without it.
func (e Engine) hasDebugOption() bool {
	version, isRedis := strings.CutPrefix(e.Version, "redis ")
	if !isRedis {
		return true
	}
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	return err == nil && n >= 7
}
