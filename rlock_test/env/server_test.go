package env_test

import (
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

const (
	// soon bounds what should happen at once, on a machine that is busy.
	soon = 10 * time.Second
	// quiet is how long nothing must happen for a test to go on.
	quiet = 150 * time.Millisecond
	tick  = 5 * time.Millisecond
)

func text(t *testing.T, m rueidis.RedisMessage) string {
	t.Helper()
	s, err := m.ToString()
	require.NoError(t, err)
	return s
}

func number(t *testing.T, m rueidis.RedisMessage) int64 {
	t.Helper()
	n, err := m.ToInt64()
	require.NoError(t, err)
	return n
}

func TestServerAnswersItsClients(t *testing.T) {
	env.Each(t, func(t *testing.T, e env.Engine) {
		s := e.Start(t)
		client := s.Client(t, func(o *rueidis.ClientOption) { o.ClientName = "guest" })
		require.NoError(t, client.Do(t.Context(), client.B().Set().Key("k").Value("v").Build()).Error())
		require.Equal(t, "v", text(t, s.Do(t, "GET", "k")))
		require.Contains(t, text(t, s.Do(t, "CLIENT", "LIST")), "name=guest")

		missing := s.Do(t, "GET", "missing")
		require.True(t, missing.IsNil())
		require.Equal(t, "OK", text(t, s.Do(t, "DEBUG", "SLEEP", "0")))
	})
}

func TestServerTakesArguments(t *testing.T) {
	s := env.Start(t, "--maxmemory", "1mb", "--appendonly", "yes")
	reply := s.Do(t, "CONFIG", "GET", "maxmemory", "appendonly")
	got, err := reply.AsStrMap()
	require.NoError(t, err)
	require.Equal(t, map[string]string{"maxmemory": "1048576", "appendonly": "yes"}, got)
}

func TestServerRunsBehindWrapperScript(t *testing.T) {
	target := env.Engines(t)[0].Path
	t.Setenv("RLOCK_SERVERS", script(t, "wrapper", `exec "`+target+`" "$@"`))
	require.Equal(t, "PONG", text(t, env.Start(t).Do(t, "PING")))
}

func TestServerThatDoesNotStartShowsItsLog(t *testing.T) {
	e := env.Engines(t)[0]
	message := fatal(t, func(tb testing.TB) { e.Start(tb, "--no-such-option", "1") })
	require.Contains(t, message, "no-such-option")
}

func TestServersRunSideBySide(t *testing.T) {
	seen := make(map[string]bool)
	for range 5 {
		s := env.Start(t)
		s.Do(t, "SET", "mine", s.Addr())
		require.False(t, seen[s.Addr()])
		seen[s.Addr()] = true
		require.Equal(t, int64(1), number(t, s.Do(t, "DBSIZE")))
	}
}

func TestServerKilledIsGone(t *testing.T) {
	s := env.Start(t)
	s.Kill()
	requireGone(t, s.Addr())
	s.Kill()
}

func TestServerDiesWithCleanup(t *testing.T) {
	var running, stopped *env.Server
	t.Run("lifetime", func(t *testing.T) {
		running, stopped = env.Start(t), env.Start(t)
		stopped.Stop()
	})
	requireGone(t, running.Addr())
	requireGone(t, stopped.Addr())
}

func requireGone(t *testing.T, addr string) {
	t.Helper()
	_, err := net.DialTimeout("tcp", addr, soon)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

func TestServerStoppedAnswersOnceContinued(t *testing.T) {
	s := env.Start(t)
	c := dial(t, s.Addr())

	s.Stop()
	c.send("PING")
	c.wantSilence()

	s.Cont()
	c.wantReply("+PONG")
}

func TestCommandStatsCountsCalls(t *testing.T) {
	env.Each(t, func(t *testing.T, e env.Engine) {
		s := e.Start(t)
		require.Zero(t, s.CommandStats(t)["set"])
		for range 3 {
			s.Do(t, "SET", "k", "v")
		}
		s.Do(t, "EVAL", "return redis.call('get', KEYS[1])", "1", "k")

		stats := s.CommandStats(t)
		require.Equal(t, int64(3), stats["set"])
		require.Equal(t, int64(1), stats["eval"])
		require.Equal(t, int64(1), stats["get"])

		s.Do(t, "CONFIG", "RESETSTAT")
		stats = s.CommandStats(t)
		require.NotContains(t, stats, "set")
		for name := range stats {
			require.Equal(t, strings.ToLower(name), name)
		}
	})
}
