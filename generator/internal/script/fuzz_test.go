package script_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/require"
	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// patience is far more than a script needs, on any machine.
const patience = 20 * time.Second

var (
	goName   = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	luaName  = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	codeName = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
)

// seeds are the scripts of this module and of the generator's tests, good and bad,
// and some that test the edges of a header.
func seeds(t testing.TB) [][]byte {
	t.Helper()
	var texts [][]byte
	lua, err := filepath.Glob("../../../scripts/*.lua")
	require.NoError(t, err)
	archives, err := filepath.Glob("../../redislua/testdata/*.txtar")
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
	const head = "-- mode: read\n-- returns: int\n"
	for _, text := range []string{
		"", "\n", "--", "--\n--", "#!lua", "#!lua\n", "#!", "\xef\xbb\xbf", "\x00", "\r", "return", "return 1",
		head, head + "return 1", head + "return '\xff'", head + "return [[`]]", head + "-- \xff\nreturn 1",
		head + "--[[ a long comment ]] return 1", head + "--[==[\n]==] return 1", head + "return 1 -- x",
		head + "return '\\300'",
		head + "\n-- include: parse.go\nreturn 1", head + "\n-- include: ../../../../scripts/check.lua",
		head + "\n-- include: .",
		"-- mode: read\n--\vreturns: int\nreturn 1", "#!lua flags=no-writes\n" + head + "return 1",
		"#!lua flags=\n" + head + "return 1",
		"-- KEYS[1] a key\n--    that goes on\n--    and on\n-- ARGV[1..] b int\n" + head +
			"return redis.call('GET', KEYS[1]) + #ARGV",
		"-- KEYS[18446744073709551617] a key\n" + head,
		"-- guard: KEYS[9] held by ARGV[18446744073709551617]\n" + head,
		"-- KEYS[1] a channel\n-- ARGV[1] b enum( a | b )?  x\n-- ARGV[2] _\n-- ARGV[3..] c channel?\n" + head +
			"return redis.call(ARGV[1], KEYS[1], unpack(ARGV))",
		"-- mode: read\n-- returns: []((a raw, b ([]int)?)?)?\nreturn {}",
		"-- mode: read\n-- returns: (((()\nreturn {}",
		"-- returns: a map[string][][]json(time.Time)?, b []json(X)\n-- mode: read\nreturn {{}, {}}",
		"--[[ no end\n-- mode: read\n-- include: parse.go",
		head + "return f(\n'a\\\nb',\n[[\n]])",
		head + "return " + strings.Repeat("(", 50) + "1" + strings.Repeat(")", 50),
		head + "local function f(a, ...) return a end for i, v in ipairs(KEYS) do if not -#f then f'x' f{} f:g() " +
			"end end",
	} {
		texts = append(texts, []byte(text))
	}
	return texts
}

// FuzzParse: any text is a script or has findings, each of which points into it.
func FuzzParse(f *testing.F) {
	for _, text := range seeds(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		defer time.AfterFunc(patience, func() { panic("Parse does not end") }).Stop()
		const path = "fuzz.lua"
		before := bytes.Clone(text)
		s, findings := script.Parse(path, text)
		require.Equal(t, before, text, "Parse has changed its input")
		again, sameFindings := script.Parse(path, text)
		require.Equal(t, findings, sameFindings)
		require.Equal(t, s.Source, again.Source)
		require.Equal(t, path, s.Path)
		require.Equal(t, path, s.Base)

		lines := strings.Split(string(text), "\n")
		inside := func(path string, pos script.Pos) {
			t.Helper()
			if path != "fuzz.lua" {
				return // a fragment
			}
			require.True(t, 1 <= pos.Line && pos.Line <= len(lines), "line %d of %d", pos.Line, len(lines))
			length := len(lines[pos.Line-1])
			require.True(t, 1 <= pos.Column && pos.Column <= length+1, "column %d of %d in line %d", pos.Column,
				length, pos.Line)
		}
		for _, found := range findings {
			require.NotEmpty(t, found.Message)
			require.NotContains(t, found.Message, "\n")
			inside(found.Path, script.Pos{Line: found.Line, Column: found.Column})
		}
		if len(findings) > 0 {
			return
		}

		if len(s.Includes) == 0 {
			require.Equal(t, string(text), s.Source)
		}
		lines = strings.Split(s.Source, "\n")
		header(t, s, lines, func(pos script.Pos) { inside(path, pos) })
		nodes(reflect.ValueOf(s.Body), func(e ast.Expr) { inside(path, s.Pos(e)) })
	})
}

