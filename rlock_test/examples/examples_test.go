package examples

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestMain(m *testing.M) { env.Main(m, nil) }

// examples are the tests of the programs, by their directories.
var examples = map[string]func(t *testing.T, e env.Engine, program string){
	"cron":     testCron,
	"handler":  testHandler,
	"transfer": testTransfer,
	"leader":   testLeader,
	"workers":  testWorkers,
	"gate":     testGate,
	"guarded":  testGuarded,
	"callback": testCallback,
	"connect":  testConnect,
}

// Each example runs, and does what its text says.
func TestExamples(t *testing.T) {
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "./...")
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var built []string
	for _, entry := range entries {
		built = append(built, strings.TrimSuffix(entry.Name(), ".exe"))
	}
	var tested []string
	for name := range examples {
		tested = append(tested, name)
	}
	slices.Sort(tested)
	require.Equal(t, built, tested, "each program has a test")

	for name, test := range examples {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env.Each(t, func(t *testing.T, e env.Engine) { test(t, e, filepath.Join(dir, name)) })
		})
	}
}

// doc.go names every example.
func TestExamplesAreListed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	for name := range examples {
		require.Regexp(t, `(?m)^//\t`+name+` +[a-z]`, string(text))
	}
}

// output runs a program to its end and returns what it prints.
func output(t *testing.T, address, program string, args ...string) string {
	t.Helper()
	text, err := attempt(t, address, program, args...)
	require.NoError(t, err, text)
	return text
}

// attempt is output for a program that may fail.
func attempt(t *testing.T, address, program string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "REDIS_ADDR="+address)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, &stderr)
	}
	return stdout.String(), err
}

func testCron(t *testing.T, e env.Engine, program string) {
	server := e.Start(t)
	const replicas = 4
	printed := make([]string, replicas)
	require.NoError(t, env.Together(replicas, func(i int) (err error) {
		printed[i], err = attempt(t, server.Addr(), program, fmt.Sprint("-replica=web-", i), "-min-hold=1h")
		return err
	}))
	text := strings.Join(printed, "")
	require.Equal(t, 1, strings.Count(text, " wrote the report\n"), text)
	require.Equal(t, replicas-1, strings.Count(text, " has nothing to do\n"), text)
	late := output(t, server.Addr(), program, "-replica=late", "-min-hold=1h")
	require.Equal(t, "late has nothing to do\n", late, "the clocks of replicas differ")

	// In the next period it fails, and keeps others out all the same.
	server.Do(t, "DEL", "cron:report")
	failed, err := attempt(t, server.Addr(), program, "-replica=broken", "-min-hold=1h", "-fail")
	require.Error(t, err)
	require.Equal(t, "broken failed: the disk is full\n", failed)
	late = output(t, server.Addr(), program, "-replica=late", "-min-hold=1h")
	require.Equal(t, "late has nothing to do\n", late)
}

func testHandler(t *testing.T, e env.Engine, program string) {
	server := e.Start(t)
	server.Do(t, "SET", "balance:17", "100")
	cmd := exec.Command(program, "-listen=127.0.0.1:0")
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer log.Close()
	cmd.Stderr = log
	service := env.Run(t, cmd, "REDIS_ADDR="+server.Addr())
	address, found := strings.CutPrefix(service.Line(), "listening on ")
	require.True(t, found)
	http := &http.Client{Transport: &http.Transport{}}
	defer http.CloseIdleConnections()
	withdraw := func(account string) (status int, after string, err error) {
		response, err := http.Post("http://"+address+"/accounts/"+account+"/withdraw?amount=10", "", nil)
		if err != nil {
			return 0, "", err
		}
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		return response.StatusCode, response.Header.Get("Retry-After"), err
	}

	// Of twenty at the same time, ten find enough. Without the lock, more of them would.
	var paid, refused atomic.Int64
	require.NoError(t, env.Together(20, func(int) error {
		status, _, err := withdraw("17")
		switch status {
		case 200:
			paid.Add(1)
		case 402:
			refused.Add(1)
		}
		return err
	}))
	require.EqualValues(t, 10, paid.Load())
	require.EqualValues(t, 10, refused.Load())

	// An account that stays locked is busy, and the others are not.
	held, err := env.OpenOn(t, server).Acquire(t.Context(), "account:17", rlock.WithTTL(time.Minute))
	require.NoError(t, err)
	server.Do(t, "SET", "balance:18", "10")
	require.NoError(t, env.Together(2, func(i int) error {
		status, after, err := withdraw([]string{"17", "18"}[i])
		require.Equal(t, []int{409, 200}[i], status)
		require.Equal(t, []string{"1", ""}[i], after)
		return err
	}))
	require.NoError(t, held.Release(t.Context()))

	// A server that does not answer is no busy account, and somebody reads of it.
	server.Stop()
	status, after, err := withdraw("18")
	require.NoError(t, err)
	require.Equal(t, 503, status)
	require.Equal(t, "5", after)
	server.Cont()
	written, err := os.ReadFile(log.Name())
	require.NoError(t, err)
	require.Regexp(t, `no answer from Redis: rlock: acquire "account:18": .*the server has not answered for `,
		string(written))

	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, "done", service.Line())
	service.Wait()
}

