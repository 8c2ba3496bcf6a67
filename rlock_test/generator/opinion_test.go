package generator

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// opinion is something that both the generator and Redis have an opinion on: bad
// is wrong, and good, its twin, is not.
type opinion struct {
	name      string // also of the file
	head      string // what both scripts start with, or have in place of HEAD
	bad, good string
	finding   string // part of what the generator says of bad
	verdict   verdict
}

// live stands for a finding that the generator has when it asks a server: limits
// of Lua's compiler that it does not count itself.
const live = "live"

// verdict checks what a server does with a bad script, and with a good one where
// more than running it without an error is meant.
type verdict func(t *testing.T, s *court, bad, good string)

// court is where servers give their verdicts.
type court struct {
	engine env.Engine
	server *env.Server
	client rueidis.Client
}

const (
	writes = "-- mode: write\n-- KEYS[1] k key\n-- returns: none\n"
	reads  = "-- mode: read\n-- KEYS[1] k key\n-- returns: none\n"
	cached = "-- mode: read cached\n-- KEYS[1] k key\n-- returns: string?\n"
	alone  = "-- mode: read\n-- returns: none\n"
	pair   = "-- mode: read\n-- returns: a int?, b int?\n"
)

// answerOf is the head of a script that reads nothing.
func answerOf(kind string) string { return "-- mode: read\n-- returns: " + kind + "\n" }

func locals(n int, separator string) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("a%d", i)
	}
	return strings.Join(names, separator)
}

