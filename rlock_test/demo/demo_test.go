package main

import (
	"bytes"
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

// onEvery runs a test on the embedded server, on every real one, and on a cluster.
func onEvery(t *testing.T, test func(t *testing.T, addr string)) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, "")
	})
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		t.Run("standalone", func(t *testing.T) {
			t.Parallel()
			s := e.Start(t)
			test(t, s.Addr())
			requireNoKeys(t, s)
		})
		t.Run("cluster", func(t *testing.T) {
			t.Parallel()
			c := e.StartCluster(t)
			test(t, c.Addrs()[0])
			requireNoKeys(t, c.Nodes...)
		})
	})
}

func requireNoKeys(t *testing.T, nodes ...*bed.Server) {
	t.Helper()
	for _, node := range nodes {
		reply := node.Do(t, "KEYS", "demo:*")
		keys, err := reply.AsStrSlice()
		require.NoError(t, err)
		require.Empty(t, keys, "the demo leaves no keys of its own")
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	onEvery(t, func(t *testing.T, addr string) {
		var out bytes.Buffer
		err := run(t.Context(), &out, addr)
		t.Log("\n" + out.String())
		require.NoError(t, err)

		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		require.LessOrEqual(t, len(lines), 60, "a person reads it")
		require.NotContains(t, out.String(), "FAIL")
		require.Equal(t, 6, strings.Count(out.String(), "PASS"))
		require.Equal(t, "ok: all 6 are true", lines[len(lines)-1])
		for _, count := range []string{
			`(?m)^ +200  transfers$`,
			`(?m)^ +\d+  waits: `,
			`(?m)^ +[1-9]\d*  hand-overs: `,
			`(?m)^ +[1-9]\d*  checks answered from the cache$`,
			`(?m)^ +409  fences `, // two for a transfer, two in scene 2, one in 3, six in 4
		} {
			require.Regexp(t, regexp.MustCompile(count), out.String())
		}
		require.Equal(t, 10, strings.Count(out.String(), " -> "), "a sample of the transfers")
	})
}

// What is interrupted stops soon and leaves nothing behind, locks included.
func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		for name, cue := range map[string]string{
			"at the start":           "bank ",
			"amid transfers":         "transfer  60",
			"amid a dead lease":      "and waits",
			"before a lock is freed": "from memory",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := e.Start(t)
				interrupt(t, s.Addr(), cue)
				requireNoKeys(t, s)
			})
		}
		t.Run("on a cluster", func(t *testing.T) {
			t.Parallel()
			c := e.StartCluster(t)
			interrupt(t, c.Addrs()[2], "transfer  60")
			requireNoKeys(t, c.Nodes...)
		})
	})
}

// interrupt runs the demo and ends its context as soon as it prints cue.
func interrupt(t *testing.T, addr, cue string) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	enough := errors.New("enough")
	var out bytes.Buffer
	var at time.Time
	err := run(ctx, writerFunc(func(p []byte) (int, error) {
		if at.IsZero() && bytes.Contains(p, []byte(cue)) {
			at = time.Now()
			cancel(enough)
		}
		return out.Write(p)
	}), addr)
	require.Contains(t, out.String(), cue)
	require.NotContains(t, out.String(), "Tally")
	require.True(t, errors.Is(err, enough) || errors.Is(err, context.Canceled), "%v", err)
	require.Less(t, time.Since(at), 1500*time.Millisecond, "sooner than the dead holder's lease")
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestRunWithoutAServer(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.ErrorContains(t, run(t.Context(), &out, "127.0.0.1:1"), "connect")
	require.Empty(t, out.String())
}

func TestProduct(t *testing.T) {
	t.Parallel()
	require.Equal(t, "Redis 7.0.15 (cluster)",
		product("txt:# Server\r\nredis_version:7.0.15\r\nredis_mode:cluster\r\n"))
	require.Equal(t, "Valkey 8.1.0 (standalone)",
		product("# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.0\r\nredis_mode:standalone\r\nserver_mode:standalone\r\n"))
}
