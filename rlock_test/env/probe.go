package env

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
)

// Worst returns the severities of a report's findings by name, and of several findings
// of one name the worst.
func Worst(t testing.TB, report rlock.Report) map[string]rlock.Severity {
	t.Helper()
	got := map[string]rlock.Severity{}
	for _, f := range report {
		require.NotEmpty(t, f.Text)
		require.Contains(t, report.String(), f.String()+"\n")
		got[f.Name] = max(f.Severity, got[f.Name])
	}
	return got
}

// NoFinding stands for the severity of a finding that there is not.
const NoFinding rlock.Severity = -1

// Severities returns what Worst of a healthy server without a replica is, with changes.
func Severities(changes map[string]rlock.Severity) map[string]rlock.Severity {
	all := map[string]rlock.Severity{}
	for _, name := range []string{"locks", "held", "cache", "waiting", "version", "protocol", "eviction", "replication"} {
		all[name] = rlock.SeverityOK
	}
	for name, s := range changes {
		if s == NoFinding {
			delete(all, name)
		} else {
			all[name] = s
		}
	}
	return all
}

// NoPermission matches the errors by which servers refuse a user a command or a key, in a
// script and outside.
var NoPermission = regexp.MustCompile("NOPERM|The user executing the script can't|ACL failure in script|can't access at least one of the keys")
