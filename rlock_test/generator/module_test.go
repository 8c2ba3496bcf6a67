package generator

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// stock is a stranger's module: a guarded script, one with an included fragment,
// one whose answers may be cached, and a program that calls them.
var stock = map[string]string{
	"lua/take.lua": `-- Takes some of the stock, for whoever holds its lock.
--
-- mode: write
-- guard: KEYS[1] held by ARGV[1]
-- KEYS[1] lock  key
-- KEYS[2] stock key
-- ARGV[1] token string
-- ARGV[2] n     int
-- returns: left int
-- errors: NOT_HELD, NO_STOCK
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return redis.error_reply('NOT_HELD somebody else may be at it')
end
local left = tonumber(redis.call('GET', KEYS[2]) or 0)
if left < tonumber(ARGV[2]) then
  return redis.error_reply('NO_STOCK ' .. left .. ' left')
end
return {redis.call('DECRBY', KEYS[2], ARGV[2])}
`,
	"lua/total.lua": `-- mode: read
-- KEYS[1..] stocks key
-- returns: total int, known []string?

-- include: parts/count.lua
local total, known = 0, {}
for i, stock in ipairs(KEYS) do
  known[i] = redis.call('GET', stock)
  total = total + count(stock)
end
return {total, known}
`,
	"lua/parts/count.lua": `-- count tells how many there are.
local function count(stock)
  return tonumber(redis.call('GET', stock) or 0)
end
`,
	"lua/look.lua": `-- Tells what is left.
--
-- mode: read cached
-- KEYS[1] stock key
-- returns: int?
local left = redis.call('GET', KEYS[1])
return left and tonumber(left)
`,
	"main.go": `package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/rueidis"

	"example.test/stock/bindings"
)

type lock struct{ key, token string }

func (l lock) Key() string   { return l.key }
func (l lock) Token() string { return l.token }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	ctx, scripts := context.Background(), bindings.New()
	client := must(rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{os.Args[1]}}))
	defer client.Close()
	set := func(key, value string) {
		must(client.Do(ctx, client.B().Set().Key(key).Value(value).Build()).ToString())
	}
	set("{s}lock", "mine")
	set("{s}nuts", "10")
	mine, theirs := lock{"{s}lock", "mine"}, lock{"{s}lock", "theirs"}

	left := must(scripts.Take(ctx, client, bindings.TakeParams{Lock: mine, Stock: "{s}nuts", N: 3}))
	fmt.Println("left", left)
	_, err := scripts.Take(ctx, client, bindings.TakeParams{Lock: mine, Stock: "{s}nuts", N: 8})
	fmt.Println("no stock", errors.Is(err, bindings.ErrNoStock), err)
	_, err = scripts.Take(ctx, client, bindings.TakeParams{Lock: theirs, Stock: "{s}nuts", N: 1})
	fmt.Println("not held", errors.Is(err, bindings.ErrNotHeld))
	_, err = scripts.Take(ctx, client, bindings.TakeParams{Stock: "{s}nuts", N: 1})
	fmt.Println(err)

	for i, reply := range scripts.TakeBatch(ctx, client, []bindings.TakeParams{
		{Lock: mine, Stock: "{s}nuts", N: 1}, {Lock: theirs, Stock: "{s}nuts", N: 1}, {Stock: "{s}nuts"}, {Lock: mine, Stock: "{s}nuts", N: 2},
	}) {
		fmt.Println("batch", i, reply.Value, errors.Is(reply.Err, bindings.ErrNotHeld), reply.Err != nil)
	}
	total := must(scripts.Total(ctx, client, bindings.TotalParams{Stocks: []string{"{s}nuts", "{s}none", "{s}nuts"}}))
	fmt.Println("total", total.Total, total.Known)

	ask := bindings.LookParams{Stock: "{s}nuts"}
	first, second := must(scripts.LookCached(ctx, client, ask, time.Minute)), must(scripts.LookCached(ctx, client, ask, time.Minute))
	fmt.Println("cached", first.Value, first.Hit, second.Value, second.Hit, time.Until(second.Until) > 0)
	set("{s}nuts", "99")
	for must(scripts.LookCached(ctx, client, ask, time.Minute)).Value.V != 99 { // until the server's word has come
		time.Sleep(time.Millisecond)
	}
	fmt.Println("none", must(scripts.Look(ctx, client, bindings.LookParams{Stock: "{s}none"})).Valid)
	fmt.Println(scripts.Load(ctx, client))
}
`,
}

var stockPrints = []string{
	"left {7}",
	"no stock true bindings: NO_STOCK: Take: NO_STOCK 7 left",
	"not held true",
	"bindings: Take: lock: the lock is nil; the script runs only while a lock is held",
	"batch 0 {6} false false",
	"batch 1 {0} true true",
	"batch 2 {0} false true",
	"batch 3 {4} false false",
	"total 8 [{4 true} { false} {4 true}]",
	"cached {4 true} false {4 true} true true",
	"none false",
	"<nil>",
}

