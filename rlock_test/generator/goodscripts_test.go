package generator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// goodStep is a line of a good script that says what to do with the server: --: and a
// command, or --> and a call of the script with its answer. The program in
// testdata/goodscripts takes them as JSON.
type goodStep struct {
	Place   string
	Command []string        `json:",omitempty"`
	Script  string          `json:",omitempty"`
	Params  json.RawMessage `json:",omitempty"`
	Want    json.RawMessage `json:",omitempty"`
	Error   string          `json:",omitempty"`
	// the script declares Error, which is an error of the bindings then
	Declares bool `json:",omitempty"`
}

var (
	goodCall  = regexp.MustCompile(`^--> (\{.*?\}) = (?:error (.+)|(.+))$`)
	errorList = regexp.MustCompile(`(?m)^-- errors: (.+)$`)
)

// The scripts in generator/redislua/testdata/good are correct: every call that they describe must
// have the answer that they tell, through the bindings, on every server. A script that
// the generator still refuses has no bindings; those are listed in open.list there.
func TestGoodScripts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	steps, codes := goodScripts(t, dir)
	input, err := json.Marshal(steps)
	require.NoError(t, err)

	stranger(t, dir, "example.test/good", false)
	copyFiles(t, "testdata/goodscripts", dir, "main.go")
	sentinels := "package main\n\nimport \"example.test/good/bindings\"\n\nvar sentinels = map[string]error{\n"
	for code := range codes {
		sentinels += fmt.Sprintf("%q: bindings.Err%s,\n", code, camel(strings.ToLower(code)))
	}
	writeFiles(t, dir, map[string]string{"sentinels.go": sentinels + "}\n"})
	_, stderr, err := run(t, root, nil, "run", "./generator/redislua", "-scripts", filepath.Join(dir, "lua"),
		"-out", filepath.Join(dir, "bindings"))
	require.NoError(t, err, stderr)
	_, stderr, err = run(t, dir, offline, "build", "-o", "good", ".")
	require.NoError(t, err, stderr)

	env.Each(t, func(t *testing.T, e env.Engine) {
		for _, protocol := range []string{"resp3", "resp2"} {
			command := exec.CommandContext(t.Context(), filepath.Join(dir, "good"), e.Start(t).Addr(), protocol)
			command.Stdin = bytes.NewReader(input)
			out, err := command.CombinedOutput()
			require.NoError(t, err, "%s: %s", protocol, out)
			require.Empty(t, string(out))
		}
	})
}

// goodScripts writes the good scripts and their fragments into dir/lua, and returns their
// steps, and the error codes that they declare.
func goodScripts(t *testing.T, dir string) (steps []goodStep, codes map[string]bool) {
	t.Helper()
	const data = root + "/generator/redislua/testdata/"
	open, err := os.ReadFile(data + "open.list")
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	archives, err := filepath.Glob(data + "good/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, archives)
	codes = map[string]bool{}
	files := map[string]string{}
	for _, name := range archives {
		archive, err := txtar.ParseFile(name)
		require.NoError(t, err)
		theme := strings.TrimSuffix(filepath.Base(name), ".txtar")
		for _, f := range archive.Files {
			base, _ := strings.CutSuffix(f.Name, ".lua")
			if strings.Contains("\n"+string(open), "\ngood/"+theme+"/"+base+" ") {
				continue
			}
			require.NotContains(t, files, "lua/"+f.Name, "two good scripts share a name")
			files["lua/"+f.Name] = string(f.Data)
			if strings.Contains(base, "/") { // a fragment
				continue
			}
			declared := declaredErrors(string(f.Data))
			for _, code := range declared {
				codes[code] = true
			}
			of := goodSteps(t, base, string(f.Data))
			for i := range of {
				of[i].Declares = slices.Contains(declared, of[i].Error)
			}
			require.Greater(t, len(of), 1, "%s is never called", f.Name)
			steps = append(steps, of...)
		}
	}
	writeFiles(t, dir, files)
	return steps, codes
}

// declaredErrors returns the error codes that the header of a script names.
func declaredErrors(text string) (codes []string) {
	for _, list := range errorList.FindAllStringSubmatch(text, -1) {
		for code := range strings.SplitSeq(list[1], ",") {
			codes = append(codes, strings.TrimSpace(code))
		}
	}
	return codes
}

// goodSteps returns the steps of one script, which begin on an empty server.
func goodSteps(t *testing.T, base, text string) []goodStep {
	t.Helper()
	steps := []goodStep{{Place: base, Command: []string{"FLUSHALL"}}}
	for i, line := range strings.Split(text, "\n") {
		place := fmt.Sprintf("%s:%d", base, i+1)
		if command, ok := strings.CutPrefix(line, "--: "); ok {
			steps = append(steps, goodStep{Place: place, Command: strings.Fields(command)})
		}
		if !strings.HasPrefix(line, "--> ") {
			continue
		}
		call := goodCall.FindStringSubmatch(line)
		require.NotNil(t, call, "%s: %s", place, line)
		step := goodStep{Place: place, Script: camel(base), Params: json.RawMessage(call[1]), Error: call[2]}
		if call[3] != "" {
			step.Want = json.RawMessage(call[3])
		}
		steps = append(steps, step)
	}
	return steps
}

// camel turns two_words into TwoWords.
func camel(name string) string {
	words := strings.Split(name, "_")
	for i, word := range words {
		if word != "" {
			words[i] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return strings.Join(words, "")
}
