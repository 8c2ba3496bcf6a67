//go:build unix

package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// tells waits until standard error has the text.
func (p *process) tells(text string) {
	p.t.Helper()
	env.Soon(p.t, func() bool { return strings.Contains(p.stderr.String(), text) }, "rlock tells "+text)
}

// fence is what a command has printed of its RLOCK_FENCE.
func (p *process) fence() int {
	p.t.Helper()
	p.prints(";")
	_, rest, _ := strings.Cut(p.stdout.String(), "fence ")
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(rest), ";"))
	require.NoError(p.t, err)
	return n
}

// queued waits until somebody is in the queue of the key.
func queued(t *testing.T, server *env.Server, key string) {
	t.Helper()
	env.Soon(t, func() bool {
		reply := server.Do(t, "KEYS", "rlock:queue:{*}:"+key)
		names, err := reply.AsStrSlice()
		return err == nil && len(names) > 0
	}, "somebody waits in the queue")
}

// stays and passes are commands that tell that they run: until they are ended, or not at all.
var (
	passes = []string{"--", "sh", "-c", `echo "fence $RLOCK_FENCE;"`}
	stays  = []string{"--", "sh", "-c", `echo "fence $RLOCK_FENCE;"; exec sleep 100`}
)

func with(command []string, args ...string) []string { return append(args, command...) }

// Two readers run together. A writer waits for both, and a reader who comes after the writer waits for that
// one.
func TestReadersAndWriters(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		address := url(server.Addr())
		one := begin(t, address, with(stays, "run", "--shared", "data")...)
		two := begin(t, address, with(stays, "run", "--shared", "data")...)
		require.Equal(t, one.fence(), two.fence(), "they run at the same time")

		writer := begin(t, address, with(passes, "run", "-v", "data")...)
		writer.tells("; in use: 2 readers: ")
		queued(t, server, "data")
		reader := begin(t, address, with(passes, "run", "-v", "--shared", "data")...)
		reader.tells("waiting for a share of data")
		one.signal(syscall.SIGTERM)
		require.Equal(t, 143, one.code())
		code, stdout, _ := call(t, address, "who", "data")
		require.Zero(t, code)
		require.Regexp(t, `^data is shared: 1 reader, [\d.]+s left\n`, stdout)
		require.Empty(t, writer.stdout.String()+reader.stdout.String())

		two.signal(syscall.SIGTERM)
		require.Equal(t, 143, two.code())
		require.Zero(t, writer.code(), writer.stderr)
		require.Zero(t, reader.code(), reader.stderr)
		require.Less(t, two.fence(), writer.fence())
		require.Less(t, writer.fence(), reader.fence())
		require.EqualValues(t, 0, must(t, server, "EXISTS", "data"))
	})
}

// A limit of 2 lets two in at a time, and never three.
func TestLimit(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		address := url(server.Addr())
		one := begin(t, address, with(stays, "run", "--limit", "2", "build")...)
		two := begin(t, address, with(stays, "run", "--limit", "2", "build")...)
		one.fence()
		two.fence()
		code, _, stderr := call(t, address, "run", "-n", "--limit", "2", "build", "--", "true")
		require.Equal(t, 75, code)
		require.Regexp(t, `in use: 2 of 2 permits: .* pid \d+ rlock: sh, .* pid \d+ rlock: sh\n$`, stderr)
		one.signal(syscall.SIGTERM)
		two.signal(syscall.SIGTERM)
		require.Equal(t, []int{143, 143}, []int{one.code(), two.code()})

		log := filepath.Join(t.TempDir(), "log")
		var all []*process
		for i := range 8 {
			permits := 1 + i%2
			all = append(all, begin(t, address, "run", "--limit", "2", "--permits", strconv.Itoa(permits), "build",
				"--",
				"sh", "-c", fmt.Sprintf("echo %d >>%s; sleep 0.05; echo -%[1]d >>%[2]s", permits, log)))
		}
		for _, p := range all {
			require.Zero(t, p.code(), p.stderr)
		}
		text, err := os.ReadFile(log)
		require.NoError(t, err)
		lines := strings.Fields(string(text))
		require.Len(t, lines, 16)
		inUse := 0
		for _, line := range lines {
			n, err := strconv.Atoi(line)
			require.NoError(t, err)
			inUse += n
			require.LessOrEqual(t, inUse, 2, lines)
		}
	})
}

