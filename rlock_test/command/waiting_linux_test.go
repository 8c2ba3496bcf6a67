package command

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// eraseLine is what the command writes before and after a line that changes.
const eraseLine = "\r\x1b[J"

// take has "me" hold keys for a while, and returns the token of each.
func take(t *testing.T, server *env.Server, keys ...string) (tokens []string) {
	t.Helper()
	for _, key := range keys {
		code, token, stderr := call(t, url(server.Addr()), "acquire", "--ttl", "5m", "--owner", "me", key)
		require.Zero(t, code, stderr)
		tokens = append(tokens, strings.TrimSpace(token))
	}
	return tokens
}

func free(t *testing.T, server *env.Server, key, token string) {
	t.Helper()
	code, _, stderr := call(t, url(server.Addr()), "release", key, token)
	require.Zero(t, code, stderr)
}

// has tells the terminal how wide it is.
func (term *terminal) has(columns uint16) {
	term.t.Helper()
	require.NoError(term.t, unix.IoctlSetWinsize(term.fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
}

// Who waits at a terminal sees what for, in a line that changes and is gone in the end.
func TestWaitingAtATerminal(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	t.Run("who, how long, extended", func(t *testing.T) {
		t.Parallel()
		for _, command := range []string{"run -w 5m %s -- true", "acquire -w 5m %s", "wait -w 5m %s"} {
			name, _, _ := strings.Cut(command, " ")
			key := "seen:" + name
			token := take(t, server, key)[0]
			term := newTerminal(t, url(server.Addr()))
			term.has(200)
			term.types("TERM=xterm $R " + strings.Replace(command, "%s", key, 1) + "; echo 'code' $?\n")
			term.shows("waiting for " + key + ", ")
			term.shows("; held by me, 4m")
			code, _, stderr := call(t, url(server.Addr()), "extend", "--ttl", "1h", key, token)
			require.Zero(t, code, stderr)
			term.shows("; held by me, 59m")
			term.shows(", extended, for over ")
			free(t, server, key, token)
			term.shows(eraseLine)
			term.shows("code 0")
			require.NotContains(t, term.screen(), "waiting")
		}
	})
	t.Run("place", func(t *testing.T) {
		t.Parallel()
		take(t, server, "place")
		other := begin(t, url(server.Addr()), "run", "--owner", "first", "place", "--", "true")
		env.Soon(t, func() bool {
			_, stdout, _ := call(t, url(server.Addr()), "who", "place")
			return strings.Contains(stdout, `owner "first"`)
		}, "one waits")
		term := newTerminal(t, url(server.Addr()))
		term.has(200)
		term.types("TERM=xterm $R run place -- true; echo 'code' $?\n")
		term.shows(", place 2/2; held by me")
		term.types("\x03")
		term.shows(eraseLine)
		term.shows("code 130")
		require.Empty(t, other.stderr.String(), "it is told off a terminal")
	})
	t.Run("width", func(t *testing.T) {
		t.Parallel()
		take(t, server, "wide")
		term := newTerminal(t, url(server.Addr()))
		term.has(120)
		term.types("TERM=xterm $R run -w 5m wide -- true\n")
		term.shows(", for over ")
		term.has(30)
		drawn := regexp.MustCompile(`\x1b\[J(wide, [^\r]{20}\.\.\.)\r`)
		env.Soon(t, func() bool { return drawn.MatchString(term.screen()) }, "the line has 29 columns")
	})
	t.Run("without an erasing terminal", func(t *testing.T) {
		t.Parallel()
		token := take(t, server, "dumb")[0]
		term := newTerminal(t, url(server.Addr())) // whose TERM is dumb
		term.types("$R run dumb -- true; echo 'code' $?\n")
		term.shows("rlock: waiting ")
		term.shows("; held by me, 4m")
		free(t, server, "dumb", token)
		term.shows("code 0")
		require.NotContains(t, term.screen(), "\x1b")
	})
	t.Run("no waiting", func(t *testing.T) {
		t.Parallel()
		take(t, server, "none")
		for _, how := range []string{"TERM=xterm $R", "$R"} {
			term := newTerminal(t, url(server.Addr()))
			term.types(how + " run -n none -- true; echo 'code' $?\n")
			term.shows("\r\nrlock: ") // after the echo
			term.shows("; the holder is me")
			term.shows("code 75")
			require.NotContains(t, term.screen(), "waiting")
		}
	})
	t.Run("in the background", func(t *testing.T) {
		t.Parallel()
		token := take(t, server, "back")[0]
		term := newTerminal(t, url(server.Addr()))
		term.has(200)
		term.types("stty tostop; TERM=xterm $R run back -- true & \n")
		// For two more lines that it could have drawn.
		term.types("$R wait -w 2s back 2>/dev/null; jobs; echo 'the shell' has it\n")
		term.shows("Running")
		term.shows("the shell has it")
		require.NotContains(t, term.screen(), eraseLine)
		term.types("fg\n")
		term.shows("waiting ")
		term.shows("; held by me, ")
		term.types("\x1a")
		term.shows("Stopped")
		term.types("bg\n")
		free(t, server, "back", token)
		term.types("wait; echo 'code' $?\n")
		term.shows("code 0")
	})
	t.Run("silence", func(t *testing.T) {
		t.Parallel()
		server := env.Start(t)
		take(t, server, "silent")
		proxy := env.NewProxy(t, server.Addr())
		term := newTerminal(t, url(proxy.Addr()))
		term.has(200)
		term.types("TERM=xterm $R run silent -- true; echo 'code' $?\n")
		term.shows("; held by me, ")
		proxy.BlackHole(true)
		term.shows("; the server has not answered for ")
		term.types("\x03")
		term.shows("code 130")
	})
	t.Run("Ctrl-S", func(t *testing.T) {
		t.Parallel()
		ran := filepath.Join(t.TempDir(), "ran")
		token := take(t, server, "still")[0]
		term := newTerminal(t, url(server.Addr()))
		term.has(200)
		term.types("TERM=xterm $R run still -- touch " + ran + "\n")
		term.shows("; held by me, ")
		term.types("\x13")
		free(t, server, "still", token)
		env.Soon(t, func() bool {
			_, err := os.Stat(ran)
			return err == nil
		}, "a terminal that stands still keeps nobody waiting")
	})
}

// A long key leaves the list a table.
func TestTable(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	long := "column:" + strings.Repeat("k", 80)
	take(t, server, "column:1", "column:a longer one", long)
	waits := begin(t, url(server.Addr()), "run", "column:1", "--", "true")
	env.Soon(t, func() bool {
		_, stdout, _ := call(t, url(server.Addr()), "ls", "column:1")
		return regexp.MustCompile(`^column:1\t4m\d+s left\tme\t1 waiting: .* rlock: true\n$`).MatchString(stdout)
	}, "one waits")
	term := newTerminal(t, url(server.Addr()))
	term.has(80)
	term.types("$R ls 'column:*' | cat -t\n")
	term.shows(long + "^I4m")
	term.types("$R ls 'column:*'; echo 'code' $?\n")
	term.shows("KEY                    LEFT   OWNER  WAITING\r\n")
	env.Soon(t, func() bool { return strings.Contains(term.screen(), "code 0") }, "it is all there")
	require.Regexp(t, `^column:1               4m\d+s +me     1\r\n`+
		`"column:a longer one"  4m\d+s +me\r\n`+long+`\r\n                       4m\d+s +me\r\n`, term.screen())
	waits.signal(unix.SIGTERM)
	require.Equal(t, 143, waits.code())
	term.types("$R ls 'none:*'; echo 'code' $?\n")
	term.shows("echo 'code' $?\r\ncode 0")
}
