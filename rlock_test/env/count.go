package env

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// ScriptCalls returns how many calls of scripts the server has run since its start.
func (s *Server) ScriptCalls(t testing.TB) int64 {
	t.Helper()
	stats := s.CommandStats(t)
	return stats["evalsha"] + stats["eval"] + stats["evalsha_ro"] + stats["eval_ro"]
}

// ErrorCount returns how often the server has answered with an error of this kind, such as "NOSCRIPT".
func (s *Server) ErrorCount(t testing.TB, kind string) int {
	t.Helper()
	_, count, ok := strings.Cut(s.info(t, "errorstats"), "errorstat_"+kind+":count=")
	if !ok {
		return 0
	}
	count, _, _ = strings.Cut(count, "\r\n")
	n, err := strconv.Atoi(count)
	require.NoError(t, err)
	return n
}

// Connections returns how many connections the server has from clients with this name.
func (s *Server) Connections(t testing.TB, name string) int {
	t.Helper()
	reply := s.Do(t, "CLIENT", "LIST")
	list, err := reply.ToString()
	require.NoError(t, err)
	return strings.Count(list, " name="+name+" ")
}

var trackedLine = regexp.MustCompile(`tracking_total_keys:(\d+)`)

// TrackedKeys returns how many keys the server tracks for invalidations.
func (s *Server) TrackedKeys(t testing.TB) int {
	t.Helper()
	match := trackedLine.FindStringSubmatch(s.info(t, "stats"))
	require.NotNil(t, match)
	n, err := strconv.Atoi(match[1])
	require.NoError(t, err)
	return n
}

// AwaitTracked waits until TrackedKeys is n.
func (s *Server) AwaitTracked(t testing.TB, n int) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("%d keys are tracked, and %d should be", s.TrackedKeys(t), n)
		}
	}()
	Soon(t, func() bool { return s.TrackedKeys(t) == n }, "the keys are tracked")
}

func (s *Server) info(t testing.TB, section string) string {
	t.Helper()
	reply := s.Do(t, "INFO", section)
	text, err := reply.ToString()
	require.NoError(t, err)
	return text
}
