package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A fuzzer begins with the committed cases alone, and prints the one that fails.
func TestFuzzerFails(t *testing.T) {
	t.Parallel()
	env.Long(t) // the go command builds with instrumentation
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.test/suite\n\ngo 1.25.0\n",
		"a/a_test.go": "package a\n\nimport (\n\t\"flag\"\n\t\"testing\"\n)\n\n" +
			"func FuzzA(f *testing.F) {\n\tf.Fuzz(func(t *testing.T, text string) {\n\t\tif len(text) > 2 {\n" +
			"\t\t\tt.Fatal(\"cases are in\", flag.Lookup(\"test.fuzzcachedir\").Value)\n\t\t}\n\t})\n}\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	for _, fresh := range []bool{true, false} {
		var printed strings.Builder
		require.False(t, run(&printed,
			[]step{{name: "FuzzA", dir: dir, env: []string{"GOWORK=off", "GOPROXY=off"}, fuzz: "./a", fresh: fresh,
				args: []string{"test", "-run=^$", "-fuzz=FuzzA$", "-fuzztime=1m", "./a"}}}, "", 0))
		require.Regexp(t,
			`The case is .*/a/testdata/fuzz/FuzzA/[0-9a-f]{16}:\ngo test fuzz v1\nstring\(".{3,}"\)\n`,
			printed.String())
		require.Equal(t, fresh, strings.Contains(printed.String(),
			"cases are in "+filepath.Join(os.TempDir(), "fuzz")), printed.String())
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "a", "testdata")))
	}
}

// How much a fuzzer has tried is told, and if that was nothing new, too.
func TestFuzzerTells(t *testing.T) {
	t.Parallel()
	begun := `{"Action":"run","Package":"p","Test":"FuzzA"}`
	said := func(text string) string {
		return `{"Action":"output","Package":"p","Test":"FuzzA","Output":"fuzz: elapsed: ` + text + `\n"}`
	}
	r, printed := told(t, step{name: "FuzzA"}, nil, begun, said("3s, execs: 7"), said("10s, execs: 99"),
		`{"Action":"pass","Package":"p","Test":"FuzzA"}`, `{"Action":"pass","Package":"p"}`)
	require.True(t, r.summary(0))
	require.Contains(t, printed.String(), "fuzz: elapsed: 10s, execs: 99\nok   p")
	require.NotContains(t, printed.String(), "execs: 7")
	require.NotContains(t, printed.String(), "left out")

	r, printed = told(t, step{name: "FuzzA"}, nil, begun,
		said("10s, gathering baseline coverage: 7/9 completed"),
		`{"Action":"pass","Package":"p","Test":"FuzzA"}`, `{"Action":"pass","Package":"p"}`)
	require.True(t, r.summary(0))
	require.Contains(t, printed.String(), "left out of FuzzA: new cases")

	r, printed = told(t, step{name: "FuzzA", dir: t.TempDir(), fuzz: "a"}, errors.New("exit status 1"), begun,
		said("3s, execs: 7"),
		`{"Action":"output","Package":"p","Test":"FuzzA","Output":"    fuzzing process hung or terminated unexpectedly: exit status 2\n"}`,
		`{"Action":"output","Package":"p","Test":"FuzzA","Output":"    Failing input written to testdata/fuzz/FuzzA/17\n"}`,
		`{"Action":"fail","Package":"p","Test":"FuzzA"}`, `{"Action":"fail","Package":"p"}`)
	require.False(t, r.summary(0))
	require.Contains(t, printed.String(), hung+"The case is ")
	require.Contains(t, printed.String(), "no such file")

	r, printed = told(t, step{name: "FuzzA"}, errors.New("exit status 1"), begun, said("10s, execs: 7"),
		`{"Action":"output","Package":"p","Test":"FuzzA","Output":"    context deadline exceeded\n"}`,
		`{"Action":"fail","Package":"p","Test":"FuzzA"}`, `{"Action":"fail","Package":"p"}`)
	require.False(t, r.summary(0))
	require.Contains(t, printed.String(), timed)
}
