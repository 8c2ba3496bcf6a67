package command

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// terminal is a shell in a terminal of its own, with a person before it.
type terminal struct {
	t      *testing.T
	master *os.File
	fd     int // of master
	mu     sync.Mutex
	shown  bytes.Buffer
}

func newTerminal(t *testing.T, url string) *terminal {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	require.NoError(t, err, "the tests of the terminal need pseudo terminals")
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.SetNonblock(fd, true))
	term := &terminal{t: t, fd: fd, master: os.NewFile(uintptr(fd), "ptmx")}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	defer slave.Close()
	// Job control of the shell itself is what is tested, so it must be there.
	bash, err := exec.LookPath("bash")
	require.NoError(t, err, "the tests of the terminal need bash")
	shell := exec.Command(bash, "--norc", "--noprofile", "-i")
	shell.Env = append(surroundings(url), "PS1=$ ", "TERM=dumb", "R="+binary)
	shell.Stdin, shell.Stdout, shell.Stderr = slave, slave, slave
	shell.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, shell.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		buffer := make([]byte, 4096)
		for {
			n, err := term.master.Read(buffer)
			term.mu.Lock()
			term.shown.Write(buffer[:n])
			term.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = shell.Process.Kill()
		_ = shell.Wait()
		_ = term.master.Close()
		<-read
	})
	return term
}

// types sends keys, of which \x03 is Ctrl-C and \x1a Ctrl-Z.
func (term *terminal) types(keys string) {
	term.t.Helper()
	_, err := term.master.WriteString(keys)
	require.NoError(term.t, err)
}

func (term *terminal) screen() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.shown.String()
}

// shows waits for a text, and forgets the screen up to its end.
func (term *terminal) shows(text string) {
	term.t.Helper()
	found := func() bool {
		term.mu.Lock()
		defer term.mu.Unlock()
		_, rest, found := bytes.Cut(term.shown.Bytes(), []byte(text))
		if found {
			rest = bytes.Clone(rest)
			term.shown.Reset()
			term.shown.Write(rest)
		}
		return found
	}
	defer func() {
		if term.t.Failed() {
			term.t.Logf("the terminal shows %q and not %q", term.screen(), text)
		}
	}()
	env.Soon(term.t, found, "the terminal shows "+text)
}

// foreground is the process group that has the terminal.
func (term *terminal) foreground() int {
	term.t.Helper()
	group, err := unix.IoctlGetInt(term.fd, unix.TIOCGPGRP)
	require.NoError(term.t, err)
	return group
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	t.Run("input and Ctrl-C", func(t *testing.T) {
		t.Parallel()
		term := newTerminal(t, url(server.Addr()))
		term.types("$R run a -- cat; echo 'code' $?\n")
		env.Soon(t, func() bool { return env.Get(t, client, "a") != "" }, "it runs")
		term.types("hello\n")
		term.shows("hello\r\nhello\r\n") // the terminal's echo, and what cat has read
		term.types("\x03")
		env.Soon(t, func() bool { return env.Get(t, client, "a") == "" }, "it has ended")
		term.types("echo 'code' $?\n")
		term.shows("code 130")
	})
	t.Run("Ctrl-Z and fg", func(t *testing.T) {
		t.Parallel()
		term := newTerminal(t, url(server.Addr()))
		term.types("$R run b -- cat\n")
		env.Soon(t, func() bool { return env.Get(t, client, "b") != "" }, "it runs")
		term.types("one\n")
		term.shows("one\r\none\r\n")
		group := term.foreground()
		term.types("\x1a")
		term.shows("Stopped")
		term.types("fg\n")
		// The shell has another mode of input, which ends before it passes the terminal on.
		env.Soon(t, func() bool { return term.foreground() == group }, "the command has the terminal again")
		term.types("two\n")
		term.shows("two\r\ntwo\r\n")
		term.types("\x04")
		env.Soon(t, func() bool { return env.Get(t, client, "b") == "" }, "it has ended")
		term.types("echo 'code' $?\n")
		term.shows("code 0")
	})
	t.Run("suspended for too long", func(t *testing.T) {
		t.Parallel()
		term := newTerminal(t, url(server.Addr()))
		term.types("$R run --ttl 5s --kill-after 100ms c -- sh -c 'echo $((6*7)); exec cat'\n")
		term.shows("42\r\n")
		term.types("\x1a")
		term.shows("Stopped")
		env.Soon(t, func() bool { return env.Get(t, client, "c") == "" }, "the lease ends")
		term.types("fg\n")
		term.shows("the lease has ended while rlock was suspended")
		term.types("echo 'code' $?\n")
		term.shows("code 76")
	})
	t.Run("in a pipe", func(t *testing.T) {
		t.Parallel()
		term := newTerminal(t, url(server.Addr()))
		term.types("$R run d -- cat | tr a-z A-Z; echo 'code' ${PIPESTATUS[0]}\n")
		env.Soon(t, func() bool { return env.Get(t, client, "d") != "" }, "it runs")
		term.types("loud\n\x04")
		term.shows("LOUD\r\n")
		term.shows("code 0")
	})
	t.Run("in the background", func(t *testing.T) {
		t.Parallel()
		term := newTerminal(t, url(server.Addr()))
		term.types("$R run e -- sleep 3 &\n")
		env.Soon(t, func() bool { return env.Get(t, client, "e") != "" }, "it runs")
		term.types("echo 'the shell' has it\n")
		term.shows("the shell has it")
		env.Soon(t, func() bool { return env.Get(t, client, "e") == "" }, "it has ended")
	})
}
