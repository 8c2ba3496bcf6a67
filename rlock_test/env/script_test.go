//go:build unix

package env_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The script that unpacks servers takes one that is installed where it cannot, and
// otherwise says what to do.
func TestEnginesScriptWithoutPackages(t *testing.T) {
	t.Parallel()
	bin, engines := t.TempDir(), t.TempDir()
	for _, name := range []string{"sh", "mkdir"} { // and neither apt-get nor dpkg-deb
		program, err := exec.LookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(program, filepath.Join(bin, name)))
	}
	run := func(env []string, names ...string) (stdout, stderr string, err error) {
		command := exec.CommandContext(t.Context(), filepath.Join(bin, "sh"),
			append([]string{"../engines.sh"}, names...)...)
		command.Env = append([]string{"PATH=" + bin, "RLOCK_ENGINES=" + engines}, env...)
		var said strings.Builder
		command.Stderr = &said
		printed, err := command.Output()
		return strings.TrimSpace(string(printed)), said.String(), err
	}
	_, stderr, err := run(nil)
	require.Error(t, err)
	require.Contains(t, stderr, "make setup")
	_, stderr, err = run(nil, "redis5")
	require.Error(t, err)
	require.Contains(t, stderr, "redis7, redis8 and valkey8")

	installed := server(t, bin, "valkey-server", "8.0.0")
	stdout, stderr, err := run(nil)
	require.NoError(t, err)
	require.Equal(t, installed, stdout)
	require.Contains(t, stderr, "testing with "+installed)
	_, stderr, err = run([]string{"RLOCK_ENGINES_REQUIRED=1"})
	require.Error(t, err)
	require.Contains(t, stderr, "not to be had here")

	_, stderr, err = run(nil, "prometheus", "promtool")
	require.Error(t, err)
	require.Contains(t, stderr, "there is no Prometheus", "a server of locks is none")

	unpacked := server(t, engines, "redis8", "8.0.0")
	stdout, stderr, err = run(nil)
	require.NoError(t, err)
	require.Equal(t, unpacked, stdout)
	require.Empty(t, stderr)
	stdout, _, err = run([]string{"RLOCK_SERVERS=mine"})
	require.NoError(t, err)
	require.Equal(t, "mine", stdout)
}
