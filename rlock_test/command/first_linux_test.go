package command

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// first starts rlock as the first process of a container.
func first(t *testing.T, url string, args ...string) *process {
	t.Helper()
	cmd := command(url, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if os.Getuid() != 0 { // who is not root needs a namespace of users, which some systems refuse
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return beginCommand(t, cmd)
}

// As the first process of a container, rlock reaps what CMD leaves, and no signal passes it by.
func TestFirstProcess(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	t.Run("reaps", func(t *testing.T) {
		t.Parallel()
		p := first(t, url(server.Addr()), "run", "job", "--", "sh", "-c",
			"echo $PPID; for i in 1 2 3; do (sleep 0.1 &); done; echo ready; exec sleep 100")
		p.prints("1\nready")
		children := func() string {
			out, err := exec.Command("ps", "-o", "stat=,comm=", "--ppid", strconv.Itoa(p.cmd.Process.Pid)).Output()
			require.NoError(t, err)
			return string(out)
		}
		env.Soon(t, func() bool { return strings.Count(children(), "\n") == 1 }, "only CMD is left")
		require.NotContains(t, children(), "Z")
		p.signal(syscall.SIGTERM)
		require.Equal(t, 143, p.code())
		require.EqualValues(t, 0, must(t, server, "EXISTS", "job"))
	})
	t.Run("a signal while it waits", func(t *testing.T) {
		t.Parallel()
		server.Do(t, "SET", "held", "x")
		p := first(t, url(server.Addr()), "run", "-v", "held", "--", "true")
		p.tells("waiting for held")
		p.signal(syscall.SIGTERM)
		require.Equal(t, 143, p.code())
	})
}
