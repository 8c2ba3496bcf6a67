package goredis

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	_ "github.com/rlock-go/toolkit/rlock/rlocktest" // go.mod knows what the tests of the runtime import
)

// What the generator copies into every package for go-redis passes the tests that it passes for
// rueidis: the same files, with another file for the client.
func TestRuntime(t *testing.T) {
	t.Parallel()
	const source = "../../generator/internal/emit/runtime"
	paths, err := filepath.Glob(source + "/*.go")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	here, err := filepath.Abs("testdata/runtime")
	require.NoError(t, err)
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	add := func(path string) {
		abs, err := filepath.Abs(path)
		require.NoError(t, err)
		overlay.Replace[filepath.Join(here, filepath.Base(path))] = abs
	}
	for _, path := range paths {
		if !strings.HasPrefix(filepath.Base(path), "client_") {
			add(path)
		}
	}

	raw, err := os.ReadFile(source + "/client_goredis.go")
	require.NoError(t, err)
	text, found := strings.CutPrefix(string(raw), "//go:build ignore\n")
	require.True(t, found)
	client := filepath.Join(t.TempDir(), "client_goredis.go")
	require.NoError(t, os.WriteFile(client, []byte(text), 0o600))
	add(client)

	list := filepath.Join(t.TempDir(), "overlay.json")
	encoded, err := json.Marshal(overlay)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(list, encoded, 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-timeout=2m", "-v", "-overlay="+list, "./testdata/runtime").CombinedOutput()
	require.NoError(t, err, string(out))
	for _, test := range []string{"TestBatch", "TestDecode/list,_empty", "TestErrorCodes", "FuzzDecode/seed#0", "TestRefusedPipeline"} {
		require.Contains(t, string(out), "--- PASS: "+test+" ", "it ran")
	}
}