// Who dies with a permit has it until the end of its lease, although others keep the key.
func TestPermitOfTheKilled(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	address := url(server.Addr())
	other := begin(t, address, with(stays, "run", "--ttl", "5m", "--limit", "2", "build")...)
	other.fence()
	dies := begin(t, address, with(stays, "run", "--ttl", "5s", "--kill-after", "100ms", "--limit", "2",
		"build")...)
	dies.fence()
	next := begin(t, address, with(passes, "run", "-v", "--limit", "2", "build")...)
	next.tells("waiting for a permit of build")
	dies.signal(syscall.SIGKILL)
	env.Receive(t, dies.done)
	require.Zero(t, next.code(), next.stderr)
	require.Equal(t, other.fence(), next.fence(), "the other has its permit all the time")
}

// The key stays until the time is over, whatever the command has done, unless it was not started.
func TestMinHold(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		address := url(server.Addr())
		code, _, stderr := call(t, address, "run", "-v", "--ttl", "5m", "--min-hold", "4m", "--owner", "me", "a",
			"b", "--", "sh", "-c", "exit 7")
		require.Equal(t, 7, code)
		require.Regexp(t, `--min-hold keeps the lock: 3m[\d.]+s left\n$`, stderr)
		for _, key := range []string{"a", "b"} {
			require.InDelta(t, 4*time.Minute, env.TTL(t, client, key), float64(time.Minute))
			code, _, stderr = call(t, address, "run", "-n", key, "--", "true")
			require.Equal(t, 75, code)
			require.Contains(t, stderr, "the holder is me")
		}
		code, _, stderr = call(t, address, "force-release", "a", "--token", env.Get(t, client, "a"))
		require.Zero(t, code, stderr)
		code, _, stderr = call(t, address, "run", "-n", "a", "--", "true")
		require.Zero(t, code, stderr)

		start := time.Now()
		code, _, stderr = call(t, address, "run", "--min-hold", "2s", "short", "--", "true")
		require.Zero(t, code, stderr)
		code, _, stderr = call(t, address, "run", "short", "--", "true")
		require.Zero(t, code, stderr)
		require.Greater(t, time.Since(start), 2*time.Second)

		code, _, stderr = call(t, address, "run", "-v", "--min-hold", "1s", "long", "--", "sleep", "1.5")
		require.Zero(t, code)
		require.Contains(t, stderr, "released the lock")
		require.EqualValues(t, 0, must(t, server, "EXISTS", "long"))

		broken := filepath.Join(t.TempDir(), "broken")
		require.NoError(t, os.WriteFile(broken, []byte("#!/no/such/interpreter\n"), 0o755))
		code, _, stderr = call(t, address, "run", "--min-hold", "20s", "c", "d", "--", broken)
		require.Equal(t, 127, code, stderr)
		require.EqualValues(t, 0, must(t, server, "EXISTS", "c", "d"), "it can run on another machine")
	})
}

