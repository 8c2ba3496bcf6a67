package generator

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// root is the module's directory, seen from the tests.
const root = "../.."

// run runs a Go command in a directory and returns what it printed.
func run(t *testing.T, dir string, env []string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, diagnostics bytes.Buffer
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir = dir
	command.Env = append(os.Environ(), env...)
	command.Stdout, command.Stderr = &out, &diagnostics
	err = command.Run()
	return out.String(), diagnostics.String(), err
}

func copyFiles(t *testing.T, from, to, pattern string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(to, 0o777))
	paths, err := filepath.Glob(filepath.Join(from, pattern))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, filepath.Base(path)), text, 0o666))
	}
}

func TestGeneratedCodeIsFresh(t *testing.T) {
	t.Parallel()
	stdout, stderr, err := run(t, root, nil, "run", "./generator/redislua", "-check")
	require.NoError(t, err, stdout+stderr)
}

// One changed byte of a script is drift until the bindings are written again.
func TestOneByteIsDrift(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	scripts, out := filepath.Join(dir, "scripts"), filepath.Join(dir, "gen")
	require.NoError(t, os.CopyFS(scripts, os.DirFS(filepath.Join(root, "scripts"))))
	copyFiles(t, filepath.Join(root, "gen"), out, "*.*")
	generator := func(more ...string) (string, string, error) {
		return run(t, root, nil, append([]string{"run", "./generator/redislua", "-scripts", scripts, "-out", out},
			more...)...)
	}
	_, stderr, err := generator("-check")
	require.NoError(t, err, stderr)

	path := filepath.Join(scripts, "release.lua")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	changed := bytes.Replace(text, []byte("Gives"), []byte("gives"), 1)
	require.NotEqual(t, text, changed)
	require.NoError(t, os.WriteFile(path, changed, 0o666))

	stdout, _, err := generator("-check")
	require.Error(t, err)
	require.Contains(t, stdout, "\n--- "+filepath.ToSlash(filepath.Join(out, "release.lua"))+"\n")
	require.Contains(t, stdout, "\n--- Gives")
	require.Contains(t, stdout, "\n+-- gives")
	require.Contains(t, stdout, gen.ReleaseSHA1)
	_, stderr, err = generator()
	require.NoError(t, err, stderr)
	_, stderr, err = generator("-check")
	require.NoError(t, err, stderr)
}

// Each text that runs is a file that runs: EVAL takes it as it stands, as redis-cli --eval does, and the
// server then knows the script by the sum that the bindings send.
func TestFilesRunAsTheyStand(t *testing.T) {
	t.Parallel()
	keys := func(text string) []string { return strings.Fields(text) }
	const lease = time.Minute
	calls := []struct {
		file   string
		params any
		want   string
	}{
		{"acquire.lua", gen.AcquireParams{Lock: "{k}", Queue: "{k}q", Token: "mine", TTL: lease}, "[1 0]"},
		{"acquire_many.lua", gen.AcquireManyParams{
			Keys: keys("{k} {k}1 {k}q {k}1q"), Words: []string{"mine", "60000", "other", "60000"},
		}, "[0 0 1 0]"},
		{"check.lua", gen.CheckParams{Lock: "{k}"}, "mine"},
		{"wait.lua", gen.WaitParams{
			Lock: "{k}", Queue: "{k}q", Waiters: "{k}w", Holders: "{k}h", Grants: "{k}grants:", Token: "other",
			TTL: lease, Process: "p", How: gen.WaitHowJoin,
		}, ""},
		{"inspect.lua", gen.InspectParams{Keys: keys("{k} {k}h {k}q"), Waiters: 9}, ""},
		{"extend.lua", gen.ExtendParams{Keys: keys("{k}"), TTL: lease, Tokens: []string{"mine"}}, "[]"},
		{"raise_fence.lua", gen.RaiseFenceParams{Keys: keys("{k} {k}f"), Token: "mine", Fence: 7, Locks: 1}, "0"},
		{"attach.lua", gen.AttachParams{
			Keys: keys("{k}"), Token: "renamed", TTL: lease, Former: []string{"mine"},
		}, ""},
		{"hand_over.lua", gen.HandOverParams{
			Lock: "{k}", Queue: "{k}q", Counter: keys("{k}f"), Token: "renamed", Next: "again", TTL: lease, Fences: 1,
		}, ""},
		{"requeue.lua", gen.RequeueParams{
			Lock: "{k}", Queue: "{k}q", Waiters: "{k}w", Holders: "{k}h", Grants: "{k}grants:", Token: "again",
			Again: "last", TTL: lease, Process: "p",
		}, ""},
		{"release.lua", gen.ReleaseParams{
			Lock: "{k}", Queue: "{k}q", Waiters: "{k}w", Holders: "{k}h", Grants: "{k}grants:", Token: "last",
		}, ""},
		{"release_many.lua", gen.ReleaseManyParams{
			Keys: keys("{k}1 {k}2"), Locks: 2, Tokens: []string{"other"},
		}, "[1 0]"},
		{"acquire_all.lua", gen.AcquireAllParams{
			Keys: keys("{k}1 {k}2 {k}q1 {k}q2"), Token: "mine", TTL: lease, Locks: 2, Queued: true,
		}, ""},
	}
	sums := sumsOfFiles()
	env.Each(t, func(t *testing.T, e env.Engine) {
		client := e.Start(t).Client(t)
		for _, c := range calls {
			text, err := os.ReadFile(filepath.Join(root, "gen", c.file))
			require.NoError(t, err)
			sum1 := sha1.Sum(text)
			require.Equal(t, hex.EncodeToString(sum1[:]), sums[c.file][0], c.file)
			words := env.WordsOf(t, client, c.params)
			require.Equal(t, sums[c.file][0], words.SHA1, "%T", c.params)
			eval := append([]string{"EVAL", string(text), strconv.Itoa(len(words.Keys))}, words.Keys...)
			answer, err := env.Do(t, client, append(eval, words.Args...)...).ToAny()
			require.NoError(t, err, c.file)
			if c.want != "" {
				require.Equal(t, c.want, fmt.Sprint(answer), c.file)
			}
			known, err := env.Do(t, client, "SCRIPT", "EXISTS", sums[c.file][0]).AsIntSlice()
			require.NoError(t, err)
			require.Equal(t, []int64{1}, known, c.file)
		}
		require.Len(t, sums, len(calls))
	})
}

