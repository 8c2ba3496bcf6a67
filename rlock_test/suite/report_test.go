package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// told is a report on a step in which the go command printed lines, and ended with err.
func told(t *testing.T, s step, err error, lines ...string) (r *report, printed *strings.Builder) {
	t.Helper()
	printed = &strings.Builder{}
	r = newReport(printed)
	r.begin(s)
	require.NoError(t, r.read(strings.NewReader(strings.Join(lines, "\n"))))
	r.end(err, 0)
	return r, printed
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

const (
	redis  = `{"Action":"attr","Package":"p","Test":"TestA/redis-7.0.15","Key":"engine","Value":"redis-7.0.15"}`
	valkey = `{"Action":"attr","Package":"p","Test":"TestA/valkey-8.1.1","Key":"engine","Value":"valkey-8.1.1"}`
)

// A test counts once, for the server that it or a test above it started, and a test
// with subtests counts as these.
func TestCounts(t *testing.T) {
	t.Parallel()
	r, printed := told(t, step{name: "s"}, nil,
		`{"Action":"start","Package":"p"}`,
		`{"Action":"run","Package":"p","Test":"TestA"}`,
		`{"Action":"run","Package":"p","Test":"TestA/redis-7.0.15"}`, redis,
		`{"Action":"run","Package":"p","Test":"TestA/redis-7.0.15/one"}`,
		`{"Action":"run","Package":"p","Test":"TestA/redis-7.0.15/two/three"}`,
		`{"Action":"run","Package":"p","Test":"TestA/valkey-8.1.1"}`, valkey,
		`{"Action":"pass","Package":"p","Test":"TestA/redis-7.0.15/one"}`,
		`{"Action":"pass","Package":"p","Test":"TestA/redis-7.0.15/two/three"}`,
		`{"Action":"pass","Package":"p","Test":"TestA/redis-7.0.15"}`,
		`{"Action":"pass","Package":"p","Test":"TestA/valkey-8.1.1"}`,
		`{"Action":"pass","Package":"p","Test":"TestA"}`,
		`{"Action":"run","Package":"p","Test":"TestB"}`,
		`{"Action":"pass","Package":"p","Test":"TestB"}`,
		`{"Action":"pass","Package":"p","Elapsed":1.5}`,
		`{"Action":"skip","Package":"empty"}`)
	require.True(t, r.summary(2))
	require.Equal(t, map[string]*counts{"redis-7.0.15": {passed: 2}, "valkey-8.1.1": {passed: 1},
		noServer: {passed: 1}}, r.byEngine)
	require.Contains(t, printed.String(), "ok   p 1.5s\n")
	require.Equal(t, "4 passed, 0 failed", lastLine(printed.String()))
	require.False(t, r.summary(3), "a server that no test ran on")
}

// What keeps tests from running or makes them fail is a failure, once, and is shown.
func TestFailures(t *testing.T) {
	t.Parallel()
	run := `{"Action":"run","Package":"p","Test":"TestA"}`
	pass := `{"Action":"pass","Package":"p","Test":"TestA"}`
	failed := `{"Action":"fail","Package":"p"}`
	skip := []string{run,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: not today\n"}`,
		`{"Action":"skip","Package":"p","Test":"TestA"}`, `{"Action":"pass","Package":"p"}`}
	for name, c := range map[string]struct {
		lines []string
		err   error
		shown string
		last  string
	}{
		"test": {lines: []string{run, `{"Action":"run","Package":"p","Test":"TestA/sub"}`,
			`{"Action":"output","Package":"p","Test":"TestA/sub","Output":"=== RUN   TestA/sub\n"}`,
			`{"Action":"output","Package":"p","Test":"TestA/sub","Output":"    a_test.go:7: broken\n"}`,
			`{"Action":"fail","Package":"p","Test":"TestA/sub"}`, `{"Action":"fail","Package":"p","Test":"TestA"}`,
			failed},
			err: os.ErrInvalid, shown: "FAIL p TestA/sub\n    a_test.go:7: broken\n", last: "0 passed, 1 failed"},
		"test that did not end": {lines: []string{run,
			`{"Action":"output","Package":"p","Test":"TestA","Output":"panic: timed out\n"}`, failed},
			err: os.ErrInvalid, shown: "FAIL p TestA\npanic: timed out\n", last: "0 passed, 1 failed"},
		"tests that did not run": {lines: []string{run,
			`{"Action":"output","Package":"p","Test":"TestA","Output":"panic: broken\n"}`,
			`{"Action":"run","Package":"p","Test":"TestB"}`,
			`{"Action":"output","Package":"p","Test":"TestB","Output":"=== PAUSE TestB\n"}`, failed},
			err: os.ErrInvalid, shown: "failed s: p TestA\nfailed s: p: 1 tests had not run when it ended\n",
			last: "0 passed, 2 failed"},
		"end of time after a test has passed": {lines: []string{`{"Action":"run","Package":"p","Test":"TestB"}`,
			run, pass,
			`{"Action":"output","Package":"p","Test":"TestA","Output":"panic: test timed out\n"}`, failed},
			err: os.ErrInvalid, shown: "panic: test timed out\nFAIL p 0.0s\n", last: "1 passed, 1 failed"},
		"end of time before a test is known to have passed": {lines: []string{`{"Action":"run","Package":"p","Test":"TestB"}`, run,
			`{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA (1.00s)\n"}`,
			`{"Action":"output","Package":"p","Test":"TestA","Output":"panic: test timed out\n"}`, pass, failed},
			err: os.ErrInvalid, shown: "panic: test timed out\nFAIL p 0.0s\n", last: "1 passed, 1 failed"},
		"package": {lines: []string{run, pass,
			`{"Action":"output","Package":"p","Output":"found unexpected goroutines\n"}`,
			`{"Action":"output","Package":"p","Output":"FAIL\tp\t1.0s\n"}`, failed},
			err: os.ErrInvalid, shown: "found unexpected goroutines\nFAIL p 0.0s\n", last: "1 passed, 1 failed"},
		"build": {lines: []string{`{"ImportPath":"p [p.test]","Action":"build-output","Output":"p/a_test.go:3: undefined\n"}`,
			`{"ImportPath":"p [p.test]","Action":"build-fail"}`, `{"Action":"start","Package":"p"}`, failed},
			err: os.ErrInvalid, shown: "p/a_test.go:3: undefined\n", last: "0 passed, 1 failed"},
		"go": {lines: []string{"go: no such flag"}, err: os.ErrInvalid, shown: "go: no such flag",
			last: "0 passed, 1 failed"},
		"nothing": {shown: "no test ran", last: "0 passed, 1 failed"},
		"skip": {lines: skip, shown: "failed s: p TestA: not today, which must run\n",
			last: "0 passed, 1 failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, printed := told(t, step{name: "s"}, c.err, c.lines...)
			r.byEngine["redis"] = &counts{}
			require.False(t, r.summary(1))
			require.Contains(t, printed.String(), c.shown)
			require.Equal(t, c.last, lastLine(printed.String()))
		})
	}
}