// People see who shares a lock, and can give back what others have.
func TestLooksAtShares(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		address := url(server.Addr())
		acquire := func(args ...string) string {
			code, stdout, stderr := call(t, address, with(args, "acquire", "--ttl", "5m")...)
			require.Zero(t, code, stderr)
			return strings.TrimSuffix(stdout, "\n")
		}
		ann := acquire("--shared", "--owner", "ann's", "data")
		other := acquire("--shared", "--ttl", "4m", "data")
		bob := acquire("--limit", "4", "--permits", "3", "--owner", "bob", "build")
		acquire("alone")

		code, stdout, _ := call(t, address, "ls", "*")
		require.Zero(t, code)
		require.Regexp(t,
			`^alone\t4m[\d.]+s left\t\t\nbuild\t4m[\d.]+s left\t3 of 4 permits: bob\t\ndata\t4m[\d.]+s left\t2 readers: ann's, 1 more\t\n$`, stdout)
		code, stdout, _ = call(t, address, "who", "data", "build", "free")
		require.Zero(t, code)
		require.Regexp(t, `^data is shared: 2 readers, 4m[\d.]+s left
    3m[\d.]+s left
        token rlock:share:0:1:\S+
    ann's, 4m[\d.]+s left
        token 'rlock:share:0:1:\S+ ann'\\''s'
build is shared: 3 of 4 permits, 4m[\d.]+s left
    bob, 3 of 4 permits, 4m[\d.]+s left
        token 'rlock:share:4:3:\S+ bob'
free is free\n$`, stdout)

		_, stdout, _ = call(t, address, "who", "--json", "data", "build", "alone")
		got := objects(t, stdout)
		require.Len(t, got, 3)
		for name, want := range map[string]any{"key": "data", "held": true, "mode": "readers", "permits": 2.,
			"limit": nil, "owner": nil, "token": nil} {
			require.Equal(t, want, got[0][name], name)
		}
		require.InDelta(t, 270000, got[0]["remaining_ms"], 30000, "of the lease that ends last")
		holders := got[0]["holders"].([]any)
		require.Len(t, holders, 2)
		first, second := holders[0].(map[string]any), holders[1].(map[string]any)
		require.Equal(t, []any{"", other, 0.}, []any{first["owner"], first["token"], first["permits"]})
		require.Equal(t, []any{"ann's", ann, 0.}, []any{second["owner"], second["token"], second["permits"]})
		require.InDelta(t, 210000, first["remaining_ms"], 30000)
		for name, want := range map[string]any{"mode": "permits", "permits": 3., "limit": 4.} {
			require.Equal(t, want, got[1][name], name)
		}
		require.Equal(t, "exclusive", got[2]["mode"])
		require.NotContains(t, got[2], "holders")
		_, stdout, _ = call(t, address, "ls", "--json", "data")
		listed := objects(t, stdout)
		require.Len(t, listed, 1)
		require.Equal(t, []any{"readers", 2.}, []any{listed[0]["mode"], listed[0]["permits"]})

		code, _, stderr := call(t, address, "wait", "-n", "data")
		require.Equal(t, 75, code)
		require.Contains(t, stderr, "in use: 2 readers: ann's, 1 more")
		code, _, stderr = call(t, address, "force-release", "data")
		require.Equal(t, 125, code)
		require.Contains(t, stderr, "data is shared: 2 readers")
		require.Contains(t, stderr, "to free one of them: rlock force-release data --token TOKEN")
		code, stdout, _ = call(t, address, "force-release", "--json", "data", "--token", ann)
		require.Zero(t, code)
		require.Equal(t, []map[string]any{{"key": "data", "released": true, "owner": "ann's"}}, objects(t, stdout))
		code, _, _ = call(t, address, "release", "data", ann)
		require.Equal(t, 76, code, "that share is gone")
		code, _, stderr = call(t, address, "release", "data", other)
		require.Zero(t, code, stderr)
		code, _, stderr = call(t, address, "release", "build", bob)
		require.Zero(t, code, stderr)
		code, stdout, _ = call(t, address, "who", "data", "build")
		require.Zero(t, code)
		require.Equal(t, "data is free\nbuild is free\n", stdout)
	})
}

// Each command gets permits within its own limit, and readers and holders of permits keep each other out.
func TestOtherLimits(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	address := url(server.Addr())
	for _, args := range []string{"acquire --ttl 5m --limit 3 build", "acquire --ttl 5m --shared data"} {
		code, _, stderr := call(t, address, strings.Fields(args)...)
		require.Zero(t, code, stderr)
	}
	for args, code := range map[string]int{
		"--limit 4 build": 0, // within its own limit
		"--limit 1 build": 1,
		"--shared build":  1,
		"--limit 4 data":  1,
	} {
		words := append(append([]string{"run", "-n", "-E", "1"}, strings.Fields(args)...), "--", "true")
		got, _, stderr := call(t, address, words...)
		require.Equal(t, code, got, "%s: %s", args, stderr)
	}
	for _, mode := range [][]string{{"--shared"}, {"--limit", "2"}} {
		args := append([]string{"run", "job"}, mode...)
		code, _, stderr := call(t, address, append(append(args, "--", binary), append(args, "--", "true")...)...)
		require.Equal(t, 125, code)
		require.Contains(t, stderr, "could wait for itself")
	}
}

// Who loses its share is stopped: at once if all lose it, and at the next extension if one does.
func TestLostShare(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	address := url(server.Addr())
	lasts := begin(t, address, with(stays, "run", "--shared", "--ttl", "5m", "data")...)
	lasts.fence()
	loses := begin(t, address, with(stays, "run", "--shared", "--ttl", "9s", "--kill-after", "100ms", "--owner",
		"loses", "data")...)
	loses.fence()
	_, stdout, _ := call(t, address, "who", "--json", "data")
	token := objects(t, stdout)[0]["holders"].([]any)[0].(map[string]any)
	require.Equal(t, "loses", token["owner"])
	code, _, stderr := call(t, address, "force-release", "data", "--token", token["token"].(string))
	require.Zero(t, code, stderr)
	require.Equal(t, 76, loses.code(), loses.stderr)

	start := time.Now()
	server.Do(t, "DEL", "data")
	require.Equal(t, 76, lasts.code(), lasts.stderr)
	require.Less(t, time.Since(start), time.Minute, "long before the next extension")
}
