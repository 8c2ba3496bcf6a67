package main_test

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"go/ast"
	"go/constant"
	"go/format"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/generator/internal/audit"
	"github.com/rlock-go/toolkit/generator/internal/check"
	"github.com/rlock-go/toolkit/generator/internal/emit"
	"github.com/rlock-go/toolkit/generator/internal/finding"
	"github.com/rlock-go/toolkit/generator/internal/output"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// patience is far more than a script needs, on any machine.
const patience = 20 * time.Second

const pkg = "bindings"

// head and tail are the least that a script needs around its body.
const (
	head = "-- mode: write\n-- KEYS[1] k key\n-- ARGV[1] a string\n-- returns: int\n"
	tail = "\nreturn redis.call('APPEND', KEYS[1], ARGV[1])\n"
)

// seeds are the scripts of this module and of the generator's tests, good and bad,
// and some that are hard to write as Go.
func seeds(t testing.TB) [][]byte {
	t.Helper()
	var texts [][]byte
	lua, err := filepath.Glob("../../scripts/*.lua")
	require.NoError(t, err)
	archives, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, lua)
	require.NotEmpty(t, archives)
	for _, name := range lua {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		texts = append(texts, text)
	}
	for _, name := range archives {
		archive, err := txtar.ParseFile(name)
		require.NoError(t, err)
		for _, file := range archive.Files {
			if strings.HasSuffix(file.Name, ".lua") {
				texts = append(texts, file.Data)
			}
		}
	}
	nested := func(open, inner, end string) string {
		return strings.Repeat(open, 8) + inner +
			strings.Repeat(end, 8)
	}
	for _, body := range []string{
		"", "local a = [[`]]", "local a = '\xff'", "-- \xff", "-- \ufeff", "local a = '\u2028'", "local a = '\\0'",
		"--[[ */ ]]", "-- //",
		"-- a\f\f\fb", "local a = '\f\f'", "\v", // gofmt counts form feeds as line ends
		"local f = function(...) return ... end f(f, f(f))", "local t = {} t[1], t.x = KEYS, t t.x.x = t",
		"local t = {} t[1], t.d = KEYS, t t.x.x = t",
		"local a, b = KEYS a, b = b, a", "local r = redis r.call('DEL', unpack({unpack(KEYS)}))",
		"local function f(x) return f(f(x)) end redis.call('DEL', f(KEYS[1]))", "redis.call()",
		"redis.pcall(unpack(ARGV))",
		"pcall(redis.call)", "redis.call(redis.call)", "redis.call('SORT', KEYS[1], 'STORE')",
		"redis.call('ZUNION', -1)",
		"redis.call('ZDIFF', -3, KEYS[1])", "redis.call('ZINTER', 1e300, KEYS[1])",
		"local a = unpack({'a'}, 1e300)",
		"table.insert()", "pcall(table.insert)", "table.insert(unpack({}))",
		"local function f() end table.insert(f())",
		"redis.call('ZUNIONSTORE', KEYS[1], 9007199254740993, KEYS[1])", "redis.call('XREAD', 'STREAMS')",
		nested("redis.call('GET', ", "KEYS[1]", ")"), nested("local t = {unpack({", "KEYS", "})}"),
	} {
		texts = append(texts, []byte(head+body+tail))
	}
	for _, line := range []string{
		"// x", "/* x", "/* x */", "//go:build ignore", "*/", "`", "\xff", "\ufeff", "x\ty", "x\f\f\fy", "x\v\v\vy",
		"[Link]: x", "# Heading", "A  list:\n--   - x",
		"errors: A, A", "errors: A, A_", "errors: NO_STOCK, ERR", "name: New", "name: String",
		"name: ErrA\n-- errors: A",
		"returns: a string, b int", "ARGV[2] p duration", "ARGV[2..] keys duration?", "allow: dynamic-command // x",
		"guard: KEYS[1] held by ARGV[1]", "ARGV[2] x json(T)", "ARGV[2] x json(a/b.T)", "ARGV[2] x json(..T)",
	} {
		texts = append(texts, []byte("-- "+line+"\n"+head+tail), []byte("-- Text.\n-- "+line+"\n"+head+tail))
	}
	return texts
}

// packages imports what generated code depends on.
func packages(t testing.TB) types.Importer {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f",
		"{{.ImportPath}}\t{{.Export}}",
		"github.com/rlock-go/toolkit/redislua/luaimpl", "encoding/json", "embed")
	list.Stderr = os.Stderr
	text, err := list.Output()
	require.NoError(t, err)
	exports := map[string]string{}
	for line := range strings.Lines(string(text)) {
		path, export, _ := strings.Cut(strings.TrimSpace(line), "\t")
		exports[path] = export
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		if exports[path] == "" {
			return nil, fmt.Errorf("%s is not a dependency of generated code", path)
		}
		return os.Open(exports[path])
	})
}