// offline keeps Go from asking the network: all that these modules need is there,
// once the generator has been built.
var offline = []string{"GOFLAGS=-mod=mod", "GOWORK=off", "GOPROXY=off"}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
}

// lines splits what a program printed.
func lines(text string) []string { return strings.Split(strings.TrimSpace(text), "\n") }

// stranger makes of a directory a module that requires this one, or with standalone bindings rueidis
// alone, all in the versions of this module.
func stranger(t *testing.T, dir, name string, standalone bool) {
	t.Helper()
	copyFiles(t, root, dir, "go.sum")
	top, err := filepath.Abs(root)
	require.NoError(t, err)
	mod, err := os.ReadFile(filepath.Join(top, "go.mod"))
	require.NoError(t, err)
	required := regexp.MustCompile(`(?ms)^require \(.*?^\)\n`).FindAllString(string(mod), -1)
	require.NotEmpty(t, required)
	text := "module " + name + "\n\ngo 1.25.0\n\n" + strings.Join(required, "\n")
	if !standalone {
		text += "\nrequire github.com/rlock-go/toolkit v0.0.0\n\nreplace github.com/rlock-go/toolkit => " +
			strconv.Quote(top) + "\n"
	}
	writeFiles(t, dir, map[string]string{"go.mod": text})
}

// Guards, fragments, batches, cached calls and error codes, in a module whose bindings import redislua
// or, if they are standalone, rueidis and nothing of this module.
func TestStrangersModule(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags []string
		ours  []string // what it imports of this module
	}{
		"importing":  {nil, []string{"redislua", "redislua/luaimpl"}},
		"standalone": {[]string{"-standalone"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFiles(t, dir, stock)
			stranger(t, dir, "example.test/stock", c.ours == nil)
			_, stderr, err := run(t, root, nil,
				append([]string{"run", "./generator/redislua", "-scripts", filepath.Join(dir, "lua"),
					"-out", filepath.Join(dir, "bindings")}, c.flags...)...)
			require.NoError(t, err, stderr)
			_, stderr, err = run(t, dir, offline, "vet", "./...")
			require.NoError(t, err, stderr)
			packages, stderr, err := run(t, dir, offline, "list", "-deps", "./...")
			require.NoError(t, err, stderr)
			var ours []string
			for path := range strings.Lines(packages) {
				if own, is := strings.CutPrefix(strings.TrimSpace(path), "github.com/rlock-go/toolkit/"); is {
					ours = append(ours, own)
				}
			}
			require.ElementsMatch(t, c.ours, ours)

			env.Each(t, func(t *testing.T, e env.Engine) {
				stdout, stderr, err := run(t, dir, offline, "run", ".", e.Start(t).Addr())
				require.NoError(t, err, stderr)
				require.Equal(t, stockPrints, lines(stdout))
			})
		})
	}
}

// A module that names the generator as its tool has its bindings written by go
// generate, at the version that its go.mod says.
func TestGoTool(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFiles(t, dir, stock)
	stranger(t, dir, "example.test/stock", false)
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	writeFiles(t, dir, map[string]string{
		"go.mod":      string(mod) + "\ntool github.com/rlock-go/toolkit/generator/redislua\n",
		"generate.go": "package main\n\n//go:generate go tool redislua -scripts lua -out bindings -v\n",
	})
	// has Go fetch what it needs
	_, stderr, err := run(t, root, nil, "build", "-o", filepath.Join(dir, "unused.exe"), "./generator/redislua")
	require.NoError(t, err, stderr)
	stdout, stderr, err := run(t, dir, offline, "generate", "./...")
	require.NoError(t, err, stderr)
	require.Contains(t, stdout, "bindings/take.lua.go: new\n")
	require.Contains(t, stdout, "3 scripts, 8 files changed\n")
	_, stderr, err = run(t, dir, offline, "vet", "./...")
	require.NoError(t, err, stderr)

	stdout, stderr, err = run(t, dir, offline, "generate", "./...")
	require.NoError(t, err, stderr)
	require.Equal(t, "3 scripts, 0 files changed\n", stdout)
	_, stderr, err = run(t, dir, offline, "tool", "redislua", "-scripts", "lua", "-out", "bindings", "-check")
	require.NoError(t, err, stderr)
}