var opinions = []opinion{
	// Lua 5.1 refuses these.
	{"goto_statement", alone, "goto done\n::done::\n", "do end\n", "not Lua 5.1", refuses("compiling")},
	{"label", alone, "::done::\n", "do end\n", "not Lua 5.1", refuses("compiling")},
	{"stray_break", alone, "break\n", "while true do break end\n", "outside a loop",
		refuses("no loop to break")},
	{"syntax_error", alone, "return (\n", "return\n", "not Lua", refuses("compiling")},
	{"ambiguous_call", alone, "local f = tostring\nf(1)\n(f)(2)\n", "local f = tostring\nf(1);\n(f)(2)\n",
		"parenthesis", refuses("ambiguous")},
	{"ambiguous_after_string", alone, "local f = tostring\nf'1'\n(f)(2)\n",
		"local f = tostring\nf'1';\n(f)(2)\n", "", refuses("ambiguous")},
	{"ambiguous_after_table", alone, "local f = type\nf{}\n(f)(2)\n", "local f = {}\n(type)(f)\n", "",
		refuses("ambiguous")},
	{"large_escape", alone, "local a = '\\300'\n", "local a = '\\200'\n", "above 255",
		refuses("escape sequence too large")},
	{"call_in_parentheses", alone, "(tostring(1))\n", "local a = (tostring(1))\n", "", refuses("compiling")},
	{"empty_statement", alone, ";\n", "do end;\n", "", refuses("compiling")},
	{"unfinished_number", alone, "local a = 1e\n", "local a = 1e1\n", "", refuses("malformed number")},
	{"stray_dots", alone, "local function f() return ... end\n", "local function f(...) return ... end\n", "",
		refuses("vararg")},
	{"many_locals", alone, "local " + locals(201, ", ") + "\n", "local " + locals(200, ", ") + "\n", live,
		refuses("200 local variables")},
	{"many_upvalues", alone, "local " + locals(61, ", ") + " = 1\nlocal function f() return {" +
		locals(61, ", ") + "} end\n",
		"local " + locals(60, ", ") + " = 1\nlocal function f() return {" + locals(60, ", ") + "} end\n", live,
		refuses("60 upvalues")},
	{"deep_nesting", alone, "local a = " + strings.Repeat("{", 201) + strings.Repeat("}", 201) + "\n",
		"local a = " + strings.Repeat("{", 150) + strings.Repeat("}", 150) + "\n", live, refuses("too many")},
	{"byte_order_mark", alone, "\xef\xbb\xbfHEAD", "HEAD", "byte order mark", refuses("compiling")},
	{"shebang_name", alone, "#!lua name=x\nHEAD", "#!lua flags=no-writes\nHEAD", "first line",
		refuses("shebang")},
	{"shebang_flag", alone, "#!lua flags=no-writes,fast\nHEAD", "#!lua flags=no-writes,allow-stale\nHEAD",
		"unknown flag", refuses("shebang")},
	{"shebang_engine", alone, "#!python\nHEAD", "#!lua flags=no-writes\nHEAD", "first line", refuses("engine")},

	// The sandbox and redis.call refuse these once they are reached.
	{"global_write", alone, "count = 1\n", "local count = 1\n", "count is assigned as a global",
		fails("readonly")},
	{"global_function", alone, "function f() end\n", "local function f() end\n", "f is assigned as a global",
		fails("readonly")},
	{"global_field", alone, "redis.extra = 1\n", "local redis = {}\nredis.extra = 1\n", "field of the global",
		fails("readonly")},
	{"unknown_global", alone, "local a = count\n", "local count\nlocal a = count\n", "count is not a global",
		fails("nonexistent global")},
	{"unknown_member_of_redis", alone, "redis.nosuch()\n", "redis.sha1hex('')\n", "", fails("nil value")},
	{"unknown_member_of_table", alone, "local a = table.unpack({1})\n", "local a = unpack({1})\n", "",
		fails("nil value")},
	{"unknown_command", reads, "redis.call('GTE', KEYS[1])\n", "redis.call('GET', KEYS[1])\n",
		"is not a command of", fails("nknown")},
	{"unknown_subcommand", reads, "redis.call('OBJECT', 'NOSUCH', KEYS[1])\n",
		"redis.call('OBJECT', 'ENCODING', KEYS[1])\n", "", fails("nknown")},
	{"wrong_arity", reads, "redis.call('GET', KEYS[1], 'x')\n", "redis.call('GET', KEYS[1])\n",
		"takes 1 argument, but 2 are given", fails("number of args")},
	{"nil_argument", writes, "redis.call('SET', KEYS[1], nil)\n", "redis.call('SET', KEYS[1], '')\n", "",
		fails("must be strings or integers")},
	{"bool_argument", writes, "redis.call('SET', KEYS[1], true)\n", "redis.call('SET', KEYS[1], 1)\n", "",
		fails("must be strings or integers")},
	{"key_zero", writes, "redis.call('SET', KEYS[0], KEYS[1])\n", "redis.call('SET', KEYS[1], KEYS[1])\n",
		"KEYS[0] does not exist", fails("must be strings or integers")},
	{"no_script", writes, "redis.call('SUBSCRIBE', KEYS[1])\n", "redis.call('PUBLISH', 'x', KEYS[1])\n",
		"cannot be called from a script", fails("not allowed from script")},
	{"set_in_read", reads, "redis.call('SET', KEYS[1], '')\n", "redis.call('STRLEN', KEYS[1])\n", "writes",
		fails("Write commands")},
	{"publish_in_read", reads, "redis.call('PUBLISH', 'x', KEYS[1])\n", "redis.call('ECHO', KEYS[1])\n",
		"counts as a write", fails("Write commands")},
	{"spublish_in_read", reads, "redis.call('SPUBLISH', KEYS[1], 'x')\n", "redis.call('EXISTS', KEYS[1])\n",
		"counts as a write", fails("Write commands")},
	{"pfcount_in_read", reads, "redis.call('PFCOUNT', KEYS[1])\n", "redis.call('TYPE', KEYS[1])\n",
		"counts as a write", fails("Write commands")},
	{"getex_in_read", reads, "redis.call('GETEX', KEYS[1])\n", "redis.call('GET', KEYS[1])\n", "writes",
		fails("Write commands")},
	{"shebang_reads", writes, "#!lua flags=no-writes\nHEADredis.call('DEL', KEYS[1])\n",
		"#!lua\nHEADredis.call('DEL', KEYS[1])\n", "disagree", fails("Write commands")},
	{"shebang_writes", reads, "#!lua\nHEADredis.call('GET', KEYS[1])\n",
		"#!lua flags=no-writes\nHEADredis.call('GET', KEYS[1])\n", "disagree", fails("write flag")},

	// These run, and do not do what they seem to.
	{"hex_escape", answerOf("string"), "return '\\x41'\n", "return '\\065'\n", "not Lua 5.1",
		answers("x41", "A")},
	{"nil_in_table", pair, "return {nil, 2}\n", "return {false, 2}\n", "nil inside a returned table",
		answers("[]", "[<nil> 2]")},
	{"named_fields", pair, "return {a = 1, b = 2}\n", "return {1, 2}\n", "named fields", answers("[]", "[1 2]")},
	{"no_return", answerOf("int"), "local a = 1\n", "return 1\n", "without a return", answers("<nil>", "1")},
	{"empty", "", "", answerOf("int") + "return 1\n", "the file is empty", answers("<nil>", "1")},
	{"blank", "", " \n\n", answerOf("int") + "return 1\n", "the file is empty", answers("<nil>", "1")},
	{"float_number", answerOf("float"), "return 3.7\n", "return '3.7'\n", "", answers("3", "3.7")},
	{"undeclared_key_acl", writes, "redis.call('SET', 'bar', KEYS[1])\n", "redis.call('SET', KEYS[1], 'bar')\n",
		"does not come from KEYS", deniedByACL},
	{"undeclared_key_cluster", writes, "redis.call('SET', 'bar', KEYS[1])\n",
		"redis.call('SET', KEYS[1], 'bar')\n", "does not come from KEYS", deniedByCluster},
	{"frozen_clock", cached, "redis.call('GET', KEYS[1])\nreturn redis.call('TIME')[2]\n",
		"return redis.call('GET', KEYS[1])\n", "freeze", frozen},
	{"frozen_pttl", cached, "return tostring(redis.call('PTTL', KEYS[1]))\n",
		"return redis.call('GET', KEYS[1])\n", "freeze", frozen},
	{"frozen_other_key", cached, "return redis.call('GET', KEYS[1] .. ':')\n",
		"return redis.call('GET', KEYS[1])\n", "nothing tells the cache", stale},
}

