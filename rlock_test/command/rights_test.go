//go:build unix

package command

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// rules are what PRODUCTION.md says of the rights for the command: what to add for rlock ls and for rlock
// probe, and the user who only looks.
func rules(t *testing.T) (locks, shares, list, look, probe string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/PRODUCTION.md")
	require.NoError(t, err)
	for _, rule := range []struct {
		to   *string
		form string
	}{
		{&locks, "(?s)ACL SETUSER (app .*?)\n```"},
		{&shares, "`AcquirePermits`\\) add `([^`]*)`"},
		{&list, "`rlock ls` add `([^`]*)`"},
		{&look, "(?s)ACL SETUSER (look .*?)\n *```"},
		{&probe, "(?s)`rlock probe` without `--prefix app:`, add (.*?)\\. `Probe`\\s+names"},
	} {
		match := regexp.MustCompile(rule.form).FindSubmatch(page)
		require.NotNil(t, match, rule.form)
		*rule.to = string(match[1])
	}
	return locks, shares, list, look, probe
}

func TestRightsForTheCommand(t *testing.T) {
	t.Parallel()
	locks, shares, list, look, probe := rules(t)
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		server.Do(t, append([]string{"ACL", "SETUSER"}, strings.Fields(locks)...)...)
		server.Do(t, append([]string{"ACL", "SETUSER", "app"}, strings.Fields(shares)...)...)
		app := "redis://app:secret@" + server.Addr()
		succeeds := func(address string, args ...string) string {
			code, stdout, stderr := call(t, address, args...)
			require.Zero(t, code, "%q: %s", args, stderr)
			require.Empty(t, stderr, "%q", args)
			return strings.TrimSuffix(stdout, "\n")
		}
		for _, mode := range []string{"", "--shared", "--limit 2", "--min-hold 1ms", "app:more"} {
			succeeds(app, with([]string{"app:job", "--", "true"},
				append([]string{"run"}, strings.Fields(mode)...)...)...)
		}
		token := succeeds(app, "acquire", "--limit", "2", "app:job")
		require.Contains(t, succeeds(app, "who", "app:job"), "1 of 2 permits")
		code, _, stderr := call(t, app, "ls", "app:*")
		require.Equal(t, 125, code)
		require.Regexp(t, env.NoPermission, stderr)
		server.Do(t, append([]string{"ACL", "SETUSER", "app"}, strings.Fields(list)...)...)
		require.Contains(t, succeeds(app, "ls", "app:*"), "1 of 2 permits")

		require.NotContains(t, succeeds(app, "probe", "--prefix", "app:"), "FAULT")
		code, stdout, _ := call(t, app, "probe")
		require.Equal(t, 1, code)
		require.Contains(t, stdout, "PRODUCTION.md")
		for i, word := range strings.Split(probe, "`") {
			if i%2 == 1 { // around it are words for people
				server.Do(t, "ACL", "SETUSER", "app", word)
			}
		}
		stdout = succeeds(app, "probe")
		require.Regexp(t, `(?m)^note +eviction`, stdout)
		require.Regexp(t, `(?m)^note +replication`, stdout)
		server.Do(t, "ACL", "SETUSER", "app", "+info")
		require.NotRegexp(t, `(?m)^(note|FAULT)`, succeeds(app, "probe"))

		server.Do(t, append([]string{"ACL", "SETUSER"}, strings.Fields(look)...)...)
		person := "redis://look:secret@" + server.Addr()
		require.Contains(t, succeeds(person, "ls", "app:*"), "1 of 2 permits")
		require.Contains(t, succeeds(person, "who", "app:job", "app:free"), "1 of 2 permits")
		code, _, _ = call(t, person, "wait", "-n", "app:job")
		require.Equal(t, 75, code)
		code, _, stderr = call(t, person, "force-release", "app:job", "--token", token)
		require.Equal(t, 125, code)
		require.Regexp(t, env.NoPermission, stderr)
		succeeds(app, "extend", "app:job", token)
		succeeds(app, "release", "app:job", token)
		succeeds(person, "wait", "app:job")
	})
}

// Each word of the rule for those who only look is needed.
func TestRuleForLookingIsMinimal(t *testing.T) {
	t.Parallel()
	_, _, _, look, _ := rules(t)
	server := env.Start(t)
	address := url(server.Addr())
	for _, args := range []string{"acquire --limit 2 app:build", "acquire app:job"} {
		code, _, stderr := call(t, address, strings.Fields(args)...)
		require.Zero(t, code, stderr)
	}
	words := strings.Fields(look)
	looks := func(user string) (ok bool) {
		person := "redis://" + user + ":secret@" + server.Addr()
		for _, args := range []string{"who app:build app:job", "ls app:*"} {
			if code, stdout, stderr := call(t, person, strings.Fields(args)...); code != 0 || stderr != "" ||
				!strings.Contains(stdout, "1 of 2 permits") {
				return false
			}
		}
		return true
	}
	server.Do(t, append([]string{"ACL", "SETUSER"}, words...)...)
	require.True(t, looks("look"))
	for i, word := range words {
		// Without the last two the client has no cache, and nobody is told of a change. Without the right to the
		// queue nobody is told who waits.
		if strings.HasPrefix(word, "~rlock:queue:") {
			continue
		}
		if !strings.HasPrefix(word, "+") && !strings.HasPrefix(word, "~") || strings.HasPrefix(word, "+client|") ||
			word == "+ping" || word == "+role" {
			continue
		}
		less := append([]string{"ACL", "SETUSER", "less"}, words[1:i]...)
		server.Do(t, "ACL", "DELUSER", "less")
		server.Do(t, append(less, words[i+1:]...)...)
		server.Do(t, "SCRIPT", "FLUSH") // which the server may have from the first look
		require.False(t, looks("less"), "without %s", word)
	}
}
