//go:build unix

package command

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		server.Do(t, "SET", "held", "another library's")
		server.Do(t, "HSET", "hash", "a", "b")
		plain := filepath.Join(t.TempDir(), "plain")
		require.NoError(t, os.WriteFile(plain, []byte("echo no shell\n"), 0o755))
		broken := filepath.Join(t.TempDir(), "broken")
		require.NoError(t, os.WriteFile(broken, []byte("#!/no/such/interpreter\n"), 0o755))
		for name, c := range map[string]struct {
			args string
			code int
			says string // on standard error
		}{
			"success":              {"run job -- true", 0, ""},
			"the command's":        {"run job -- sh -c exit|7", 7, ""},
			"a signal":             {"run job -- sh -c kill|-9|$$", 137, ""},
			"held":                 {"run -n held -- true", 75, "lease never expires"},
			"held, a code":         {"run -n -E 9 held -- true", 9, "held by another"},
			"held, no failure":     {"run -n -E 0 held -- true", 0, ""},
			"held for a while":     {"run -w 0.2 held -- true", 75, "gave up waiting"},
			"one of a set is held": {"run -n a held b -- true", 75, `acquire "held"`},
			"acquire":              {"acquire -n held", 75, "held by another"},
			"wait":                 {"wait -n held", 75, "never expires"},
			"wait for a while":     {"wait -w 200ms held", 75, "gave up waiting"},
			"wait for a free one":  {"wait -n free", 0, ""},
			"another's token":      {"release held x", 76, "not held with this token"},
			"extend, another's":    {"extend held x", 76, "not held with this token"},
			"extend, free":         {"extend free x --ttl 1m", 76, "see rlock who free"},
			"extend, no lock":      {"extend hash x", 125, "WRONGTYPE"},
			"force, another's":     {"force-release held --token x", 76, "not held with this token"},
			"force, no token": {"force-release held", 125,
				`rlock force-release held --token 'another library'\''s'`},
			"force, free":    {"force-release free", 125, "free is free"},
			"no lock":        {"run hash -- true", 125, "WRONGTYPE"},
			"reserved":       {"run rlock:fence:{1} -- true", 125, "choose another"},
			"twice":          {"run a a -- true", 125, "twice"},
			"not found":      {"run job -- no-such-program", 127, "no-such-program is not found"},
			"not executable": {"run job -- /etc/passwd", 126, "permission denied"},
			"a directory":    {"run job -- /", 126, "cannot execute"},
			"no shell":       {"run job -- " + plain, 126, "a script must begin with a line such as #!/bin/sh"},
			"no interpreter": {"run job -- " + broken, 127, "the interpreter"},
			"arguments":      {"run job", 125, "there is no CMD"},
		} {
			args := strings.Split(c.args, " ")
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "|", " ")
			}
			code, stdout, stderr := call(t, url(server.Addr()), args...)
			require.Equal(t, c.code, code, "%s: %s", name, stderr)
			require.Empty(t, stdout, name)
			if c.says == "" {
				require.Empty(t, stderr, name)
			}
			require.Contains(t, stderr, c.says, name)
		}
		for _, key := range []string{"job", "a", "b"} {
			require.EqualValues(t, 0, must(t, server, "EXISTS", key), "%s is released", key)
		}
	})
}

// Who has taken a lock, or a share of one, can extend it.
func TestExtend(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	address := url(server.Addr())
	for key, how := range map[string]string{
		"whole": "--owner me", "readers": "--shared --owner me", "permits": "--limit 2 --permits 2",
	} {
		code, stdout, stderr := call(t, address,
			append([]string{"acquire", "--ttl", "5m", key}, strings.Fields(how)...)...)
		require.Zero(t, code, stderr)
		token := strings.TrimSuffix(stdout, "\n")
		code, stdout, stderr = call(t, address, "extend", key, "--ttl", "2h", token)
		require.Zero(t, code, stderr)
		require.Empty(t, stdout+stderr)
		code, stdout, stderr = call(t, address, "extend", "--json", key, token)
		require.Zero(t, code, stderr)
		require.Equal(t, []map[string]any{{"key": key, "extended": true, "ttl_ms": 30000.}}, objects(t, stdout))
		_, stdout, _ = call(t, address, "who", "--json", key)
		require.InDelta(t, 5400000, objects(t, stdout)[0]["remaining_ms"], 1800000, "the longer lease stays")
		code, _, stderr = call(t, address, "release", key, token)
		require.Zero(t, code, stderr)
		code, stdout, stderr = call(t, address, "extend", "--json", key, token)
		require.Equal(t, 76, code, stderr)
		require.Equal(t, []map[string]any{{"key": key, "extended": false, "ttl_ms": 30000.}}, objects(t, stdout))
	}
}

