package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// wholeVariable has the test program run the demo.
const wholeVariable = "RLOCK_DEMO_WHOLE"

// soon bounds what must happen.
const soon = 20 * time.Second

// The workers of a demo in this test are this program.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(roleVariable) != "", os.Getenv(wholeVariable) != "":
		main()
	default:
		os.Exit(m.Run())
	}
}

// onEvery runs a test on the embedded server, on every real one, and on a cluster.
func onEvery(t *testing.T, test func(t *testing.T, address string)) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, "")
	})
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Run("standalone", func(t *testing.T) {
			t.Parallel()
			s := e.Start(t)
			test(t, s.Addr())
			requireNothingLeft(t, s)
		})
		t.Run("cluster", func(t *testing.T) {
			t.Parallel()
			c := e.StartCluster(t)
			test(t, c.Addrs()[0])
			requireNothingLeft(t, c.Nodes...)
		})
	})
}

// requireNothingLeft looks for keys of the demo, and for connections of its processes.
func requireNothingLeft(t *testing.T, nodes ...*env.Server) {
	t.Helper()
	for _, node := range nodes {
		reply := node.Do(t, "KEYS", "demo:*")
		keys, err := reply.AsStrSlice()
		require.NoError(t, err)
		require.Empty(t, keys, "the demo leaves no keys of its own")
		require.Eventually(t, func() bool { return connections(t, node) == 0 }, soon, 10*time.Millisecond)
	}
}

// connections counts those that have sent the scripts or the commands of the demo.
func connections(t *testing.T, node *env.Server) int {
	t.Helper()
	reply := node.Do(t, "CLIENT", "LIST", "TYPE", "normal")
	list, err := reply.ToString()
	require.NoError(t, err)
	n := 0
	for line := range strings.Lines(list) {
		if !strings.Contains(line, "cmd=client|list") {
			n++
		}
	}
	return n
}

func TestRun(t *testing.T) {
	t.Parallel()
	onEvery(t, func(t *testing.T, address string) {
		var out bytes.Buffer
		err := run(t.Context(), &out, address, false)
		t.Log("\n" + out.String())
		require.NoError(t, err)

		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		again := strings.Count(out.String(), "once more") // on a machine that stood still
		require.LessOrEqual(t, len(lines), 45+5*again, "it fits a screen or two")
		for _, line := range lines {
			require.Less(t, len(line), 160)
		}
		require.NotContains(t, out.String(), "FAIL")
		require.Equal(t, 6, strings.Count(out.String(), "PASS"))
		require.Equal(t, 5, strings.Count(out.String(), " -> "), "a sample of the transfers")
		require.Contains(t, out.String(), "200 transfers, ")
		require.Contains(t, out.String(), fmt.Sprintf("What must be true, of %d processes:", 9+2*again))
		require.Regexp(t, `(?m)^ .* writes "late": refused, .*NOT_HELD`, out.String())
		require.Regexp(t, `(?m)^ .* by its fence: refused, .*STALE_FENCE`, out.String())
	})
}

// What is interrupted stops soon and leaves nothing behind, locks included.
func TestRunInterrupted(t *testing.T) {
	env.Long(t)
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, cue := range map[string]string{
			"at the start":          "keys of this run",
			"while a process waits": "and waits",
			"amid a dead lease":     "demo            killed",
			"after a deletion":      "deletes the key",
			"while one stalls":      "and stalls",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := e.Start(t)
				interrupt(t, s.Addr(), cue)
				requireNothingLeft(t, s)
			})
		}
		t.Run("on a cluster", func(t *testing.T) {
			t.Parallel()
			c := e.StartCluster(t)
			interrupt(t, c.Addrs()[2], "and waits")
			requireNothingLeft(t, c.Nodes...)
		})
	})
}