func sumsOfFiles() map[string][2]string {
	return map[string][2]string{
		"acquire.lua":      {gen.AcquireSHA1, gen.AcquireSHA256},
		"acquire_all.lua":  {gen.AcquireAllSHA1, gen.AcquireAllSHA256},
		"acquire_many.lua": {gen.AcquireManySHA1, gen.AcquireManySHA256},
		"attach.lua":       {gen.AttachSHA1, gen.AttachSHA256},
		"check.lua":        {gen.CheckSHA1, gen.CheckSHA256},
		"extend.lua":       {gen.ExtendSHA1, gen.ExtendSHA256},
		"hand_over.lua":    {gen.HandOverSHA1, gen.HandOverSHA256},
		"inspect.lua":      {gen.InspectSHA1, gen.InspectSHA256},
		"raise_fence.lua":  {gen.RaiseFenceSHA1, gen.RaiseFenceSHA256},
		"release.lua":      {gen.ReleaseSHA1, gen.ReleaseSHA256},
		"release_many.lua": {gen.ReleaseManySHA1, gen.ReleaseManySHA256},
		"requeue.lua":      {gen.RequeueSHA1, gen.RequeueSHA256},
		"wait.lua":         {gen.WaitSHA1, gen.WaitSHA256},
	}
}

// The constants are the files' sums, and what a server answers.
func TestSums(t *testing.T) {
	t.Parallel()
	sums := sumsOfFiles()
	paths, err := filepath.Glob(filepath.Join(root, "scripts", "*.lua"))
	require.NoError(t, err)
	require.Len(t, paths, len(sums))
	env.Each(t, func(t *testing.T, e env.Engine) {
		client := e.Start(t).Client(t)
		for _, path := range paths {
			text := textThatRuns(t, path, map[string]bool{})
			want := sums[filepath.Base(path)]
			sum1, sum256 := sha1.Sum([]byte(text)), sha256.Sum256([]byte(text))
			require.Equal(t, hex.EncodeToString(sum1[:]), want[0], path)
			require.Equal(t, hex.EncodeToString(sum256[:]), want[1], path)
			loaded, err := env.Do(t, client, "SCRIPT", "LOAD", text).ToString()
			require.NoError(t, err)
			require.Equal(t, want[0], loaded, path)
		}
		require.NoError(t, gen.New().Load(t.Context(), client))
	})
}

// textThatRuns returns a script with the fragments that it includes, each at its first place.
func textThatRuns(t *testing.T, path string, seen map[string]bool) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		b.WriteString(line)
		if name, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "-- include: "); is {
			if fragment := filepath.Join(filepath.Dir(path), name); !seen[fragment] {
				seen[fragment] = true
				b.WriteString(textThatRuns(t, fragment, seen))
			}
		}
	}
	return b.String()
}

const counterScript = `-- Counts a visit and forgets old ones.
--
-- name: Visit
-- mode: write
-- KEYS[1] visits key       counter
-- ARGV[1] by     int       how many
-- ARGV[2] keep   duration  forgotten after this time without a visit
-- returns: total int, remaining duration
local total = redis.call('INCRBY', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {total, redis.call('PTTL', KEYS[1])}
`

const counterProgram = `package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/rueidis"

	"example.test/visits/bindings"
)

func main() {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{os.Args[1]}})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	scripts := bindings.New()
	for _, by := range []int64{1, 41} {
		r, err := scripts.Visit(context.Background(), client, bindings.VisitParams{Visits: "visits", By: by, Keep: time.Hour})
		if err != nil {
			panic(err)
		}
		fmt.Println(r.Total, r.Remaining.Round(time.Minute))
	}
	_, err = scripts.Visit(context.Background(), client, bindings.VisitParams{Visits: "visits", By: 1})
	fmt.Println(err)
}
`

// A stranger's script in a stranger's module: generated, compiled and run against
// a real server.
func TestForeignModule(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
	write("lua/visit.lua", counterScript)
	write("main.go", counterProgram)
	stranger(t, dir, "example.test/visits", false)

	_, stderr, err := run(t, root, nil, "run", "./generator/redislua", "-scripts", filepath.Join(dir, "lua"),
		"-out", filepath.Join(dir, "bindings"))
	require.NoError(t, err, stderr)
	offline := []string{"GOFLAGS=-mod=mod", "GOWORK=off"}
	_, stderr, err = run(t, dir, offline, "vet", "./...")
	require.NoError(t, err, stderr)

	env.Each(t, func(t *testing.T, e env.Engine) {
		stdout, stderr, err := run(t, dir, offline, "run", ".", e.Start(t).Addr())
		require.NoError(t, err, stderr)
		require.Equal(t, []string{
			"1 1h0m0s",
			"42 1h0m0s",
			"bindings: Visit: keep: 0s is below 1ms",
		}, strings.Split(strings.TrimSpace(stdout), "\n"))
	})
}
