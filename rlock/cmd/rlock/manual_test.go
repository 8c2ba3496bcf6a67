package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
)

// call runs rlock in this process, with what getenv says of the environment.
func call(getenv func(string) string, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	p := &program{stdin: strings.NewReader(""), stdout: &out, stderr: &err, getenv: getenv}
	code = p.run(args)
	return code, out.String(), err.String()
}

// nowhere is an environment in which a command that connects fails.
func nowhere(string) string { return "" }

// defined returns the long and short flags of a command.
func defined(name string) []string {
	p := &program{}
	a := p.arguments(name)
	switch name {
	case "run":
		new(running).define(a, p)
	case "acquire":
		new(acquisition).define(a)
	case "wait":
		new(waiting).define(a)
	case "extend":
		a.defineTTL(new(time.Duration))
	case "ls":
		a.flags.String("owner", "", "")
	case "probe":
		a.definePrefix(new(string))
	case "force-release":
		a.flags.String("token", "", "")
		a.flags.String("owner", "", "")
		a.flags.Bool("yes", false, "")
	}
	var names []string
	a.flags.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	return names
}

// The manual of each command has every flag of it, and no other.
func TestManualHasTheFlags(t *testing.T) {
	t.Parallel()
	sections, titles := manual()
	for name := range commands {
		title := "rlock " + name
		require.Contains(t, titles, title)
		text := sections[title]
		if name == "acquire" || name == "wait" { // whose flags are said to be those of run
			text += sections["rlock run"]
		}
		known := defined(name)
		for _, flag := range known {
			require.Regexp(t, `(^|[^-\w])--?`+flag+`\b`, text, "%s: the manual says nothing of -%s", name, flag)
		}
		for _, m := range regexp.MustCompile(`(?m)(?:^|[\s\[(])--?([a-zA-Z][a-z-]*)`).FindAllStringSubmatch(
			sections[title], -1) {
			// of other programs in the examples
			if program := m[1]; program == "s" || program == "f" || program == "c" {
				continue
			}
			require.Contains(t, append(known, "help"), m[1], "%s: there is no flag -%s", name, m[1])
		}
	}
	for _, title := range titles {
		if name, is := strings.CutPrefix(title, "rlock "); is {
			require.Contains(t, slices.Collect(maps.Keys(commands)), name)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--help"}, {"-help"}, {"help"}} {
		code, stdout, stderr := call(nowhere, args...)
		require.Zero(t, code)
		require.Empty(t, stderr)
		require.Contains(t, stdout, "EXIT CODES\n\n      0  success")
		require.Contains(t, stdout, "rlock force-release KEY --token TOKEN")
		require.NotRegexp(t, `(?m)^//`, stdout)
		require.NotContains(t, stdout, "package main")
	}
	for name := range commands {
		code, stdout, stderr := call(nowhere, name, "--help")
		require.Zero(t, code, name)
		require.Empty(t, stderr)
		require.True(t, strings.HasPrefix(stdout, "    rlock "+name), "%s:\n%s", name, stdout)
		_, again, _ := call(nowhere, "help", name)
		require.Equal(t, stdout, again)
	}
	for _, args := range [][]string{nil, {"sing"}, {"help", "sing"}} {
		code, stdout, stderr := call(nowhere, args...)
		require.Equal(t, exitFailed, code)
		require.Empty(t, stdout)
		require.Contains(t, stderr, "see rlock -h")
	}
}

// Usage is short, and fits into the narrowest of terminals with all flags and two examples.
func TestUsage(t *testing.T) {
	t.Parallel()
	for name := range commands {
		_, usage, _ := call(nowhere, name, "-h")
		lines := strings.Split(usage, "\n")
		require.True(t, strings.HasPrefix(usage, "  rlock "+name+" "), usage)
		require.Contains(t, usage, "\nThe manual: rlock help "+name+"\n")
		for _, flag := range defined(name) {
			require.Regexp(t, `(?m)^  (-\w, )?--?`+flag+`\b.*\w`, usage, "%s says nothing of -%s", name, flag)
		}
		examples := 0
		for _, line := range lines[slices.Index(lines, ""):] {
			if strings.HasPrefix(line, "  ") && strings.Contains(line, "rlock "+name) {
				examples++
			}
		}
		require.Equal(t, 2, examples, usage)
	}
	all := [][]string{{"-h"}, {"run", "-n", "a", "-h", "--", "ls"}}
	for name := range commands {
		all = append(all, []string{name, "-h"})
	}
	for _, args := range all {
		code, usage, stderr := call(nowhere, args...)
		require.Zero(t, code)
		require.Empty(t, stderr)
		require.Less(t, strings.Count(usage, "\n"), 30, usage)
		for line := range strings.Lines(usage) {
			require.LessOrEqual(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), 80, line)
		}
	}
	_, usage, _ := call(nowhere, "-h")
	for name := range commands {
		require.Contains(t, "\n"+usage, "\n  rlock "+name)
	}
	require.Contains(t, usage, "  rlock run -n backup -- pg_dump")
	// A command that is run under a lock has a -h of its own.
	code, _, stderr := call(nowhere, "run", "a", "--", "ls", "-h")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "RLOCK_URL")
}

