package main

import (
	"encoding/json"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersionOf(t *testing.T) {
	t.Parallel()
	built := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{GoVersion: "go1.25.0", Main: debug.Module{Version: version}, Settings: settings}
	}
	platform := []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "arm64"}}
	commit := append(
		[]debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}}, platform...)
	changed := append([]debug.BuildSetting{{Key: "vcs.modified", Value: "true"}}, commit...)
	for name, c := range map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"installed by go install": {built("v0.1.0", platform...), "rlock v0.1.0 go1.25.0 linux/arm64"},
		"built from a commit": {built("v0.1.1-0.20261123000000-0123456789ab", commit...),
			"rlock v0.1.1-0.20261123000000-0123456789ab commit 0123456789ab go1.25.0 linux/arm64"},
		"built with changes": {built("(devel)", changed...),
			"rlock (devel) commit 0123456789ab with changes go1.25.0 linux/arm64"},
		"a version nobody has told": {built(""), "rlock (devel) go1.25.0"},
		"without modules":           {nil, "rlock (devel)"},
	} {
		require.Equal(t, c.want, versionOf(c.info, c.info != nil).String(), name)
	}
}

// --version asks no server, and each way to say it is the same.
func TestVersion(t *testing.T) {
	t.Parallel()
	code, want, stderr := call(nowhere, "version")
	require.Zero(t, code)
	require.Empty(t, stderr)
	require.True(t, strings.HasPrefix(want, "rlock "), want)
	require.Contains(t, want, runtime.Version())
	require.Equal(t, 1, strings.Count(want, "\n"))
	for _, arg := range []string{"--version", "-version"} {
		code, stdout, _ := call(nowhere, arg)
		require.Zero(t, code)
		require.Equal(t, want, stdout)
	}
	for _, args := range [][]string{{"version", "--json"}, {"--version", "--json"}} {
		code, stdout, stderr := call(nowhere, args...)
		require.Zero(t, code, stderr)
		var object map[string]any
		require.NoError(t, json.Unmarshal([]byte(stdout), &object))
		require.Equal(t, runtime.Version(), object["go"])
		require.Equal(t, runtime.GOOS+"/"+runtime.GOARCH, object["platform"])
		require.Contains(t, object, "version")
		require.Contains(t, object, "commit")
		require.Contains(t, object, "modified")
	}
	code, stdout, stderr := call(nowhere, "--version", "x")
	require.Equal(t, exitFailed, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "nothing but flags")
}
