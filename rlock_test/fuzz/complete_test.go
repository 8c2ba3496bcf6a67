package fuzz

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
)

// functions returns the functions of the files, by their names.
func functions(t *testing.T, pattern string) map[string]*ast.FuncDecl {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	found := map[string]*ast.FuncDecl{}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		require.NoError(t, err)
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is {
				found[f.Name.Name] = f
			}
		}
	}
	return found
}

// Each option of package rlock is one of the kinds that FuzzOptions draws.
func TestEveryOptionIsDrawn(t *testing.T) {
	t.Parallel()
	draws := functions(t, "options_test.go")["option"]
	require.NotNil(t, draws)
	drawn := map[string]bool{}
	kinds := 0
	ast.Inspect(draws, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CaseClause:
			kinds++
		case *ast.SelectorExpr:
			drawn[n.Sel.Name] = true
		}
		return true
	})
	require.Equal(t, optionKinds, kinds, "optionKinds is not the number of cases of chosen.option")
	for name, f := range functions(t, "../../rlock/*.go") {
		if strings.HasPrefix(name, "With") && f.Recv == nil {
			require.True(t, drawn[name], "chosen.option draws no %s; add a case, and raise optionKinds", name)
		}
	}
}

// Each script has a reply among those that FuzzReply need not find: its bindings decode it.
func TestEveryScriptHasAReply(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../gen/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	var said value
	onPuppet(t, func(string) value { return said }, quiet, func(t *testing.T, client rueidis.Client, _ *puppet) {
		for _, path := range paths {
			call, params := callOfScript(t, path)
			decoded := false
			for _, said = range replies {
				results := call.Call([]reflect.Value{reflect.ValueOf(t.Context()), reflect.ValueOf(client), params})
				decoded = decoded || results[1].IsNil()
			}
			require.True(t, decoded, "none of the replies in resp_test.go is one of %s", filepath.Base(path))
		}
	})
}

var enumRule = regexp.MustCompile(`enum\((\w+)`)

// callOfScript returns the binding of a script, and parameters that it accepts.
func callOfScript(t *testing.T, path string) (call, params reflect.Value) {
	t.Helper()
	name := ""
	for word := range strings.SplitSeq(strings.TrimSuffix(filepath.Base(path), ".lua"), "_") {
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	call = reflect.ValueOf(gen.New()).MethodByName(name)
	require.True(t, call.IsValid(), name)
	require.Equal(t, reflect.TypeFor[context.Context](), call.Type().In(0))
	params = reflect.New(call.Type().In(2)).Elem()
	for i := range params.NumField() {
		field := params.Field(i)
		switch {
		case field.Type() == reflect.TypeFor[string]():
			field.SetString("{1}")
		case field.Kind() == reflect.String: // one of the values that the header lists
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			values := enumRule.FindSubmatch(text)
			require.NotNil(t, values, path)
			field.SetString(string(values[1]))
		case field.Kind() == reflect.Slice:
			field.Set(reflect.ValueOf([]string{"{1}"}))
		}
	}
	return call, params
}
