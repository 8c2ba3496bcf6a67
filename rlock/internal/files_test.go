package internal_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The files of rlock have an order, as the rooms have: one file calls functions and uses types of others,
// and these do not come back to it, by whatever way.
func TestFilesHaveAnOrder(t *testing.T) {
	t.Parallel()
	arrows := arrowsOf(t, "..")
	require.Greater(t, len(arrows), 10)
	order := []string{}
	for left := slices.Sorted(maps.Keys(arrows)); len(left) > 0; {
		i := slices.IndexFunc(left, func(file string) bool {
			for to := range arrows[file] {
				if slices.Contains(left, to) {
					return false
				}
			}
			return true
		})
		if i < 0 {
			for _, file := range left {
				for to, names := range arrows[file] {
					if slices.Contains(left, to) {
						t.Logf("%s → %s: %s", file, to, strings.Join(names, ", "))
					}
				}
			}
			require.Fail(t, "some files use each other", "%v; below them are %v", left, order)
		}
		order = append(order, left[i])
		left = slices.Delete(left, i, i+1)
	}
	t.Log(strings.Join(order, " "))
}

// arrowsOf returns, for each file of the package in a directory, which names of which other files it uses.
func arrowsOf(t *testing.T, dir string) map[string]map[string][]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-C", dir, "-export", "-deps",
		"-f", "{{.ImportPath}} {{.Export}}", ".").Output()
	require.NoError(t, err)
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	set := token.NewFileSet()
	var files []*ast.File
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			files = append(files, file)
		}
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	conf := types.Config{Importer: importer.ForCompiler(set, "gc", open)}
	pkg, err := conf.Check("rlock", set, files, info)
	require.NoError(t, err)
	fileOf := func(at token.Pos) string { return filepath.Base(set.Position(at).Filename) }
	arrows := map[string]map[string][]string{}
	for _, file := range files {
		arrows[fileOf(file.Package)] = map[string][]string{}
	}
	for use, object := range info.Uses {
		_, isType := object.(*types.TypeName)
		_, isFunc := object.(*types.Func)
		from, to := fileOf(use.Pos()), fileOf(object.Pos())
		counts := object.Pkg() == pkg && (isType || isFunc) && from != to
		if counts && !slices.Contains(arrows[from][to], object.Name()) {
			arrows[from][to] = append(arrows[from][to], object.Name())
		}
	}
	return arrows
}