// Whatever a script's file and its Go types are called, its bindings compile on
// every system, or there is a finding.
func TestNamesInGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stranger(t, dir, "example.test/names", false)
	plain := "-- name: Plain\n-- mode: read\n-- returns: int\nreturn 1\n"
	cases := map[string]string{} // the text of a script by the path of its file
	for _, file := range []string{"on_windows", "on_plan9", "on_arm", "a_test", "_hidden"} {
		cases["file_"+strings.Trim(file, "_")+"/"+file+".lua"] = plain
	}
	for _, name := range []string{"reply", "value", "list", "batch", "s", "p", "c", "ctx", "args", "keys",
		"fields", "rueidis", "time", "errors"} {
		writeFiles(t, dir,
			map[string]string{"types/" + name + "/t.go": "package " + name + "\n\ntype T struct{ X int }\n"})
		named := "json(example.test/names/types/" + name + ".T)"
		cases["type_"+name+"/plain.lua"] = "-- mode: read cached\n-- KEYS[1] k key\n-- ARGV[1] x " + named +
			"\n-- returns: a " + named + "?, b []" + named + "?\nreturn {redis.call('GET', KEYS[1]), {ARGV[1]}}\n"
		cases["type_"+name+"/single.lua"] = "-- mode: read cached\n-- KEYS[1] k key\n-- returns: " + named +
			"?\nreturn redis.call('GET', KEYS[1])\n"
	}
	writeFiles(t, dir, cases)
	tested := map[string]bool{}
	for path := range cases {
		name := filepath.Dir(path)
		if tested[name] {
			continue
		}
		tested[name] = true
		t.Run(name, func(t *testing.T) {
			_, findings, err := run(t, root, nil, "run", "./generator/redislua", "-scripts", filepath.Join(dir, name),
				"-out", filepath.Join(dir, name, "bindings"))
			if err != nil {
				require.Contains(t, findings, filepath.ToSlash(filepath.Join(dir, path))+":1:1: ")
				return
			}
			_, stderr, err := run(t, dir, offline, "vet", "./"+name+"/bindings")
			require.NoError(t, err, stderr)
		})
	}
}

// The generated code that the golden files hold runs on real servers: each type goes
// there and comes back.
func TestGoldensRun(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile(filepath.Join(root, "generator", "redislua", "testdata", "golden.txtar"))
	require.NoError(t, err)
	dir := t.TempDir()
	stranger(t, dir, "example.test/golden", false)
	files := map[string]string{
		"main.go": `package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/redis/rueidis"

	"example.test/golden/kv"
)

func main() {
	ctx, scripts := context.Background(), kv.New()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{os.Args[1]}})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	at := time.UnixMilli(1234)
	r, err := scripts.EveryType(ctx, client, kv.EveryTypeParams{
		A: "{k}a", Others: []string{"{k}b"}, S: "text", B: []byte("bytes"), N: 7, OK: true, F: 2.5,
		TTL: time.Second, At: at, Doc: []int{1}, More: []int64{3},
	})
	fmt.Println(r.S, string(r.B), r.N, r.OK, r.F, r.TTL, r.At.UnixMilli(), string(r.Doc), r.Maybe.Valid, r.List, err)
	for _, hole := range r.Holes {
		fmt.Print(hole.V, ";", hole.Valid, " ")
	}
	fmt.Println()
	move := kv.MoveParams{From: "{k}a", To: "{k}b"}
	fmt.Println(errors.Is(scripts.Move(ctx, client, move), kv.ErrNoStock))
	client.Do(ctx, client.B().Mset().KeyValue().KeyValue("{k}a", "1").KeyValue("{k}b", "2").Build())
	fmt.Println(errors.Is(scripts.Move(ctx, client, move), kv.ErrFrozen))
	client.Do(ctx, client.B().Del().Key("{k}b").Build())
	fmt.Println(scripts.Move(ctx, client, move))
}
`,
	}
	for _, file := range archive.Files {
		if strings.HasPrefix(file.Name, "scripts/") {
			files[file.Name] = string(file.Data)
		}
	}
	writeFiles(t, dir, files)
	_, stderr, err := run(t, root, nil, "run", "./generator/redislua", "-scripts", filepath.Join(dir, "scripts"),
		"-out", filepath.Join(dir, "kv"))
	require.NoError(t, err, stderr)
	for golden, generated := range map[string]string{"want_every_type": "every_type.lua.go",
		"want_move": "move.lua.go", "want_scripts": "scripts.go"} {
		text, err := os.ReadFile(filepath.Join(dir, "kv", generated))
		require.NoError(t, err)
		for _, file := range archive.Files {
			if file.Name == golden {
				require.Equal(t, string(file.Data), string(text), "what runs here is the golden code")
			}
		}
	}
	env.Each(t, func(t *testing.T, e env.Engine) {
		stdout, stderr, err := run(t, dir, offline, "run", ".", e.Start(t).Addr())
		require.NoError(t, err, stderr)
		require.Equal(t, []string{
			"text bytes 7 true 2.5 6ms 8 [1] false [1 11] <nil>",
			"2;true ;false {k}a;true {k}b;true 1;true 1000;true ;true 1234;true ;true 3;true ",
			"true",
			"true",
			"<nil>",
		}, lines(stdout))
	})
}
