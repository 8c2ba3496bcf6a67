package env_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

const orphanPrefix = "server at "

// The test runs itself in a process of its own, which it kills.
func TestServerDiesWithKilledTest(t *testing.T) {
	if os.Getenv("BED_TEST_ORPHAN") != "" {
		_, err := os.Stdout.WriteString(orphanPrefix + env.Start(t).Addr() + "\n")
		require.NoError(t, err)
		select {}
	}

	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "BED_TEST_ORPHAN=1", "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	addr := orphanAddr(t, bufio.NewScanner(out))

	require.NoError(t, cmd.Process.Kill())
	env.Soon(t, func() bool {
		c, err := net.DialTimeout("tcp", addr, soon)
		if err != nil {
			return true
		}
		_ = c.Close()
		return false
	}, "the server ends with the process")
}

func orphanAddr(t *testing.T, out *bufio.Scanner) string {
	t.Helper()
	for out.Scan() {
		if addr, ok := strings.CutPrefix(out.Text(), orphanPrefix); ok {
			return addr
		}
	}
	require.FailNow(t, "the process ended without a server")
	return ""
}
