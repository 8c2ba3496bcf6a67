//go:build unix

package command

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestSignals(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	t.Run("passed on", func(t *testing.T) {
		t.Parallel()
		p := begin(t, url(server.Addr()), "run", "passed", "--", "sh", "-c",
			`for s in INT TERM HUP QUIT USR1 USR2; do trap "echo got $s" $s; done; echo ready; while :; do sleep 0.05; done`)
		p.prints("ready")
		for sig, name := range map[syscall.Signal]string{syscall.SIGINT: "INT", syscall.SIGTERM: "TERM",
			syscall.SIGHUP:  "HUP",
			syscall.SIGQUIT: "QUIT", syscall.SIGUSR1: "USR1", syscall.SIGUSR2: "USR2"} {
			p.signal(sig)
			p.prints("got " + name)
		}
		require.NotEmpty(t, env.Get(t, client, "passed"), "the command goes on, and so does the lock")
	})
	t.Run("of the command", func(t *testing.T) {
		t.Parallel()
		p := begin(t, url(server.Addr()), "run", "ended", "--", "sh", "-c", "echo ready; exec sleep 100")
		p.prints("ready")
		p.signal(syscall.SIGINT)
		require.Equal(t, 130, p.code())
		require.Empty(t, env.Get(t, client, "ended"))
	})
	t.Run("while it waits", func(t *testing.T) {
		t.Parallel()
		server.Do(t, "SET", "held", "x")
		p := begin(t, url(server.Addr()), "run", "-v", "held", "--", "true")
		env.Soon(t, func() bool { return strings.Contains(p.stderr.String(), "waiting for held") }, "it waits")
		p.signal(syscall.SIGTERM)
		require.Equal(t, 143, p.code())
		require.Equal(t, "x", env.Get(t, client, "held"))
	})
	t.Run("ignored", func(t *testing.T) {
		t.Parallel()
		cmd := exec.Command("sh", "-c", `trap "" HUP; exec "$@"`, "sh", binary, "run", "ignored", "--", "sh", "-c",
			"echo ready; exec sleep 100")
		cmd.Env = surroundings(url(server.Addr()))
		p := beginCommand(t, cmd)
		p.prints("ready")
		p.signal(syscall.SIGHUP)
		time.Sleep(200 * time.Millisecond)
		require.NotEmpty(t, env.Get(t, client, "ignored"))
		p.signal(syscall.SIGTERM)
		require.Equal(t, 143, p.code())
	})
	t.Run("while it connects", func(t *testing.T) {
		t.Parallel()
		proxy := env.NewProxy(t, server.Addr())
		proxy.BlackHole(true)
		p := begin(t, url(proxy.Addr()), "run", "job", "--", "true")
		env.Soon(t, func() bool { return proxy.Connections() > 0 }, "it connects")
		p.signal(syscall.SIGINT)
		start := time.Now()
		require.Equal(t, 130, p.code())
		require.Less(t, time.Since(start), 4*time.Second, "before the client gives up")
	})
}

// A server that has gone is no lock that others hold, also if somebody held it before: -E does not apply.
func TestOutageIsNoConflict(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	server.Do(t, "SET", "held", "x")
	p := begin(t, url(server.Addr()), "run", "-v", "-w", "5s", "-E", "0", "held", "--", "true")
	env.Soon(t, func() bool { return strings.Contains(p.stderr.String(), "waiting for held") }, "it waits")
	server.Kill()
	require.Equal(t, 125, p.code())
	require.Contains(t, p.stderr.String(), "the server has not answered for ")
}

// stubborn ignores SIGTERM, and so does what it has started, which has its standard output.
const stubborn = `trap "echo told" TERM; sh -c 'trap "" TERM; echo child $$; while :; do sleep 0.05; done' & echo self $$; while :; do sleep 0.05; done`

// pids are those that stubborn has printed.
func pids(text string) (list []string) {
	for _, fields := range strings.Split(text, "\n") {
		if _, pid, ok := strings.Cut(fields, " "); ok && !strings.HasPrefix(fields, "told") {
			list = append(list, pid)
		}
	}
	return list
}

// When the server is out of reach, the command and what it has started are gone before the server lets the
// next one in.
func TestPartition(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	proxy := env.NewProxy(t, server.Addr())
	p := begin(t, url(proxy.Addr()), "run", "--ttl", "6s", "--kill-after", "1s", "job", "--", "sh", "-c",
		stubborn)
	p.prints("child")
	p.prints("self")
	proxy.BlackHole(true)
	all := pids(p.stdout.String())
	require.Len(t, all, 2)
	for end := time.Now().Add(20 * time.Second); ; {
		free := env.Get(t, client, "job") == "" // before the look at the processes, which takes a while
		if !alive(t, all[0]) && !alive(t, all[1]) {
			break
		}
		require.False(t, free, "they are at work, and the lock is free: %s", p.stderr)
		require.True(t, time.Now().Before(end), "nothing was killed")
	}
	require.Equal(t, 76, p.code())
	require.Contains(t, p.stdout.String(), "told", "it had its time to stop")
	require.Contains(t, p.stderr.String(), "the lease could not be extended in time")
}

// A command that stops when it is told to, and has left nothing, is not waited for.
func TestPartitionOfAnObedientCommand(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	proxy := env.NewProxy(t, server.Addr())
	p := begin(t, url(proxy.Addr()), "run", "--ttl", "10s", "--kill-after", "3s", "--signal", "USR1", "job",
		"--", "sh", "-c",
		`trap "echo stopped; exit 0" USR1; echo ready; while :; do sleep 0.05; done`)
	p.prints("ready")
	proxy.BlackHole(true)
	p.tells("stopping CMD")
	start := time.Now()
	require.Equal(t, 76, p.code())
	require.Less(t, time.Since(start), atOnce, "it would take the client seven seconds to close")
	require.Contains(t, p.stdout.String(), "stopped")
	require.NotContains(t, p.stderr.String(), "killed")
}

