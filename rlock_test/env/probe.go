package env

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
)

// Worst returns the severities of a report's findings by name. If several findings have one name, it returns
// the worst severity.
func Worst(t testing.TB, report rlock.ProbeReport) map[string]rlock.ProbeSeverity {
	t.Helper()
	got := map[string]rlock.ProbeSeverity{}
	for _, f := range report {
		require.NotEmpty(t, f.Text)
		require.Contains(t, report.String(), f.String()+"\n")
		got[f.Name] = max(f.Severity, got[f.Name])
	}
	return got
}

// NoFinding stands for the severity of a missing finding.
const NoFinding rlock.ProbeSeverity = -1

// Severities returns the Worst of a healthy server without a replica, with these changes.
func Severities(changes map[string]rlock.ProbeSeverity) map[string]rlock.ProbeSeverity {
	all := map[string]rlock.ProbeSeverity{}
	for _, name := range []string{"client", "locks", "queue", "held", "cache", "waiting", "shared", "version",
		"protocol", "eviction", "replication"} {
		all[name] = rlock.ProbeOK
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

// NoPermission matches the errors with which servers refuse a user a command or a key, inside and outside a
// script.
var NoPermission = regexp.MustCompile(
	"NOPERM|The user executing the script can't|ACL failure in script|can't access at least one of the keys")
