package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A watch notes that its process did not run, which it cannot tell from a machine that stands still.
func TestWatch(t *testing.T) {
	if os.Getenv("RLOCK_SUITE_WATCH") != "" {
		w := newWatch()
		go w.run()
		began := time.Now()
		fmt.Println("watching")
		_, err := io.ReadAll(os.Stdin)
		require.NoError(t, err)
		w.end()
		require.GreaterOrEqual(t, w.between(began, time.Now()), longStall)
		require.Zero(t, w.between(began.Add(-time.Hour), began.Add(-time.Minute)))
		return
	}
	t.Parallel()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWatch$")
	child.Env = append(os.Environ(), "RLOCK_SUITE_WATCH=1")
	in, err := child.StdinPipe()
	require.NoError(t, err)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	_, err = bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, child.Process.Signal(syscall.SIGSTOP))
	time.Sleep(2 * longStall)
	require.NoError(t, child.Process.Signal(syscall.SIGCONT))
	require.NoError(t, in.Close())
	require.NoError(t, child.Wait())
}