// header checks what a whole script says of itself.
func header(t *testing.T, s *script.Script, lines []string, inside func(script.Pos)) {
	require.Regexp(t, goName, s.Name)
	require.NotEqual(t, "unknown", s.Mode.String())
	require.False(t, s.Mode.Write && s.Mode.Cached || s.Mode.Retryable && !s.Mode.Write)
	require.False(t, s.Mode.Cached && (len(s.Keys) != 1 || len(s.Args) > 1))
	fields := map[string]bool{}
	for table, params := range map[string][]script.Param{"KEYS": s.Keys, "ARGV": s.Args} {
		for i, p := range params {
			require.Equal(t, i+1, p.Index)
			require.True(t, !p.Variadic || i == len(params)-1, "a variadic entry is not the last")
			if p.Skipped {
				require.Equal(t, "_", p.Name)
				require.Equal(t, "ARGV", table)
				continue
			}
			require.Regexp(t, luaName, p.Name)
			require.NotEmpty(t, p.Type.String())
			require.False(t, fields[script.Camel(p.Name)], "the field of %s is taken twice", p.Name)
			fields[script.Camel(p.Name)] = true
			require.NotContains(t, p.Doc, "\n")
			inside(p.Pos)
			require.True(t, strings.HasPrefix(lines[p.Pos.Line-1][p.Pos.Column-1:], table+p.String()),
				"%s is not at %v", p, p.Pos)
		}
	}
	inside(s.Returns.Pos)
	require.True(t, strings.HasPrefix(lines[s.Returns.Pos.Line-1][s.Returns.Pos.Column-1:], "returns:"))
	if s.Returns.Kind == script.ReturnValue {
		require.Empty(t, duplicates(s.Returns.Type))
	}
	for _, code := range s.Errors {
		require.Regexp(t, codeName, code.Code)
		inside(code.Pos)
	}
	for _, w := range s.Waivers {
		require.Contains(t, script.Rules, w.Rule)
		require.NotEmpty(t, w.Reason)
		inside(w.Pos)
	}
	if g := s.Guard; g != nil {
		inside(g.Pos)
		require.True(t, s.Mode.Write)
		require.True(t, 1 <= g.Key && g.Key <= len(s.Keys) && 1 <= g.Arg && g.Arg <= len(s.Args))
	}
	for _, line := range s.Doc {
		require.NotContains(t, line, "\n")
	}
}

// duplicates returns the first name that a struct of the type has twice.
func duplicates(t script.Type) string {
	if t.Elem != nil {
		return duplicates(*t.Elem)
	}
	names := map[string]bool{}
	for _, field := range t.Fields {
		if name := script.Camel(field.Name); names[name] {
			return name
		}
		names[script.Camel(field.Name)] = true
		if name := duplicates(field.Type); name != "" {
			return name
		}
	}
	return ""
}

// nodes finds every expression of a tree.
func nodes(v reflect.Value, found func(ast.Expr)) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			nodes(v.Index(i), found)
		}
	case reflect.Interface, reflect.Pointer:
		if e, ok := v.Interface().(ast.Expr); ok && v.Kind() == reflect.Pointer && !v.IsNil() {
			found(e)
		}
		nodes(v.Elem(), found)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				nodes(v.Field(i), found)
			}
		}
	}
}
