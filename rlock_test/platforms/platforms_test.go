// Package platforms tests on which systems and processors this module builds.
package platforms

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

const root = "../.."

// platforms are those on which rlock promises to build, and its tests too. darwin/386 is none
// that Go knows.
var platforms = []string{
	"linux/amd64", "linux/arm64", "linux/386",
	"darwin/amd64", "darwin/arm64",
	"windows/amd64", "windows/arm64", "windows/386",
}

// Everything of this module, with its tests, builds and passes go vet on each platform. What runs
// elsewhere than here is not tested, but for 386, which a step of make test-all runs.
func TestPlatforms(t *testing.T) {
	env.Long(t) // the go command builds the standard library for each
	for _, platform := range platforms {
		t.Run(platform, func(t *testing.T) {
			system, processor, _ := strings.Cut(platform, "/")
			for _, verb := range []string{"build", "vet"} {
				command := exec.CommandContext(t.Context(), "go", verb, "./...")
				command.Dir = root
				command.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+processor, "CGO_ENABLED=0")
				output, err := command.CombinedOutput()
				require.NoError(t, err, "go %s: %s", verb, output)
			}
		})
	}
}

// The workflows build and vet on the same platforms.
func TestWorkflowHasThePlatforms(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, ".github", "workflows", "ci.yml"))
	require.NoError(t, err)
	_, list, found := strings.Cut(string(text), "        platform:\n")
	require.True(t, found)
	var got []string
	for line := range strings.Lines(list) {
		platform, isItem := strings.CutPrefix(line, "          - ")
		if !isItem {
			break
		}
		got = append(got, strings.TrimSpace(platform))
	}
	require.Equal(t, platforms, got)
	require.Contains(t, string(text), "run: .ci/run\n")
	require.Contains(t, string(text), "run: make test-all\n")
}