// must returns the number that a server answers.
func must(t *testing.T, server *env.Server, words ...string) int64 {
	t.Helper()
	reply := server.Do(t, words...)
	n, err := reply.AsInt64()
	require.NoError(t, err)
	return n
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	p := begin(t, url(server.Addr()), "run", "a b", "c\nd", "--", "sh", "-c",
		`printf '%s|%s|%s|%s' "$RLOCK_KEY" "$RLOCK_TOKEN" "$RLOCK_FENCE" "$HOME"; sleep 100`)
	p.prints("|" + os.Getenv("HOME"))
	parts := strings.Split(p.stdout.String(), "|")
	require.Equal(t, "a b\nc\nd", parts[0])
	require.Equal(t, parts[1], env.Get(t, client, "a b"))
	require.Equal(t, parts[1], env.Get(t, client, "c\nd"))
	require.Regexp(t, `^\d+$`, parts[2])
	require.Regexp(t, ` pid \d+ rlock: sh$`, parts[1])
	code, stdout, _ := call(t, url(server.Addr()), "who", "c\nd", "free")
	require.Zero(t, code)
	require.Regexp(t,
		`^"c\\nd" is held by .* pid \d+ rlock: sh, [\d.]+s left\n    token '\S+ .*'\nfree is free\n$`, stdout)
	p.signal(syscall.SIGTERM)
	require.Equal(t, 143, p.code())
	require.Empty(t, env.Get(t, client, "a b"))

	code, _, stderr := call(t, url(server.Addr()), "run", "job", "--", binary, "run", "other", "job", "--",
		"true")
	require.Equal(t, 125, code)
	require.Contains(t, stderr, "could wait for itself")
	code, _, stderr = call(t, url(server.Addr()), "run", "job", "--", binary, "run", "other", "--", "true")
	require.Zero(t, code, stderr)
}

// Standard input, output and other open files are the command's own, whatever is in them.
func TestStreams(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	input := make([]byte, 8<<20)
	rand.Read(input)
	var output bytes.Buffer
	cmd := command(url(server.Addr()), "run", "job", "--", "sh", "-c",
		"cat; echo more >&3; echo told >&2; exit 3")
	extra, err := os.Create(filepath.Join(t.TempDir(), "extra"))
	require.NoError(t, err)
	defer extra.Close()
	var told bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = bytes.NewReader(input), &output, &told, []*os.File{extra}
	require.Error(t, cmd.Run())
	require.Equal(t, 3, cmd.ProcessState.ExitCode())
	require.True(t, bytes.Equal(input, output.Bytes()))
	require.Equal(t, "told\n", told.String())
	text, err := os.ReadFile(extra.Name())
	require.NoError(t, err)
	require.Equal(t, "more\n", string(text))

	// The reader of a pipe goes: the command ends as it would without rlock, which releases the lock.
	pipe := exec.Command("sh", "-c",
		fmt.Sprintf("{ %s run -v job -- yes 2>&1; echo code $? >&3; } | head -n 3", binary))
	pipe.Env = surroundings(url(server.Addr()))
	result, err := os.Create(filepath.Join(t.TempDir(), "result"))
	require.NoError(t, err)
	defer result.Close()
	pipe.ExtraFiles = []*os.File{result}
	require.NoError(t, pipe.Run())
	text, err = os.ReadFile(result.Name())
	require.NoError(t, err)
	require.Equal(t, "code 141\n", string(text))
	require.EqualValues(t, 0, must(t, server, "EXISTS", "job"))
}

