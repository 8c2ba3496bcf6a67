//go:build unix

package runbook

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestMain(m *testing.M) { env.Main(m, nil) }

// Every command of the runbook prints what the page says, in the state that its section is about.
func TestRunbook(t *testing.T) {
	t.Parallel()
	list, hidden := sections(page(t))
	require.Empty(t, hidden, "what prints this?")
	rlock := filepath.Join(t.TempDir(), "rlock")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", rlock,
		"../../rlock/cmd/rlock").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for title := range states {
		require.True(t, slices.ContainsFunc(list,
			func(s section) bool { return s.title == title && len(s.commands) > 0 }),
			"%s has a state and no commands", title)
	}
	env.Each(t, func(t *testing.T, e env.Engine) {
		tools := tools(t, e, rlock)
		for _, s := range list {
			if len(s.commands) == 0 {
				continue
			}
			t.Run(s.title, func(t *testing.T) {
				t.Parallel()
				require.Contains(t, states, s.title, "the section has commands and no state")
				surroundings := states[s.title](t, e)
				for _, c := range s.commands {
					printed := run(t, tools, surroundings, c.line)
					require.True(t, fits(c.prints, printed), "$ %s\nprints\n%s\nand not\n%s", c.line, printed, c.prints)
				}
			})
		}
	})
}

// run has a shell run a line, with redis-cli and rlock before all others.
func run(t *testing.T, tools string, surroundings []string, line string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "RLOCK_") && !strings.HasPrefix(variable, "REDIS") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(append(cmd.Env, "PATH="+tools+string(os.PathListSeparator)+os.Getenv("PATH")),
		surroundings...)
	out, _ := cmd.CombinedOutput() // a command that fails says so
	require.NoError(t, ctx.Err(), "%s does not end: %s", line, out)
	return string(out)
}

// tools returns a directory with rlock, and with the command-line client of a server as redis-cli. The
// packages of servers have one beside each server.
func tools(t *testing.T, e env.Engine, rlock string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Symlink(rlock, filepath.Join(dir, "rlock")))
	target := filepath.Join(dir, "redis-cli")
	wrapper, err := os.ReadFile(e.Path)
	require.NoError(t, err)
	if strings.HasPrefix(string(wrapper), "#!") { // engines.sh has written it
		require.NoError(t, os.WriteFile(target,
			[]byte(strings.Replace(string(wrapper), `-server" "$@"`, `-cli" "$@"`, 1)), 0o700))
	} else {
		name := strings.TrimSuffix(filepath.Base(e.Path), "-server") + "-cli"
		client := filepath.Join(filepath.Dir(e.Path), name)
		if _, err := os.Stat(client); err != nil {
			client, err = exec.LookPath(name)
			require.NoError(t, err, "the page's commands need it beside the server, or on PATH")
		}
		require.NoError(t, os.Symlink(client, target))
	}
	out, err := exec.CommandContext(t.Context(), target, "--version").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "-cli ", fmt.Sprintf("%s is no client", target))
	return dir
}
