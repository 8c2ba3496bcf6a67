//go:build unix

package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// binary is the program, built for all tests.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "rlock")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "rlock")
	if out, err := exec.Command("go", "build", "-o", binary,
		"../../rlock/cmd/rlock").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%s%v\n", out, err)
		os.Exit(1)
	}
	// A signal that this process ignores, as under nohup, would be ignored by its children too. One that
	// it handles is not.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// url is RLOCK_URL for an address.
func url(address string) string { return "redis://" + address }

// surroundings are the environment of a process, without what the tests' own has of rlock.
func surroundings(url string) []string {
	var list []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "RLOCK_") && !strings.HasPrefix(variable, "REDIS_") {
			list = append(list, variable)
		}
	}
	return append(list, "RLOCK_URL="+url)
}

// process is a started rlock.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr *file
	done           chan struct{}
}

// file is what a process has written so far. It is a file and no pipe, so that what the command has
// started, and what outlives it, keeps nobody waiting.
type file struct{ path string }

func (f *file) String() string {
	text, _ := os.ReadFile(f.path)
	return string(text)
}

// begin starts rlock. The cleanup of t kills it with what it has started.
func begin(t *testing.T, url string, args ...string) *process {
	t.Helper()
	return beginCommand(t, command(url, args...))
}

func command(url string, args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Env = surroundings(url)
	return cmd
}

func beginCommand(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, done: make(chan struct{})}
	for _, stream := range []struct {
		to   **file
		name string
	}{{&p.stdout, "stdout"}, {&p.stderr, "stderr"}} {
		f, err := os.Create(filepath.Join(t.TempDir(), stream.name))
		require.NoError(t, err)
		defer f.Close()
		*stream.to = &file{f.Name()}
		if stream.name == "stdout" && cmd.Stdout == nil {
			cmd.Stdout = f
		} else if stream.name == "stderr" && cmd.Stderr == nil {
			cmd.Stderr = f
		}
	}
	require.NoError(t, cmd.Start())
	go func() {
		_ = cmd.Wait() // ProcessState tells
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.done
	})
	return p
}

// signal sends a signal to rlock alone.
func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(sig))
}

// code waits for the end of rlock and returns its exit code.
func (p *process) code() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(40 * time.Second):
		p.t.Fatalf("%q has not ended: %s", p.cmd.Args, p.stderr)
	}
	return p.cmd.ProcessState.ExitCode()
}

// prints waits until standard output has the text.
func (p *process) prints(text string) {
	p.t.Helper()
	env.Soon(p.t, func() bool { return strings.Contains(p.stdout.String(), text) },
		"the command prints "+text+": "+p.stderr.String())
}

// call runs rlock to its end.
func call(t *testing.T, url string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	var out, told bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = surroundings(url), &out, &told
	err := cmd.Run()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), told.String()
}

// objects reads lines of JSON.
func objects(t *testing.T, text string) []map[string]any {
	t.Helper()
	var list []map[string]any
	for line := range strings.Lines(text) {
		object := map[string]any{}
		require.NoError(t, json.Unmarshal([]byte(line), &object), "%q", line)
		list = append(list, object)
	}
	return list
}

// alive tells whether there is a process that is no zombie.
func alive(t *testing.T, pid string) bool {
	t.Helper()
	state, err := exec.Command("ps", "-o", "stat=", "-p", pid).Output()
	return err == nil && !strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
}