// A token that cannot be printed is known to nobody.
func TestAcquireAndRelease(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	code, stdout, _ := call(t, url(server.Addr()), "acquire", "--ttl", "1m", "job")
	require.Zero(t, code)
	token := strings.TrimSuffix(stdout, "\n")
	require.Equal(t, env.Get(t, client, "job"), token)
	require.NotContains(t, token, " ")
	require.Greater(t, env.TTL(t, client, "job"), 50*time.Second)
	code, stdout, stderr := call(t, url(server.Addr()), "release", "job", token)
	require.Zero(t, code)
	require.Empty(t, stdout+stderr)
	require.Empty(t, env.Get(t, client, "job"))

	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err == nil { // there is none but on Linux
		defer full.Close()
		cmd := command(url(server.Addr()), "acquire", "job")
		cmd.Stdout = full
		p := beginCommand(t, cmd)
		require.Equal(t, 125, p.code())
		require.Contains(t, p.stderr.String(), "cannot write to standard output")
		require.Empty(t, env.Get(t, client, "job"))
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	address := url(server.Addr())
	_, stdout, _ := call(t, address, "acquire", "--json", "--owner", "me <x>", "--ttl", "1m", "a\xff b")
	got := objects(t, stdout)
	require.Len(t, got, 1)
	token := got[0]["token"].(string)
	require.Equal(t, "a\uFFFD b", got[0]["key"])
	require.Equal(t, "Yf8gYg==", got[0]["key_base64"])
	require.Equal(t, 60000., got[0]["ttl_ms"])
	require.Greater(t, got[0]["fence"], 1.)
	require.Contains(t, got[0], "waited_ms")

	server.Do(t, "SET", "held", "x")
	_, stdout, _ = call(t, address, "who", "--json", "a\xff b", "held", "free")
	got = objects(t, stdout)
	require.Len(t, got, 3)
	require.Equal(t, []any{true, "me <x>", token}, []any{got[0]["held"], got[0]["owner"], got[0]["token"]})
	require.InDelta(t, 55000, got[0]["remaining_ms"], 5000)
	require.Equal(t, map[string]any{"key": "held", "held": true, "mode": "exclusive", "owner": "", "token": "x",
		"remaining_ms": nil, "waiting": []any{}}, got[1])
	require.Equal(t, map[string]any{"key": "free", "held": false, "mode": nil, "owner": nil, "token": nil,
		"remaining_ms": 0., "waiting": []any{}}, got[2])

	_, stdout, _ = call(t, address, "ls", "--json", "a*")
	got = objects(t, stdout)
	require.Len(t, got, 1)
	require.Equal(t, token, got[0]["token"])

	code, stdout, stderr := call(t, address, "release", "--json", "held", "y")
	require.Equal(t, 76, code)
	require.Equal(t, []map[string]any{{"key": "held", "released": false}}, objects(t, stdout))
	require.Equal(t, 76., objects(t, stderr)[0]["code"])
	_, stdout, _ = call(t, address, "force-release", "--json", "a\xff b", "--token", token)
	require.Equal(t,
		[]map[string]any{{"key": "a\uFFFD b", "key_base64": "Yf8gYg==", "released": true, "owner": "me <x>"}},
		objects(t, stdout))
	_, stdout, _ = call(t, address, "wait", "--json", "free")
	require.Equal(t, "free", objects(t, stdout)[0]["key"])
	_, stdout, _ = call(t, address, "probe", "--json")
	for _, finding := range objects(t, stdout) {
		require.Equal(t, []any{"ok", nil}, []any{finding["severity"], finding["error"]}, "%v", finding)
	}
	_, stdout, stderr = call(t, address, "run", "--json", "a", "b", "--", "sh", "-c", "exit 4")
	require.Empty(t, stdout)
	var events []any
	for _, object := range objects(t, stderr) {
		require.Equal(t, []any{"a", "b"}, object["keys"])
		events = append(events, object["event"])
	}
	require.Equal(t, []any{"acquired", "exited", "released"}, events)
}

// Those who wait get the lock one after the other, and every turn is alone.
func TestOneAfterTheOther(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	log := filepath.Join(t.TempDir(), "log")
	var all []*process
	for i := range 6 {
		all = append(all, begin(t, url(server.Addr()), "run", "job", "--", "sh", "-c",
			fmt.Sprintf("echo in %d >>%s; sleep 0.05; echo out %[1]d >>%[2]s", i, log)))
	}
	for _, p := range all {
		require.Zero(t, p.code(), p.stderr)
	}
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	require.Len(t, lines, 12)
	for i := 0; i < len(lines); i += 2 {
		require.Equal(t, strings.Replace(lines[i], "in", "out", 1), lines[i+1])
	}
}

// who tells who waits, in the order in which they get the lock.
func TestWhoWaits(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	address := url(server.Addr())
	code, token, _ := call(t, address, "acquire", "job")
	require.Zero(t, code)
	var all []*process
	for n, kind := range [][]string{{}, {"--limit", "2"}} {
		args := append(append([]string{"run", "--owner", fmt.Sprint("waiter ", n)}, kind...), "job", "--", "true")
		all = append(all, begin(t, address, args...))
		env.Soon(t, func() bool {
			_, stdout, _ := call(t, address, "who", "job")
			return strings.Count(stdout, "waits since") == n+1
		}, "it waits")
	}
	_, stdout, _ := call(t, address, "who", "job")
	require.Regexp(t,
		`(?s)waits since [-0-9T:]+Z, wants the whole lock, owner "waiter 0"\n.*wants 1 of 2 permits, owner "waiter 1"\n$`, stdout)
	_, stdout, _ = call(t, address, "who", "--json", "job")
	waiting := objects(t, stdout)[0]["waiting"].([]any)
	require.Len(t, waiting, 2)
	_, stdout, _ = call(t, address, "ls", "*")
	require.Regexp(t, `^job\t[^\t]+\t\t2 waiting: waiter 0, waiter 1\n$`, stdout)
	second := waiting[1].(map[string]any)
	require.Equal(t, []any{"waiter 1", "permits", 1., 2.},
		[]any{second["owner"], second["mode"], second["permits"], second["limit"]})
	code, _, _ = call(t, address, "release", "job", strings.TrimSpace(token))
	require.Zero(t, code)
	for _, p := range all {
		require.Zero(t, p.code(), p.stderr)
	}
}

func TestThousandKeys(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	args := append([]string{"run"}, env.Keys(1000)...)
	code, stdout, stderr := call(t, url(server.Addr()),
		append(args, "--", "sh", "-c", `echo "$RLOCK_KEY" | wc -l`)...)
	require.Zero(t, code, stderr)
	require.Equal(t, "1000", strings.TrimSpace(stdout))
	code, stdout, _ = call(t, url(server.Addr()), append([]string{"who"}, env.Keys(1000)...)...)
	require.Zero(t, code)
	require.Equal(t, 1000, strings.Count(stdout, " is free\n"))
}

// ls reads nothing of what is no lock but the beginning of strings that match.
func TestListAmongManyKeys(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	server.Do(t, "DEBUG", "POPULATE", "100000", "other")
	server.Do(t, "DEBUG", "POPULATE", "5", "job:big", "10000000")
	server.Do(t, "HSET", "job:hash", "a", "b")
	server.Do(t, "SET", "job:foreign", "not a token of rlock")
	for _, key := range []string{"job:2", "job:1", "no job"} {
		code, _, stderr := call(t, url(server.Addr()), "acquire", "--ttl", "5m", "--owner", "me", key)
		require.Zero(t, code, stderr)
	}
	server.Do(t, "CONFIG", "RESETSTAT")
	code, stdout, stderr := call(t, url(server.Addr()), "ls", "job:*")
	require.Zero(t, code, stderr)
	require.Regexp(t, `^job:1\t[\d.ms]+ left\tme\t\njob:2\t[\d.ms]+ left\tme\t\n$`, stdout)
	calls := server.CommandStats(t)
	require.EqualValues(t, 8, calls["getrange"], "of the strings that match")
	require.LessOrEqual(t, calls["get"], int64(2), "of the locks")
	info := server.Do(t, "INFO", "stats")
	text, err := info.ToString()
	require.NoError(t, err)
	_, after, _ := strings.Cut(text, "total_net_output_bytes:")
	var sent int
	_, err = fmt.Sscan(after, &sent)
	require.NoError(t, err)
	require.Less(t, sent, 1<<20)
}

// All that a pod had which is gone is listed, and freed when one says so: its locks and shares, and nothing
// of others, whose names may begin in the same way.
func TestForceReleaseOfAnOwner(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		address := url(server.Addr())
		take := func(args ...string) {
			t.Helper()
			code, _, stderr := call(t, address, append([]string{"acquire", "--ttl", "5m"}, args...)...)
			require.Zero(t, code, stderr)
		}
		take("--owner", "web-3 pid 7", "app:a")
		take("--owner", "web-3 pid 8", "--shared", "app:b")
		take("--owner", "web-31 pid 7", "--shared", "app:b")
		take("--owner", "web-3", "other")
		take("app:c")
		const listed = `^app:a\t\S+ left\tweb-3 pid 7%[1]s\napp:b\t\S+ left\tweb-3 pid 8%[1]s\n$`

		code, stdout, _ := call(t, address, "ls", "--owner", "web-3", "*")
		require.Zero(t, code)
		require.Regexp(t, `^app:a\t.*\napp:b\t.*\nother\t.*\n$`, stdout)

		code, stdout, stderr := call(t, address, "force-release", "--owner", "web-3", "app:*")
		require.Equal(t, 125, code)
		require.Regexp(t, fmt.Sprintf(listed, ""), stdout)
		require.Contains(t, stderr, "nothing is released without --yes; to free 2 locks: "+
			"rlock force-release --owner web-3 --yes 'app:*'")

		code, stdout, stderr = call(t, address, "force-release", "--owner", "web-3", "--yes", "app:*")
		require.Zero(t, code, stderr)
		require.Regexp(t, fmt.Sprintf(listed, "\treleased"), stdout)
		code, stdout, _ = call(t, address, "ls", "*")
		require.Zero(t, code)
		require.Regexp(t, `^app:b\t\S+ left\t1 reader: web-31 pid 7\t\n`+
			`app:c\t\S+ left\t\t\nother\t\S+ left\tweb-3\t\n$`, stdout)

		code, _, stderr = call(t, address, "force-release", "--owner", "web-3", "--yes", "app:*")
		require.Equal(t, 125, code)
		require.Contains(t, stderr, `owner "web-3" holds no lock that matches 'app:*'`)
		code, stdout, _ = call(t, address, "force-release", "--json", "--owner", "web-3", "--yes", "*")
		require.Zero(t, code)
		freed := objects(t, stdout)[0]
		require.Equal(t, []any{"other", true}, []any{freed["key"], freed["released"]})
		for _, args := range []string{"--owner a --token b c", "--yes c", "--owner a"} {
			code, _, _ = call(t, address, append([]string{"force-release"}, strings.Fields(args)...)...)
			require.Equal(t, 125, code, args)
		}
	})
}