// interrupt runs the demo and ends its context as soon as it prints cue.
func interrupt(t *testing.T, address, cue string) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	enough := errors.New("enough")
	var out bytes.Buffer
	err := run(ctx, writerFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte(cue)) {
			cancel(enough)
		}
		return out.Write(p)
	}), address, false)
	require.Contains(t, out.String(), cue)
	require.NotContains(t, out.String(), "What must be true")
	require.True(t, errors.Is(err, enough) || errors.Is(err, context.Canceled), "%v", err)
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// A demo that is killed, and can clean up nothing, leaves no process behind.
func TestKilledDemoLeavesNoProcess(t *testing.T) {
	t.Parallel()
	s := env.Engines(t)[0].Start(t)
	demo := exec.Command(os.Args[0])
	demo.Env = append(os.Environ(), wholeVariable+"=1", addressVariable+"="+s.Addr())
	stdout, err := demo.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, demo.Start())
	for lines := bufio.NewScanner(stdout); lines.Scan() && !strings.Contains(lines.Text(), "and waits"); {
	}
	require.Greater(t, connections(t, s), 2)
	require.NoError(t, demo.Process.Kill())
	require.Error(t, demo.Wait())
	require.Eventually(t, func() bool { return connections(t, s) == 0 }, soon, 10*time.Millisecond)
}

func TestRunWithoutAServer(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.ErrorContains(t, run(t.Context(), &out, "127.0.0.1:1", false), "connect")
	require.Empty(t, out.String())
}

// REDIS_ADDR may be a URL with a user and a password, which are not printed.
func TestRunWithAUser(t *testing.T) {
	t.Parallel()
	s := env.Engines(t)[0].Start(t)
	s.Do(t, "ACL", "SETUSER", "presenter", "on", ">secret", "~*", "&*", "+@all")
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out, "redis://presenter:secret@"+s.Addr(), false), out.String())
	require.Contains(t, out.String(), " at "+s.Addr()+";")
	require.NotContains(t, out.String(), "secret")
	err := run(t.Context(), &out, "redis://presenter:wrong@"+s.Addr(), false)
	require.ErrorContains(t, err, "WRONGPASS")
	require.NotContains(t, err.Error(), "wrong@")
	require.NotContains(t, out.String(), "wrong")
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]rueidis.ClientOption{
		"localhost:6379":         {InitAddress: []string{"localhost:6379"}},
		"redis://localhost:6379": {InitAddress: []string{"localhost:6379"}},
		"redis://ada:s%40t@example:7/3": {InitAddress: []string{"example:7"}, Username: "ada", Password: "s@t",
			SelectDB: 3},
		"rediss://:secret@example:6380": {InitAddress: []string{"example:6380"}, Password: "secret"},
	} {
		got, err := options(address)
		require.NoError(t, err, address)
		require.Equal(t, strings.HasPrefix(address, "rediss"), got.TLSConfig != nil)
		require.Equal(t, want.InitAddress, got.InitAddress)
		require.Equal(t, []string{want.Username, want.Password}, []string{got.Username, got.Password})
		require.Equal(t, want.SelectDB, got.SelectDB)
	}
	for _, wrong := range []string{"http://ada:secret@example", "redis://ada:secret@exa mple:6379",
		"redis://ada:secret@example:port"} {
		_, err := options(wrong)
		require.ErrorContains(t, err, "REDIS_ADDR is not host:port", wrong)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestProduct(t *testing.T) {
	t.Parallel()
	require.Equal(t, "Redis 7.0.15 (cluster)",
		product("txt:# Server\r\nredis_version:7.0.15\r\nredis_mode:cluster\r\n"))
	require.Equal(t, "Valkey 8.1.0 (standalone)",
		product(
			"# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.0\r\nredis_mode:standalone\r\nserver_mode:standalone\r\n"))
}

// -v begins with the audit.
func TestAudit(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, audit(t.Context(), &out))
	require.Contains(t, out.String(), "Acquire (acquire.lua)\n")
	require.True(t, strings.HasSuffix(out.String(), "\n\n"), fmt.Sprintf("%q", out.String()))
}