func testTransfer(t *testing.T, e env.Engine, program string) {
	cluster := e.StartCluster(t)
	require.NoError(t, env.Together(2, func(int) error {
		printed, err := attempt(t, cluster.Addrs()[0], program, "-transfers=100")
		if err == nil && printed != "all accounts together have 300\n" {
			err = fmt.Errorf("it printed %q", printed)
		}
		return err
	}))
}

func testLeader(t *testing.T, e env.Engine, program string) {
	server := e.Start(t)
	start := func(name string) (*env.Program, *exec.Cmd) {
		cmd := exec.Command(program, "-name="+name)
		return env.Run(t, cmd, "REDIS_ADDR="+server.Addr()), cmd
	}
	term := func(p *env.Program, name string) (n uint64) {
		line := p.Line()
		_, err := fmt.Sscanf(line, name+" leads, term %d", &n)
		require.NoError(t, err, line)
		return n
	}
	a, _ := start("a")
	first := term(a, "a")
	b, command := start("b")
	// It dies: the next one leads when the lease is over.
	a.Kill()
	second := term(b, "b")
	require.Greater(t, second, first)
	// It is told to end: the next one leads at once.
	c, _ := start("c")
	require.NoError(t, command.Process.Signal(syscall.SIGTERM))
	require.Equal(t, "b is done", b.Line())
	b.Wait()
	require.Greater(t, term(c, "c"), second)
	// It loses the lead, stops, and is elected again.
	server.Do(t, "DEL", "leader:indexer")
	require.Contains(t, c.Line(), "c has lost the lead: ")
	require.Greater(t, term(c, "c"), second)
}

func testWorkers(t *testing.T, e env.Engine, program string) {
	server := e.Start(t)
	printed := make([]string, 4)
	require.NoError(t, env.Together(len(printed), func(i int) (err error) {
		printed[i], err = attempt(t, server.Addr(), program, "-limit=2", "-jobs=5")
		return err
	}))
	text := strings.Join(printed, "")
	require.Equal(t, len(printed), strings.Count(text, "done\n"), text)
	require.Equal(t, 20, strings.Count(text, "working: 1\n")+strings.Count(text, "working: 2\n"), text)
}

func testGate(t *testing.T, e env.Engine, program string) {
	require.Equal(t, "search is on\nsearch is off\nsearch is on\n"+
		"more than 100000 checks: true\nfewer than 100 asked the server: true\n",
		output(t, e.Start(t).Addr(), program))
}

func testGuarded(t *testing.T, e env.Engine, program string) {
	server := e.Start(t)
	require.Equal(t, "held: the next holder writes: true\nheld: the paused one is refused: true\n"+
		"fenced: the next holder writes: true\nfenced: the paused one is refused: true\n",
		output(t, server.Addr(), program))
	require.Equal(t, "new", env.Get(t, server.Client(t), "{page:17}:text"))
	written := server.Do(t, "HGET", "page:17", "value")
	text, err := written.ToString()
	require.NoError(t, err)
	require.Equal(t, "new", text)
}

func testCallback(t *testing.T, e env.Engine, program string) {
	require.Equal(t, "lost: true\nwithin ten seconds: true\nthe program's own callback was called: true\n",
		output(t, e.Start(t).Addr(), program))
}

func testConnect(t *testing.T, e env.Engine, program string) {
	const want = "nothing is missing\nalone with order:17\n"
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		server := e.Start(t)
		server.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
		require.Equal(t, want, output(t, "", program, "-addr="+server.Addr()))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, want, output(t, "", program, "-addr="+strings.Join(e.StartCluster(t).Addrs(), ",")))
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		option := e.StartSentinel(t).Option()
		require.Equal(t, want, output(t, "", program, "-addr="+strings.Join(option.InitAddress, ","),
			"-sentinel="+option.Sentinel.MasterSet))
	})
	t.Run("TLS", func(t *testing.T) {
		t.Parallel()
		server, authority := e.StartWithTLS(t)
		require.Equal(t, want, output(t, "", program, "-addr="+server, "-tls", "-ca="+authority))
		_, err := attempt(t, "", program, "-addr="+server, "-tls")
		require.ErrorContains(t, err, "unknown authority", "the system does not know who has signed")
	})
}
