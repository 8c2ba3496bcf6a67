package corpus_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the module's directory, seen from the tests.
const root = "../.."

func runGo(t *testing.T, args ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir = root
	printed, err := command.CombinedOutput()
	require.NoError(t, err, "go %q:\n%s", args, printed)
}

// The committed bindings are what the generator makes of the scripts.
func TestBindingsAreFresh(t *testing.T) {
	t.Parallel()
	runGo(t, "run", "./generator/redislua", "-scripts", "rlock_test/corpus/lua", "-out",
		"rlock_test/corpus/bindings", "-check")
}
