package env

import (
	"strconv"
	"strings"
	"testing"
)

// CommandStats returns how often the server has run each command since its start or the last CONFIG
// RESETSTAT. The name of a command is in lower case, with a bar before a subcommand: "evalsha",
// "config|resetstat". The counts include the commands that scripts run. They also include the commands with
// which clients, and Server.Do, open and check their connections.
func (s *Server) CommandStats(tb testing.TB) map[string]int64 {
	tb.Helper()
	reply := s.Do(tb, "INFO", "commandstats")
	text, err := reply.ToString()
	if err != nil {
		tb.Fatalf("%s: INFO commandstats: %v", s.addr, err)
	}
	stats := make(map[string]int64)
	for key, value := range infoFields(text) {
		name, isStat := strings.CutPrefix(key, "cmdstat_")
		if !isStat {
			continue
		}
		calls, err := parseCalls(value)
		if err != nil {
			tb.Fatalf("%s: INFO commandstats: %s: %v", s.addr, key, err)
		}
		stats[strings.ToLower(name)] = calls
	}
	return stats
}

func parseCalls(value string) (int64, error) {
	first, _, _ := strings.Cut(value, ",")
	return strconv.ParseInt(strings.TrimPrefix(first, "calls="), 10, 64)
}

func infoFields(text string) map[string]string {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[key] = value
		}
	}
	return fields
}