// Only in make test, and only with that reason, is a test left out.
func TestSkipped(t *testing.T) {
	t.Parallel()
	lines := []string{
		`{"Action":"run","Package":"p","Test":"TestA"}`,
		`{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:7: ` + env.LongReason + `\n"}`,
		`{"Action":"skip","Package":"p","Test":"TestA"}`,
		`{"Action":"run","Package":"p","Test":"TestB"}`,
		`{"Action":"pass","Package":"p","Test":"TestB"}`,
		`{"Action":"pass","Package":"p"}`,
	}
	r, printed := told(t, step{name: "s", short: true}, nil, lines...)
	r.byEngine["redis"] = &counts{}
	require.True(t, r.summary(1))
	require.Contains(t, printed.String(), "skipped p TestA: "+env.LongReason+"\n")
	require.Equal(t, "1 passed, 0 failed, 1 skipped", lastLine(printed.String()))

	r, _ = told(t, step{name: "s"}, nil, lines...)
	r.byEngine["redis"] = &counts{}
	require.False(t, r.summary(1))
}

// A step that fails keeps no other from running.
func TestEveryStepRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.test/suite\n\ngo 1.25.0\n",
		"bad/bad_test.go": "package bad\n\nimport \"testing\"\n\nfunc TestBad(t *testing.T) { t.Fatal(\"it is " +
			"bad\") }\n",
		"good/good_test.go": "package good\n\nimport \"testing\"\n\nfunc TestGood(t *testing.T) { " +
			"t.Attr(\"engine\", \"redis-1\") }\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	var printed strings.Builder
	args := []string{"test", "-count=1"}
	env := []string{"GOWORK=off", "GOPROXY=off"}
	require.False(t, run(&printed, []step{
		{name: "first", dir: dir, env: env, args: append(args, "./bad")},
		{name: "second", dir: dir, env: env, args: append(args, "./good"),
			prepare: []string{"go", "no-such-command"}, unprepared: []string{"-v"}},
		{name: "third", dir: dir, env: env, args: append(args, "./bad"), needs: []string{"go", "no-such-command"}},
		{name: "fourth", dir: dir, env: env, args: append(args, "./good"), needs: []string{"go", "version"}},
	}, "", 1))
	require.Contains(t, printed.String(),
		"left out of the suite: the step third, because of go no-such-command: exit status 2\n")
	require.Contains(t, printed.String(),
		"left out of second: run with -v, because of go no-such-command: exit status 2\n")
	require.Contains(t, printed.String(), "it is bad")
	require.Contains(t, printed.String(), "failed first: example.test/suite/bad TestBad\n")
	require.Equal(t, "2 passed, 1 failed", lastLine(printed.String()))
}

// The name of no step is a mistake.
func TestNoSuchStep(t *testing.T) {
	t.Parallel()
	var printed strings.Builder
	require.False(t, run(&printed, []step{{name: "first"}}, "second", 1))
	require.Equal(t, "no step's name begins with \"second\"\n", printed.String())
}

