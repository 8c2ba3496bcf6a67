package try

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// parse returns the script of a text.
func parse(t *testing.T, text string) *script.Script {
	t.Helper()
	s, findings := script.Parse("test.lua", []byte(text))
	require.Empty(t, findings)
	return s
}

// embedded runs a script on the embedded server.
func embedded(t *testing.T, o Options, text string) Result {
	t.Helper()
	o.Server = "embedded"
	result, err := Run(t.Context(), o, []Subject{{Script: parse(t, text)}})
	require.NoError(t, err)
	return result
}

const list = "-- mode: write retryable\n-- KEYS[1] jobs key\n-- ARGV[1] job string\n-- returns: none\n" +
	"redis.call('RPUSH', KEYS[1], ARGV[1])\n"

// The embedded server is enough for what does not depend on rights, or on the texts of errors.
func TestEmbedded(t *testing.T) {
	t.Parallel()
	result := embedded(t, Options{Package: "bindings"}, list)
	require.Len(t, result.Findings, 1)
	require.Equal(t, `test.lua:2:4: the second of two equal calls changes jobs again `+
		`(a list of 1, then a list of 2), and the header says write retryable; `+
		`write mode: write (input: no key exists, job = "a")`,
		result.Findings[0].String())
	require.Contains(t, string(result.Tests), "package bindings\n")
	require.Contains(t, string(result.Tests), `p := TestParams{Jobs: "{redislua-try}:jobs", Job: "a"}`)
	require.Equal(t, []string{"the embedded server has no users, so the rights are not tried"}, result.Notes[:1])
}

// A script that takes too long is left after its time, and a note says so.
func TestLimit(t *testing.T) {
	t.Parallel()
	result := embedded(t, Options{Limit: time.Nanosecond}, list)
	require.Empty(t, result.Findings)
	require.Contains(t, result.Notes,
		"test.lua: 0 inputs were tried in 1ns, which is as long as a script may take")
}

// A server that cannot be had is an error that says what to name instead.
func TestNoServer(t *testing.T) {
	t.Parallel()
	for where, want := range map[string]string{
		filepath.Join(t.TempDir(), "none"): "name an address such as localhost:6379, embedded, or a program",
		"localhost:1":                      "connection refused",
		"false":                            "false has ended at once; start it by hand to see why",
		"other://localhost":                "other",
		os.Args[0] + "-not":                "no such file or directory",
	} {
		_, err := Run(t.Context(), Options{Server: where}, nil)
		require.ErrorContains(t, err, want)
	}
}

// What a reply must be is what the header declares, as the bindings decode it.
func TestJudge(t *testing.T) {
	t.Parallel()
	s, err := open(t.Context(), "embedded")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.close()) })
	for _, test := range []struct{ returns, reply, wrong string }{
		{"none", "nil", ""},
		{"none", "1", "is not nil but the integer 1"},
		{"ok", "redis.status_reply('OK')", ""},
		{"ok", "'KO'", `is not OK but the string "KO"`},
		{"string", "'a'", ""},
		{"string", "1", "is not a string but the integer 1"},
		{"bytes", "false", "is not a string but nil"},
		{"int", "'-7'", ""},
		{"int", "'7.5'", `is not an integer but the string "7.5"`},
		{"time", "''", `is not an integer but the string ""`},
		{"time?", "''", ""},
		{"int?", "''", `is not an integer but the string ""`},
		{"int?", "false", ""},
		{"bool", "2", "is not 0, 1, nil or OK but the integer 2"},
		{"bool", "redis.status_reply('OK')", ""},
		{"bool", "false", ""},
		{"float", "'-nan'", ""},
		{"float", "1", "is not a string, so that it has lost its fraction, but the integer 1"},
		{"json", "'{}'", ""},
		{"json", "'{'", `is not JSON but the string "{"`},
		{"raw", "{1, {2}}", ""},
		{"[]int", "{1, '2'}", ""},
		{"[]int", "{1, 'a'}", `at position 2 is not an integer but the string "a"`},
		{"[]int", "1", "is not a list but the integer 1"},
		{"[](m string, s int)", "{'a', 1, 'b', 2}", ""},
		{"[](m string, s int)", "{{'a', 1}, {'b', 2}}", ""},
		{"[](m string, s int)", "{'a', 1, 'b'}", "has 3 values, which is no multiple of the 2 of each element"},
		{"map[string]int", "{'a', 1}", ""},
		{"map[string]int", "{'a', 1, 'a', 2}", `it has the key "a" twice`},
		{"map[string]int", "{'a'}", "whose last key has no value"},
		{"a int, b int", "{1, 2}", ""},
		{"a int, b int", "{1}", "has 1 values where 2 are declared"},
		{"a int, b int", "{1, 'x'}", "field b is not an integer"},
		{"(a int, b int)?", "false", ""},
	} {
		script := parse(t, "-- mode: read\n-- returns: "+test.returns+"\nreturn "+test.reply+"\n")
		command := s.admin.B().Eval().Script(script.Source).Numkeys(0).Build()
		reply, err := s.admin.Do(t.Context(), command).ToMessage()
		if !rueidis.IsRedisNil(err) {
			require.NoError(t, err, test.reply)
		}
		if err := judge(script.Returns, reply); test.wrong == "" {
			require.NoError(t, err, "%s: %s", test.returns, test.reply)
		} else {
			require.ErrorContains(t, err, test.wrong, "%s: %s", test.returns, test.reply)
		}
	}
}

