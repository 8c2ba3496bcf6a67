package main_test

import (
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/generator/internal/check"
	"github.com/rlock-go/toolkit/generator/internal/emit"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// Types of every kind, in one another, become code that Go takes and gofmt leaves alone.
// Whether a body fits them is not asked here.
func TestTypesCompile(t *testing.T) {
	t.Parallel()
	scalars := []string{"string", "bytes", "int", "bool", "float", "duration", "time", "json",
		"json(time.Duration)"}
	results := []string{"none", "ok", "raw", "[]raw", "map[string]raw", "a raw", "[](first raw, b int)"}
	for _, scalar := range scalars {
		results = append(results, scalar, scalar+"?", "[]"+scalar, "([]"+scalar+"?)?", "map[string]"+scalar,
			"(map[string]"+scalar+")?",
			"a "+scalar+", err "+scalar+"?", "(a "+scalar+")?", "[](a "+scalar+", b "+scalar+"?)",
			"([](a "+scalar+", values int)?)?")
	}
	results = append(results, "[](a [](b [](c string, d int), e map[string](f int)))",
		"a (b int, c (d string, e time?)?)", "[]([](a int))?", "[][](a int)",
		"map[string]([](a string, r json(encoding/json.Number)))?")
	arguments := []string{"enum(a|B|c-d)", "enum(NX)?", "channel", "channel?", "duration?", "time?"}
	arguments = append(arguments, scalars...)

	var scripts []*script.Script
	add := func(lua string) {
		name := "s" + strconv.Itoa(len(scripts)) + ".lua"
		s, findings := script.Parse(name, []byte(lua+"return 1\n"))
		require.Empty(t, findings, lua)
		scripts = append(scripts, s)
	}
	for _, result := range results {
		add("-- mode: write\n-- KEYS[1] k key\n-- returns: " + result + "\n")
	}
	for _, argument := range arguments {
		for _, index := range []string{"[2]", "[2..]"} {
			for _, mode := range []string{"write", "read cached"} {
				skipped := "-- ARGV[1] _ not used\n"
				if mode == "read cached" { // which takes one argument at most
					skipped, index = "", "[1]"
				}
				add("-- mode: " + mode + "\n-- KEYS[1] k key\n" + skipped + "-- ARGV" + index + " err " + argument +
					"\n-- returns: int\n")
			}
		}
	}
	for name, o := range map[string]emit.Options{
		"rueidis": {Client: emit.Rueidis}, "rueidis, standalone": {Client: emit.Rueidis, Standalone: true},
		"goredis": {Client: emit.Goredis}, "goredis, standalone": {Client: emit.Goredis, Standalone: true},
	} {
		t.Run(name, func(t *testing.T) {
			o.Package, o.Comment = pkg, true
			reserved, err := o.Reserved()
			require.NoError(t, err)
			require.Empty(t, check.Package(scripts, reserved))
			files, err := emit.Package(o, scripts)
			require.NoError(t, err)

			set := token.NewFileSet()
			var parsed []*ast.File
			for _, file := range files {
				if file.EmbeddedBy != "" {
					continue
				}
				formatted, err := format.Source(file.Text)
				require.NoError(t, err, file.Name)
				require.Equal(t, string(formatted), string(file.Text), file.Name)
				tree, err := parser.ParseFile(set, file.Name, file.Text, 0)
				require.NoError(t, err)
				parsed = append(parsed, tree)
			}
			if o.Client != emit.Rueidis {
				return // this module does not require it; rlock_test/goredis compiles its bindings
			}
			var wrong []string
			config := types.Config{Importer: packages(t),
				Error: func(err error) { wrong = append(wrong, err.Error()) }}
			_, _ = config.Check(pkg, set, parsed, nil)
			require.Empty(t, wrong, strings.Join(wrong, "\n"))
		})
	}
}