// A lock outlasts connections that die silently, and who asks for less is told.
func TestSilentDeathOfTheConnection(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	t.Run("is outlasted", func(t *testing.T) {
		t.Parallel()
		proxy := env.NewProxy(t, server.Addr())
		p := begin(t, url(proxy.Addr()), "run", "--ttl", "7s", "--kill-after", "0s", "job", "--", "sh", "-c",
			"echo ready; sleep 8")
		p.prints("ready")
		proxy.Forget()
		require.Zero(t, p.code(), p.stderr.String())
		require.NotContains(t, p.stderr.String(), "--ttl")
	})
	for name, c := range map[string]struct{ ttl, options string }{"a short lease": {"2s", ""},
		"a long time-out": {"20s", "?write_timeout=15s"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := begin(t, url(server.Addr())+c.options, "run", "--ttl", c.ttl, "--kill-after", "0s", name, "--",
				"true")
			require.Zero(t, p.code(), p.stderr.String())
			require.Contains(t, p.stderr.String(), "--ttl "+c.ttl+" may be over before an extension gets through")
		})
	}
}

func TestLost(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	p := begin(t, url(server.Addr()), "run", "--json", "--ttl", "1m", "--kill-after", "300ms", "job", "--", "sh",
		"-c", stubborn)
	p.prints("child")
	p.prints("self")
	start := time.Now()
	server.Do(t, "DEL", "job")
	require.Equal(t, 76, p.code())
	require.Less(t, time.Since(start), 20*time.Second, "the server has told, long before the next extension")
	for _, pid := range pids(p.stdout.String()) {
		env.Soon(t, func() bool { return !alive(t, pid) }, "all are killed")
	}
	var events []any
	// which a shell says whose sleep got the signal
	messages := strings.ReplaceAll(p.stderr.String(), "Terminated\n", "")
	for _, object := range objects(t, messages) {
		events = append(events, object["event"])
	}
	require.Equal(t, []any{"acquired", "stopping", "killed", "exited", "error"}, events)
}

// rlock is suspended for longer than the lease: the command cannot be kept from running meanwhile, and is
// killed as soon as rlock goes on.
func TestSuspended(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	p := begin(t, url(server.Addr()), "run", "--ttl", "5s", "--kill-after", "100ms", "job", "--", "sh", "-c",
		stubborn)
	p.prints("child")
	p.prints("self")
	p.signal(syscall.SIGSTOP)
	env.Soon(t, func() bool { return must(t, server, "EXISTS", "job") == 0 }, "the lease ends")
	server.Do(t, "SET", "job", "the next one's")
	p.signal(syscall.SIGCONT)
	require.Equal(t, 76, p.code())
	for _, pid := range pids(p.stdout.String()) {
		env.Soon(t, func() bool { return !alive(t, pid) }, "all are killed")
	}
	require.Equal(t, "the next one's", env.Get(t, server.Client(t), "job"))
}

// rlock is killed: the lock ends by itself, and on Linux the command dies at once.
func TestKilled(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	p := begin(t, url(server.Addr()), "run", "--ttl", "5s", "--kill-after", "100ms", "job", "--", "sh", "-c",
		"echo self $$; exec sleep 30")
	p.prints("self")
	time.Sleep(time.Second) // threads of rlock have come and gone
	pid := pids(p.stdout.String())[0]
	require.True(t, alive(t, pid))
	p.signal(syscall.SIGKILL)
	env.Receive(t, p.done)
	env.Soon(t, func() bool { return must(t, server, "EXISTS", "job") == 0 }, "the lease ends")
	if runtime.GOOS == "linux" {
		env.Soon(t, func() bool { return !alive(t, pid) }, "the command is killed")
	}
}

// What the command leaves in the background keeps nobody waiting, though it has the standard output.
func TestBackground(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	p := begin(t, url(server.Addr()), "run", "job", "--", "sh", "-c", "sleep 15 & echo left $!")
	start := time.Now()
	require.Zero(t, p.code())
	require.Less(t, time.Since(start), 10*time.Second)
	require.EqualValues(t, 0, must(t, server, "EXISTS", "job"))
	require.True(t, alive(t, pids(p.stdout.String())[0]))
}

// untilDone returns work for a shell, which prints that it is ready and lasts until done is called.
func untilDone(t *testing.T) (work string, done func()) {
	t.Helper()
	end := filepath.Join(t.TempDir(), "end")
	return fmt.Sprintf("echo ready; until test -e '%s'; do sleep 0.05; done", end),
		func() { require.NoError(t, os.WriteFile(end, nil, 0o600)) }
}

// The work is done, so its exit code counts, although the lock cannot be released.
func TestServerGoneAtRelease(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	work, done := untilDone(t)
	p := begin(t, url(server.Addr()), "run", "--ttl", "1m", "job", "--", "sh", "-c", work+"; exit 5")
	p.prints("ready")
	server.Kill()
	done()
	require.Equal(t, 5, p.code())
	require.Regexp(t, `cannot release the lock; its lease ends in [\dms.]+`, p.stderr.String())
}

// Somebody has taken the lock away while the server could not tell: that is noticed at the release.
func TestLossNoticedAtTheEnd(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	work, done := untilDone(t)
	p := begin(t, url(server.Addr())+"?client_cache=0", "run", "--ttl", "1m", "job", "--", "sh", "-c", work)
	p.prints("ready")
	server.Do(t, "DEL", "job")
	done()
	require.Equal(t, 76, p.code())
	require.Contains(t, p.stderr.String(), "noticed the loss after CMD ended with exit code 0")
}