// A step with no test fails, so none is made that way.
func TestEveryStepHasTests(t *testing.T) {
	t.Parallel()
	for _, of := range []set{quick, normal, change, all} {
		for _, s := range steps(options{set: of}) {
			if !slices.ContainsFunc(s.args, func(arg string) bool { return strings.HasPrefix(arg, "-fuzz=") }) {
				require.NotContains(t, s.args, "-run=^$", s.name)
			}
		}
	}
}

// What make quick and make ci do not run is run by a larger set, and the summary says what that is.
func TestSmallerSets(t *testing.T) {
	t.Parallel()
	left := steps(options{set: quick})[0].less
	for _, p := range append(slices.Clone(beside), alone...) {
		require.NotEqual(t, slices.Contains(quickly, p),
			slices.Contains(strings.FieldsFunc(left, func(r rune) bool { return r == ' ' || r == ',' }), p), p)
	}
	for _, p := range slices.Concat(quickly, unraced, computing) {
		require.Contains(t, beside, p, "make test does not run it")
	}
	for _, of := range []set{change, all} {
		race := steps(options{set: of})[0]
		require.Contains(t, race.args, "-race")
		require.Empty(t, slices.DeleteFunc(slices.Clone(race.args),
			func(arg string) bool { return !strings.HasPrefix(arg, "./generator") || arg == try }))
	}
	declared := testsBelow(t, filepath.Join("..", ".."))
	for _, name := range slow {
		require.Contains(t, left, name)
		require.True(t, declared[name], "make quick leaves out %s, which does not exist", name)
	}

	changed := steps(options{set: change})
	for _, s := range steps(options{set: all}) {
		at := slices.IndexFunc(changed, func(c step) bool { return c.name == s.name })
		if at < 0 {
			require.Contains(t, changed[0].less, s.name)
			continue
		}
		require.Equal(t, s.dir, changed[at].dir)
		changed = slices.Delete(changed, at, at+1)
		if at == 0 {
			changed = slices.Insert(changed, 0, step{less: steps(options{set: change})[0].less})
		}
	}
	require.Len(t, changed, 1, "make test-all does not run it")

	var printed strings.Builder
	r := newReport(&printed)
	r.run(step{name: "s", less: "make quick, for make test: this", args: []string{"no-such-command"}})
	r.summary(1)
	require.Contains(t, printed.String(), "\nleft out of make quick, for make test: this\n")
}

// testsBelow are the names of the tests in a directory and below.
func testsBelow(t *testing.T, root string) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if name, ok := strings.CutPrefix(line, "func "); ok &&
				(strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz")) {
				name, _, _ = strings.Cut(name, "(")
				tests[name] = true
			}
		}
		return err
	}))
	return tests
}

// Every fuzz test of this module is one of fuzzers.
func TestEveryFuzzerRuns(t *testing.T) {
	t.Parallel()
	var got [][2]string
	root := filepath.Join("..", "..")
	require.NoError(t, filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if _, other := os.Stat(filepath.Join(path, "go.mod")); other == nil && path != root {
			return filepath.SkipDir // the step of redislua/goredis tries the seeds of its copy
		}
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for line := range strings.Lines(string(text)) {
			if name, ok := strings.CutPrefix(line, "func Fuzz"); ok {
				name, _, _ = strings.Cut(name, "(")
				dir, err := filepath.Rel(root, filepath.Dir(path))
				if err != nil {
					return err
				}
				got = append(got, [2]string{"Fuzz" + name, "./" + filepath.ToSlash(dir)})
			}
		}
		return err
	}))
	var run [][2]string
	for _, f := range fuzzers {
		run = append(run, [2]string{f.name, f.pkg})
	}
	require.ElementsMatch(t, run, got, "fuzzers in steps.go has those that make fuzz and make test-all run")
}

// The generator starts no goroutine but in package try, so the race detector would have nothing to find in
// the rest of it.
func TestNothingRacesInTheGenerator(t *testing.T) {
	t.Parallel()
	starts := 0
	require.NoError(t, filepath.WalkDir(filepath.Join("..", "..", "generator"),
		func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			if filepath.Base(filepath.Dir(path)) == filepath.Base(try) {
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					starts++
				case *ast.SelectorExpr:
					if n.Sel.Name == "Go" {
						starts++
					}
				}
				return true
			})
			return nil
		}))
	require.Zero(t, starts, "the race step leaves out packages that start goroutines: see computing in steps.go")
}

// Every package of this module is tested once, the one that measures by itself.
func TestEveryPackageRuns(t *testing.T) {
	t.Parallel()
	list := func(patterns ...string) []string {
		t.Helper()
		command := exec.CommandContext(t.Context(), "go", append([]string{"list"}, patterns...)...)
		command.Dir = filepath.Join("..", "..")
		out, err := command.Output()
		require.NoError(t, err)
		return strings.Fields(string(out))
	}
	require.ElementsMatch(
		t, list("./..."), append(list(beside...), list(alone...)...),
		"beside in steps.go has the packages that make test and make test-all run",
	)
}