// What cannot work is refused before anything is sent: there is no server here.
func TestRefusedArguments(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"run":                                       "there is no KEY",
		"run key":                                   "there is no CMD",
		"run key true":                              "there is no CMD",
		"run key --":                                "there is no CMD",
		"run -- true":                               "there is no KEY",
		"run --no-such key -- true":                 "flag provided but not defined: -no-such; see rlock run -h",
		"run --ttl":                                 "flag needs an argument: -ttl",
		"run --ttl x k -- true":                     "want a time such as 30s",
		"run --ttl -1s k -- true":                   "0 or more",
		"run --ttl 0 k -- true":                     "no lease",
		"run --ttl 1us k -- true":                   "whole number of milliseconds",
		"run --ttl 15s k -- true":                   "use --ttl 15.3s or more",
		"run --kill-after 1200000h k -- true":       "no --ttl is three times as long",
		"run --kill-after 2562047h k -- true":       "no --ttl is three times as long",
		"run a rlock:fence:{1} -- true":             "choose another",
		"run rlock:queue:{1}:a -- true":             "choose another",
		"run a b a -- true":                         "a stands twice",
		"acquire rlock:holders:{1}:a":               "choose another",
		"wait rlock:fence:{1}":                      "choose another",
		"who a rlock:fence:{1}":                     "choose another",
		"release rlock:fence:{1} token":             "choose another",
		"release key rlock:fence:{1}":               "neither RLOCK_URL nor REDIS_URL",
		"ls rlock:fence:{*":                         "neither RLOCK_URL nor REDIS_URL",
		"run -w 1s -n k -- true":                    "contradict",
		"run -E 256 k -- true":                      "from 0 to 255",
		"run --shared a b -- true":                  "--shared is for one KEY",
		"run --limit 2 a b -- true":                 "--limit is for one KEY",
		"run --shared --limit 2 k -- true":          "contradict",
		"run --limit 0 k -- true":                   "whole number of 1 or more",
		"run --limit x k -- true":                   "whole number of 1 or more",
		"run --permits 2 k -- true":                 "with --limit",
		"run --shared --permits 2 k -- true":        "with --limit",
		"run --limit 2 --permits 3 k -- true":       "there will never be so many",
		"run --limit 2000 --permits 1001 k -- true": "more than the 1000",
		"run --min-hold 31s k -- true":              "use --ttl 31s or more",
		"run --min-hold 1s --shared k -- true":      "--shared lets others in",
		"run --min-hold 1s --limit 2 k -- true":     "--limit lets others in",
		"acquire --shared --limit 2 k":              "contradict",
		"acquire --min-hold 1s k":                   "flag provided but not defined: -min-hold",
		"run --signal NO k -- true":                 "name of a signal",
		"run --signal 99 k -- true":                 "name of a signal",
		"run --owner \x01 k -- true":                "printable",
		"acquire":                                   "want one KEY, got 0 operands",
		"acquire a b":                               "want one KEY, got 2 operands",
		"release a":                                 "want KEY and TOKEN",
		"extend a":                                  "want KEY and TOKEN",
		"extend a token --ttl 0":                    "no lease",
		"extend rlock:fence:{1} token":              "choose another",
		"force-release":                             "want one KEY and --token TOKEN",
		"who":                                       "at least one KEY",
		"wait a b":                                  "want one KEY",
		"wait -w 1 -n a":                            "contradict",
		"ls":                                        "PATTERN, quoted",
		"probe x":                                   "nothing but flags",
	} {
		code, stdout, stderr := call(nowhere, strings.Split(line, " ")...)
		require.Equal(t, exitFailed, code, "%q: %s", line, stderr)
		require.Contains(t, stderr, want, "%q", line)
		require.Empty(t, stdout)
	}
	for _, args := range [][]string{{"run", "", "--", "true"}, {"who", "a", ""},
		{"run", "--key", "", "--", "true"}} {
		_, _, stderr := call(nowhere, args...)
		require.Contains(t, stderr, "a key is empty", "%q", args)
	}
	code, _, _ := call(nowhere, "run", "key", "--", "/no/such/program")
	require.Equal(t, exitNotFound, code)
	code, _, _ = call(nowhere, "run", "key", "--", "/")
	require.Equal(t, exitUnrunnable, code)
	code, _, stderr := call(nowhere, "run", "--json", "key", "--", "go", "version")
	require.Equal(t, exitFailed, code)
	require.Regexp(t,
		`^\{"code":125,"event":"error","message":"neither RLOCK_URL nor REDIS_URL is set; .*"\}\n$`, stderr)
}