// What keeps rlock from its server is said with what to do about it, and never with the password.
func TestConnectionErrors(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	server.Do(t, "CONFIG", "SET", "requirepass", "SECRET")
	for address, want := range map[string]string{
		url(server.Addr()):                  "the server wants a password",
		"redis://:WRONG@" + server.Addr():   "the user or the password is wrong",
		"":                                  "set RLOCK_URL to redis://",
		"redis://:SECRET/@" + server.Addr(): "cannot be read as a URL",
	} {
		code, stdout, stderr := call(t, address, "run", "job", "--", "true")
		require.Equal(t, 125, code, address)
		require.Empty(t, stdout)
		require.Contains(t, stderr, want, address)
		require.NotContains(t, stderr, "SECRET")
		require.NotContains(t, stderr, "WRONG@")
	}
	for _, address := range []string{"redis://127.0.0.1:1", "rediss://127.0.0.1:1"} {
		code, _, stderr := call(t, address, "run", "-n", "job", "--", "true")
		require.Equal(t, 125, code, address)
		require.Contains(t, stderr, "nothing listens there", address)
	}
	code, _, stderr := call(t, "redis://:SECRET@"+server.Addr(), "run", "job", "--", "true")
	require.Zero(t, code, stderr)
}

func TestTopologies(t *testing.T) {
	t.Parallel()
	engine := env.Engines(t)[0]
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := engine.StartCluster(t)
		address := url(cluster.Addrs()[0]) + "?addr=" + cluster.Addrs()[1]
		code, stdout, stderr := call(t, address, "run", "a", "b", "c", "--", binary, "ls", "?")
		require.Zero(t, code, stderr)
		require.Equal(t, 3, strings.Count(stdout, "\n"), stdout)
		code, stdout, stderr = call(t, address, "run", "--limit", "2", "a", "--", binary, "run", "--shared", "b",
			"--", binary, "ls", "?")
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, "1 of 2 permits")
		require.Contains(t, stdout, "1 reader")
		code, stdout, _ = call(t, address, "who", "a", "b")
		require.Zero(t, code)
		require.Equal(t, "a is free\nb is free\n", stdout)
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		option := engine.StartSentinel(t).Option()
		address := url(option.InitAddress[0]) + "?addr=" + option.InitAddress[1] + "&master_set=" +
			option.Sentinel.MasterSet
		code, stdout, stderr := call(t, address, "run", "job", "--", binary, "ls", "*")
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, "job\t")
	})
}
