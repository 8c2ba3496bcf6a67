//go:build unix

package command

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// atOnce is what a busy machine may take for what takes a fifth of a second. With the time-outs of the client
// it would be three seconds and more.
const atOnce = 2 * time.Second

// A signal ends every command at once, also where the server says nothing, or nothing any more.
func TestSignalInSilence(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	server.Do(t, "SET", "held", "x")
	for _, args := range []string{
		"run held -- true", "run held other -- true", "run --limit 2 held -- true", "acquire held", "wait held",
		"who held", "ls held*", "probe --prefix held:", "release held x", "extend held x", "force-release held",
	} {
		for _, connected := range []bool{false, true} {
			for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
				proxy := env.NewProxy(t, server.Addr())
				name := args + ", before it is connected, " + sig.String()
				silent := func() bool { return proxy.Connections() > 0 }
				if connected {
					name = args + ", " + sig.String()
					silent = func() bool { return proxy.Held() > 0 }
					proxy.Hold(func(request []byte) bool { return strings.Contains(string(request), "held") })
				} else {
					proxy.BlackHole(true)
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					p := begin(t, url(proxy.Addr()), strings.Fields(args)...)
					env.Soon(t, silent, "it waits for an answer")
					proxy.BlackHole(true)
					p.signal(sig)
					start := time.Now()
					require.Equal(t, 128+int(sig), p.code())
					require.Less(t, time.Since(start), atOnce)
					require.Empty(t, p.stdout.String()+p.stderr.String())
				})
			}
		}
	}
}

// The time of -w is over when it is over. A silent server is no lock that others hold.
func TestPatienceInSilence(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	server.Do(t, "SET", "held", "x")
	const patience = 6 * time.Second
	for _, args := range []string{
		"run -w 6s -E 0 held -- true", "acquire -w 6 -E 0 held", "wait -w 6s -E 0 held",
	} {
		for _, connected := range []bool{false, true} {
			if connected && strings.HasPrefix(args, "wait") { // which asks nothing while it hears of no change
				continue
			}
			name := args + ", before it is connected"
			if connected {
				name = args
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				proxy := env.NewProxy(t, server.Addr())
				proxy.BlackHole(!connected)
				start := time.Now()
				command, flags, _ := strings.Cut(args, " ")
				p := begin(t, url(proxy.Addr()), append([]string{command, "--json"}, strings.Fields(flags)...)...)
				if connected {
					p.tells("contended")
					proxy.BlackHole(true)
				}
				require.Equal(t, 125, p.code())
				require.GreaterOrEqual(t, time.Since(start), patience)
				require.Less(t, time.Since(start), patience+atOnce)
				require.Regexp(t, "has not answered|check that the server runs there", p.stderr.String())
			})
		}
	}
}

// What the server grants in the moment of a signal is free again when rlock has ended.
func TestGrantInTheMomentOfTheSignal(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	proxy := env.NewProxy(t, server.Addr())
	proxy.Delay(30 * time.Millisecond)
	const tries = 20 // a busy machine may be too late, with the signal or with the release
	for range tries {
		p := begin(t, url(proxy.Addr()), "run", "--ttl", "1h", "job", "--", "sh", "-c", "echo ran; exec sleep 100")
		env.Soon(t, func() bool { return must(t, server, "EXISTS", "job") == 1 }, "the grant")
		p.signal(syscall.SIGTERM)
		require.Equal(t, 143, p.code())
		if p.stdout.String() == "" && must(t, server, "EXISTS", "job") == 0 {
			return
		}
		server.Do(t, "DEL", "job")
	}
	t.Fatal("the lock stays")
}

// A command that waits for a lock also waits for a server that is away when it starts.
func TestServerAwayAtTheStart(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"run job -- true", "run -w 5m job -- true", "acquire -w 5m job", "wait job"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			server := env.Start(t)
			server.Kill()
			p := begin(t, url(server.Addr()), strings.Fields(args)...)
			p.tells("nothing listens there")
			p.tells("; waiting for the server")
			server.Restart(t)
			require.Zero(t, p.code(), p.stderr)
			require.Equal(t, 1, strings.Count(p.stderr.String(), "\n"), "it is told once: %s", p.stderr)
		})
	}
	for args, patience := range map[string]time.Duration{
		"run -w 3s -E 0 job -- true": 3 * time.Second, "wait -w 3s -E 0 job": 3 * time.Second,
		"run -n -E 0 job -- true": 0, "who job": 0,
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			server := env.Start(t)
			server.Kill()
			start := time.Now()
			code, _, stderr := call(t, url(server.Addr()), strings.Fields(args)...)
			require.Equal(t, 125, code)
			require.GreaterOrEqual(t, time.Since(start), patience)
			require.Less(t, time.Since(start), patience+atOnce)
			require.Contains(t, stderr, "nothing listens there")
		})
	}
	t.Run("a signal", func(t *testing.T) {
		t.Parallel()
		server := env.Start(t)
		server.Kill()
		p := begin(t, url(server.Addr()), "run", "job", "--", "true")
		p.tells("; waiting for the server")
		p.signal(syscall.SIGTERM)
		start := time.Now()
		require.Equal(t, 143, p.code())
		require.Less(t, time.Since(start), atOnce)
	})
}

// Errors of the first connection say what to do.
func TestWhatKeepsFromConnecting(t *testing.T) {
	t.Parallel()
	engine := env.Engines(t)[0]
	full := engine.Start(t, "--maxclients", "4")
	for range 4 {
		conn, err := net.Dial("tcp", full.Addr())
		require.NoError(t, err)
		defer conn.Close()
	}
	gone := engine.Start(t)
	closes := env.NewProxy(t, gone.Addr())
	gone.Kill()
	sentinel := engine.StartSentinel(t).Sentinels[0]
	for name, c := range map[string]struct{ address, says string }{
		"full":       {full.Addr(), "maxclients"},
		"a proxy":    {closes.Addr(), "closes the connection"},
		"a sentinel": {sentinel.Addr(), "master_set"},
	} {
		code, _, stderr := call(t, url(c.address), "run", "-n", "job", "--", "true")
		require.Equal(t, 125, code, name)
		require.Contains(t, stderr, c.says, name)
	}
}

// A password in a file is read anew for each connection, so that CMD outlasts a new one.
func TestPasswordFile(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	server.Do(t, "ACL", "SETUSER", "app", "on", ">old", "~*", "&*", "+@all")
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte("old\n"), 0o600))
	work, done := untilDone(t)
	cmd := command("redis://app@"+server.Addr(),
		"run", "--ttl", "6s", "--kill-after", "0s", "job", "--", "sh", "-c", work)
	cmd.Env = append(cmd.Env, "RLOCK_PASSWORD_FILE="+file)
	p := beginCommand(t, cmd)
	p.prints("ready")
	server.Do(t, "ACL", "SETUSER", "app", "resetpass", ">new")
	require.NoError(t, os.WriteFile(file, []byte("new\n"), 0o600))
	server.Do(t, "CLIENT", "KILL", "USER", "app")
	granted := time.Now()
	env.Soon(t, func() bool { return time.Since(granted) > 7*time.Second }, "the first lease is over")
	done()
	require.Zero(t, p.code(), p.stderr)
	require.Empty(t, p.stderr.String())
}