// An error tells where it was raised, in the forms of all servers.
func TestRaise(t *testing.T) {
	t.Parallel()
	sum := "script: a459e38bc9e3ded96e746ef8e2d29c090925af00, on @user_script:3."
	for text, want := range map[string]raise{
		"value is not an integer " + sum:           {text: "value is not an integer", line: 3},
		"user_script:2: attempt to index " + sum:   {text: "attempt to index", line: 2, lua: true},
		"<string>:7: attempt to index":             {text: "attempt to index", line: 7, lua: true},
		"FOO bar":                                  {text: "FOO bar"},
		"FOO " + sum:                               {text: "FOO", line: 3},
		"@user_script:1: @user_script: 1: unknown": {text: "@user_script: 1: unknown", line: 1, lua: true},
	} {
		require.Equal(t, want, raiseOf(errorText(text)), text)
	}
}

type errorText string

func (e errorText) Error() string { return string(e) }

// One seed has the same inputs each time, and another has others. A server of others gets no large values.
func TestChoices(t *testing.T) {
	t.Parallel()
	s := parse(t, "-- mode: write\n-- KEYS[1] a key\n-- KEYS[2..] b key\n"+
		"-- ARGV[1] n int\n-- ARGV[2] t duration?\n-- ARGV[3] x string\n-- returns: none\n")
	p := spaceOf(s, hints{kinds: map[int][]string{1: {"list"}}}, true)
	one, two := p.choices(1, 100), p.choices(1, 100)
	require.Equal(t, one, two)
	require.Greater(t, len(one), 100)
	require.NotEqual(t, one, p.choices(2, 100))
	for _, c := range one {
		in := p.input(c)
		require.Len(t, in.args, 3)
		require.Equal(t, prefix+"a", in.names()[0])
	}
	tame := spaceOf(s, hints{}, false)
	for _, c := range tame.choices(1, 200) {
		require.False(t, tame.input(c).large())
	}
}

// The user gets the rights of the audit for the keys and channels of the run, and all of them where waivers
// leave open what the script needs.
func TestRuleFor(t *testing.T) {
	t.Parallel()
	header := "-- mode: write\n-- KEYS[1] a key\n-- KEYS[2..] b key\n-- ARGV[1] news channel\n-- returns: none\n"
	rights := []string{"~<a>", "~<b>", "&<news>", "&<news>*", `&fixed\*`, "+eval", "+set"}
	require.Equal(t, []string{
		"~" + prefix + "a", "~" + prefix + "b:*", "&" + prefix + "news", "&" + prefix + "news*", `&fixed\*`,
		"+eval", "+set",
	}, ruleFor(Subject{Script: parse(t, header), Rights: rights}))
	waived := parse(t, header+"-- allow: undeclared-key it has many\n")
	require.Contains(t, ruleFor(Subject{Script: waived, Rights: rights}), "allkeys")
}