func (o opinion) text(body string) string {
	if strings.Contains(body, "HEAD") {
		return strings.Replace(body, "HEAD", o.head, 1)
	}
	return o.head + body
}

// found picks the findings about a bad script.
func (o opinion) found(findings string) []string {
	var own []string
	for line := range strings.Lines(findings) {
		if strings.Contains(line, "/"+o.name+".lua:") && (o.finding == live || strings.Contains(line, o.finding)) {
			own = append(own, line)
		}
	}
	return own
}

func TestGeneratorAndServersAgree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, o := range opinions {
		for kind, body := range map[string]string{"bad": o.bad, "good": o.good} {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, kind), 0o777))
			require.NoError(t, os.WriteFile(filepath.Join(dir, kind, o.name+".lua"), []byte(o.text(body)), 0o666))
		}
	}
	out := filepath.Join(dir, "bindings")
	_, findings, err := run(t, root, nil, "run", "./generator/redislua", "-scripts", filepath.Join(dir, "bad"),
		"-out", out)
	require.Error(t, err)
	require.NoDirExists(t, out)
	for _, o := range opinions {
		t.Run("generator/"+o.name, func(t *testing.T) {
			if o.finding == live {
				require.Empty(t, o.found(findings))
				require.NoError(t, os.MkdirAll(filepath.Join(dir, live), 0o777))
				require.NoError(t, os.Rename(filepath.Join(dir, "bad", o.name+".lua"),
					filepath.Join(dir, live, o.name+".lua")))
				return
			}
			require.NotEmpty(t, o.found(findings), "the generator has no such finding about:\n%s", o.text(o.bad))
		})
	}
	_, findings, err = run(t, root, nil, "run", "./generator/redislua", "-scripts", filepath.Join(dir, "good"),
		"-out", out)
	require.NoError(t, err, findings)

	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		s := &court{engine: e, server: server, client: server.Client(t)}
		_, findings, err := run(t, root, nil, "run", "./generator/redislua", "-scripts", filepath.Join(dir, live),
			"-out", filepath.Join(dir, "none"), "-redis", server.Addr())
		require.Error(t, err)
		for _, o := range opinions {
			t.Run(o.name, func(t *testing.T) {
				server.Do(t, "FLUSHALL")
				require.NoError(t, env.Do(t, s.client, "SCRIPT", "LOAD", o.text(o.good)).Error())
				_, err := s.eval(t, s.client, o.text(o.good))
				require.NoError(t, err)
				o.verdict(t, s, o.text(o.bad), o.text(o.good))
				if o.finding == live {
					require.NotEmpty(t, o.found(findings), "the server has not been asked about:\n%s", o.text(o.bad))
				}
			})
		}
	})
}