func TestFlagsAnywhere(t *testing.T) {
	t.Parallel()
	p := &program{}
	r, err := p.running([]string{"-n", "a", "--ttl", "1m", "b c", "-E=3", "--key=-d", "-v", "--", "git",
		"checkout", "--", "-n"})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b c", "-d"}, r.keys)
	require.Equal(t, []string{"git", "checkout", "--", "-n"}, r.command)
	require.True(t, r.none && p.verbose && !p.json)
	require.Equal(t, 3, r.conflict)
	require.Equal(t, "1m0s", r.ttl.String())

	keys, err := p.arguments("who").keys([]string{"a", "--json", "--", "-b", "--"}, 1, 9, "")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "-b", "--"}, keys)
	require.True(t, p.json)
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"30s": "30s", "30": "30s", "0.5": "500ms", "1m30s": "1m30s",
		"0": "0s"} {
		d, err := readDuration(text)
		require.NoError(t, err)
		require.Equal(t, want, d.String())
	}
	for _, text := range []string{"", "x", "-1", "-0", "-1s", "1e300", "NaN", "Inf", "0.0001", "1ns",
		"99999999999999h"} {
		_, err := readDuration(text)
		require.Error(t, err, text)
	}
}

// A fraction of a second that no binary number is equal to is a whole number of milliseconds all the same.
func TestEveryMillisecond(t *testing.T) {
	t.Parallel()
	for ms := 1; ms <= 100_000; ms++ {
		d, err := readDuration(fmt.Sprintf("%g", float64(ms)/1000))
		require.NoError(t, err)
		require.Equal(t, time.Duration(ms)*time.Millisecond, d)
	}
	for text, want := range map[string]time.Duration{
		"8589934592.001": 8589934592001 * time.Millisecond, "1e3": 1000 * time.Second,
		"4.1e0": 4100 * time.Millisecond, "9223372036.5": 9223372036500 * time.Millisecond,
	} {
		d, err := readDuration(text)
		require.NoError(t, err)
		require.Equal(t, want, d, text)
	}
}

// However long --wait is, its end is not in the past.
func TestLongPatience(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1", "9223372026", "9223372036"} {
		d, err := readDuration(text)
		require.NoError(t, err)
		w := &waiting{patience: d, end: time.Now().Add(d)}
		ctx, cancel := w.bound(t.Context())
		defer cancel()
		require.NoError(t, ctx.Err(), text)
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{"job:1": "job:1", "": `""`, "a b": `"a b"`, "a\nb": `"a\nb"`,
		`a"b`: `"a\"b"`, "\xff": `"\xff"`, "schlüssel": "schlüssel"} {
		require.Equal(t, want, quote(key))
	}
	for text, want := range map[string]string{"job:1": "job:1", "": "''", "a b": "'a b'", "it's": `'it'\''s'`,
		"$HOME": "'$HOME'", "a\nb": "'a\nb'"} {
		require.Equal(t, want, shellQuote(text))
	}
	require.Equal(t, `{"key":"�a","key_base64":"/2E="}`+"\n", line(fields{}.withKey("\xffa")))
	require.Equal(t, `a, b, c, 997 more`, quoteAll(append([]string{"a", "b", "c"}, make([]string, 997)...)))
}

func TestLeft(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		rlock.NoExpiry: "never expires", 0: "0s left", 999999 * time.Microsecond: "999ms left",
		9999 * time.Millisecond:  "9.9s left",
		28516 * time.Millisecond: "28s left", 10*time.Minute - 1: "9m59s left",
	} {
		require.Equal(t, want, left(d))
	}
}