// generate does what the command does with one script.
func generate(text []byte) (*script.Script, []output.File, []finding.Finding, error) {
	o := emit.Options{Package: pkg, Client: emit.Rueidis, Comment: true}
	s, findings := script.Parse("fuzz.lua", text)
	var audits []audit.Script
	if len(findings) == 0 {
		var report check.Report
		report, findings = check.Script(s)
		audits = append(audits, audit.Of(s, report, audit.Rueidis(false)))
	}
	if s.Name != "" {
		reserved, err := o.Reserved()
		if err != nil {
			return s, nil, nil, err
		}
		findings = append(findings, check.Package([]*script.Script{s}, reserved)...)
	}
	if len(findings) > 0 {
		return s, nil, finding.Sort(findings), nil
	}
	if err := audit.Text(io.Discard, audit.Rueidis(false), audits); err != nil {
		return s, nil, nil, err
	}
	if err := audit.JSON(io.Discard, audits); err != nil {
		return s, nil, nil, err
	}
	files, err := emit.Package(o, []*script.Script{s})
	return s, append(files, audit.Markdown(audit.Rueidis(false), audits)), nil, err
}

// named reports whether a script names Go types that are not its own, so that its
// code cannot be compiled by itself.
func named(s *script.Script) bool { return strings.Contains(s.Source, "json(") }

// FuzzGenerator: of any script come findings, or code that Go takes and gofmt would
// not change, the same every time.
func FuzzGenerator(f *testing.F) {
	for _, text := range seeds(f) {
		f.Add(text)
	}
	deps := packages(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		defer time.AfterFunc(patience, func() { panic("the generator does not end") }).Stop()
		defer func() {
			if t.Failed() {
				t.Logf("the script: %q", text)
			}
		}()
		s, files, findings, err := generate(text)
		require.NoError(t, err)
		_, again, sameFindings, err := generate(text)
		require.NoError(t, err)
		require.Equal(t, findings, sameFindings)
		require.Equal(t, files, again)
		lines := strings.Count(string(text), "\n") + 1
		for _, found := range findings {
			require.True(t, found.Path != "fuzz.lua" || 1 <= found.Line && found.Line <= lines && found.Column >= 1,
				"%v", found)
			require.NotContains(t, found.Message, "\n")
			require.NotContains(t, found.Message, "fault of the generator")
		}
		if len(findings) > 0 {
			require.Empty(t, files)
			return
		}

		set := token.NewFileSet()
		var parsed []*ast.File
		for _, file := range files {
			if file.EmbeddedBy != "" {
				require.Equal(t, s.Source, string(file.Text))
				continue
			}
			require.True(t, strings.HasPrefix(strings.TrimPrefix(string(file.Text), "<!-- "),
				"// Code generated by ") ||
				strings.HasPrefix(string(file.Text), "<!-- Code generated by "), "%s has no header", file.Name)
			if !strings.HasSuffix(file.Name, ".go") {
				continue
			}
			tree, err := parser.ParseFile(set, file.Name, file.Text, parser.ParseComments)
			require.NoError(t, err)
			require.True(t, ast.IsGenerated(tree), file.Name)
			formatted, err := format.Source(file.Text)
			require.NoError(t, err)
			require.Equal(t, string(formatted), string(file.Text), "gofmt would change %s", file.Name)
			parsed = append(parsed, tree)
		}
		require.Len(t, parsed, 2)
		if named(s) {
			return
		}
		compiled, err := (&types.Config{Importer: deps}).Check(pkg, set, parsed, nil)
		require.NoError(t, err)
		value := func(name string) string {
			object, ok := compiled.Scope().Lookup(name).(*types.Const)
			require.True(t, ok, name)
			return constant.StringVal(object.Val())
		}
		sum := sha1.Sum([]byte(s.Source))
		require.Equal(t, hex.EncodeToString(sum[:]), value(s.Name+"SHA1"))
	})
}

// Nesting makes a script no harder than its length does.
func TestNestingIsFollowedOnce(t *testing.T) {
	t.Parallel()
	for name, form := range map[string][3]string{
		"calls of what commands answer": {"redis.call('GET', ", "f()", ")()"},
		"lists of lists":                {"{unpack(", "KEYS", ")}"},
		"functions in for":              {"(function() for _ in (", "f", ")(1) do end end)"},
		"functions in targets":          {"(function() (", "f", ")().x = 1 end)"},
	} {
		t.Run(name, func(t *testing.T) {
			const depth = 32 // what doubles with each takes hours
			body := "local f = KEYS[1] local x = " + strings.Repeat(form[0], depth) + form[1] +
				strings.Repeat(form[2], depth)
			start := time.Now()
			_, _, _, err := generate([]byte(head + body + tail))
			require.NoError(t, err)
			require.Less(t, time.Since(start), 20*time.Second)
		})
	}
}