// eval runs a script as its mode says, with the key foo, and returns its answer as
// Go prints it.
func (s *court) eval(t *testing.T, client rueidis.Client, text string) (string, error) {
	t.Helper()
	command := "EVAL"
	if strings.Contains(text, "mode: read") {
		command = "EVAL_RO"
	}
	answer, err := client.Do(t.Context(), client.B().Arbitrary(command, text, "1").Keys("foo").Build()).ToAny()
	if rueidis.IsRedisNil(err) {
		err = nil
	}
	return fmt.Sprint(answer), err
}

// cached runs a script through the client-side cache.
func (s *court) cached(t *testing.T, text string) string {
	t.Helper()
	answer, err := s.client.DoCache(t.Context(),
		s.client.B().EvalRo().Script(text).Numkeys(1).Key("foo").Cache(), time.Hour).ToAny()
	if !rueidis.IsRedisNil(err) {
		require.NoError(t, err)
	}
	return fmt.Sprint(answer)
}

func refuses(complaint string) verdict {
	return func(t *testing.T, s *court, bad, _ string) {
		require.ErrorContains(t, env.Do(t, s.client, "SCRIPT", "LOAD", bad).Error(), complaint)
	}
}

func fails(complaint string) verdict {
	return func(t *testing.T, s *court, bad, _ string) {
		require.NoError(t, env.Do(t, s.client, "SCRIPT", "LOAD", bad).Error())
		_, err := s.eval(t, s.client, bad)
		require.ErrorContains(t, err, complaint)
	}
}

func answers(wrong, right string) verdict {
	return func(t *testing.T, s *court, bad, good string) {
		for text, want := range map[string]string{bad: wrong, good: right} {
			got, err := s.eval(t, s.client, text)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
}

func deniedByACL(t *testing.T, s *court, bad, good string) {
	s.server.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~foo", "+@all")
	client := s.server.Client(t, func(o *rueidis.ClientOption) { o.Username, o.Password = "app", "secret" })
	_, err := s.eval(t, client, bad)
	require.ErrorContains(t, err, "access")
	_, err = s.eval(t, client, good)
	require.NoError(t, err)
}

func deniedByCluster(t *testing.T, s *court, bad, good string) {
	client := s.engine.StartCluster(t).Client(t)
	_, err := s.eval(t, client, bad)
	require.ErrorContains(t, err, "non local key")
	_, err = s.eval(t, client, good)
	require.NoError(t, err)
}

// frozen: the cache goes on with an answer that has changed on the server.
func frozen(t *testing.T, s *court, bad, _ string) {
	s.server.Do(t, "SET", "foo", "x", "PX", "3600000")
	first := s.cached(t, bad)
	env.Soon(t, func() bool {
		now, err := s.eval(t, s.client, bad)
		return err == nil && now != first
	}, "the answer changes")
	require.Equal(t, first, s.cached(t, bad))
}

// stale: a key that the cache does not know of changes, and the answer stays.
func stale(t *testing.T, s *court, bad, good string) {
	s.server.Do(t, "SET", "foo:", "before")
	require.Equal(t, "before", s.cached(t, bad))
	require.Equal(t, "<nil>", s.cached(t, good))
	s.server.Do(t, "SET", "foo:", "after")
	require.Never(t, func() bool { return s.cached(t, bad) != "before" }, 100*time.Millisecond,
		10*time.Millisecond)
	s.server.Do(t, "SET", "foo", "x")
	env.Soon(t, func() bool { return s.cached(t, good) == "x" }, "the declared key's answer follows")
}
