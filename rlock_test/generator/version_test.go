package generator

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Bindings compile with the luaimpl that they were made for. If it is older than their generator, or serves
// only those of a newer one, the compiler names the line below the comment that says what to do.
func TestVersion(t *testing.T) {
	t.Parallel()
	const runtime, bindings = "redislua/luaimpl/version.go", "gen/scripts.go"
	for name, c := range map[string]struct {
		file     string // the one that is of another time
		old, new string // text of it, and what stands there then
		wrong    string // what the compiler says
	}{
		"both of one time": {runtime, "", "", ""},
		"a newer luaimpl that serves older bindings": {runtime, "const Version1 = true",
			"const Version1, Version2 = true, true", ""},
		"a newer luaimpl that does not": {runtime, "const Version1", "const Version2",
			"undefined: luaimpl.Version1"},
		"a newer generator": {bindings, "luaimpl.Version1", "luaimpl.Version2", "undefined: luaimpl.Version2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top, err := filepath.Abs(root)
			require.NoError(t, err)
			path := filepath.Join(top, filepath.FromSlash(c.file))
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Contains(t, string(text), c.old)
			changed, overlay := filepath.Join(t.TempDir(), "changed.go"), filepath.Join(t.TempDir(), "overlay.json")
			require.NoError(t, os.WriteFile(changed, []byte(strings.Replace(string(text), c.old, c.new, 1)), 0o666))
			list, err := json.Marshal(map[string]map[string]string{"Replace": {path: changed}})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(overlay, list, 0o666))

			_, stderr, err := run(t, top, nil, "build", "-overlay", overlay, "./gen")
			if c.wrong == "" {
				require.NoError(t, err, stderr)
				return
			}
			require.Error(t, err)
			require.Regexp(t, `\.go:\d+:\d+: `+c.wrong, stderr)
		})
	}
}
