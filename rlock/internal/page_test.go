package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const page = "../../docs/ARCHITECTURE.md"

// quoted are the words that a text has between back quotes.
func quoted(text string) (words []string) {
	for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(text, -1) {
		words = append(words, m[1])
	}
	return words
}

// table returns the imports of each room as the page has them, and the rooms from the
// lowest to the highest.
func table(t *testing.T, text string) (arrows map[string][]string, order []string) {
	t.Helper()
	arrows = map[string][]string{}
	_, rest, found := strings.Cut(text, "| room |")
	require.True(t, found, "the page has no table of rooms")
	for line := range strings.Lines(rest) {
		cells := strings.Split(line, "|")
		if !strings.HasPrefix(line, "|") {
			if len(arrows) > 0 {
				break
			}
			continue
		}
		if names := quoted(cells[1]); len(cells) == 5 && len(names) == 1 {
			arrows[names[0]] = quoted(cells[3])
			order = append(order, names[0])
		}
	}
	require.NotEmpty(t, arrows)
	return arrows, order
}

// read returns the files of a package.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, paths, dir)
	files := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		files[path] = string(text)
	}
	return files
}

// receiver returns the name of the type of a method.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// declared are the names that a package declares, in its tests or outside, with their
// files: functions, types, methods as Type.Method, variables and constants.
func declared(t *testing.T, dir string, tests bool) map[string]string {
	t.Helper()
	names := map[string]string{}
	set := token.NewFileSet()
	for path, text := range read(t, dir) {
		if strings.HasSuffix(path, "_test.go") != tests {
			continue
		}
		file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					names[receiver(d.Recv.List[0].Type)+"."+d.Name.Name] = filepath.Base(path)
				} else {
					names[d.Name.Name] = filepath.Base(path)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						names[spec.Name.Name] = filepath.Base(path)
					case *ast.ValueSpec:
						for _, name := range spec.Names {
							names[name.Name] = filepath.Base(path)
						}
					}
				}
			}
		}
	}
	return names
}

// unknown returns the words of a page that stand for nothing: neither for a path, seen
// from rlock or from the top, nor for a room, nor for a name that is known.
func unknown(text string, exists func(path string) bool, known func(name string) bool) (words []string) {
	for _, word := range quoted(text) {
		if strings.Contains(word, " ") || known(word) || exists(word) || exists("../"+word) ||
			exists("internal/"+word) {
			continue
		}
		words = append(words, word)
	}
	return words
}

// All files, packages and names of which the page speaks exist, and a name is in the file
// of which it says so.
func TestArchitectureNamesWhatExists(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	_, rooms := table(t, string(text))
	names := declared(t, "..", false)
	maps.Copy(names, declared(t, ".", true))
	for _, room := range rooms {
		for name, file := range declared(t, room, false) {
			names[room+"."+name] = file
		}
	}
	exists := func(path string) bool {
		_, err := os.Stat(filepath.Join("..", path))
		return err == nil
	}
	require.Empty(t, unknown(string(text), exists,
		func(name string) bool { return names[name] != "" || name == "rueidis" || name == "uuid" }))
	for _, m := range regexp.MustCompile("`([^`\n]+)`\\s+in\\s+`(\\w+\\.go)`").FindAllStringSubmatch(
		string(text), -1) {
		require.Equal(t, m[2], names[m[1]], "%s is not in that file", m[1])
	}
}

func TestUnknown(t *testing.T) {
	t.Parallel()
	is := func(names ...string) func(string) bool {
		return func(name string) bool {
			for _, other := range names {
				if name == other {
					return true
				}
			}
			return false
		}
	}
	const text = "`lock.go` has `Lock.end`, `../scripts/a.lua` or `scripts/a.lua` and `slot` has `slot.Of`; " +
		"see `go doc x`.\n" +
		"`gone.go`, `Lock.gone`, `gone` and `slot.Gone` are gone."
	require.Equal(t, []string{"gone.go", "Lock.gone", "gone", "slot.Gone"},
		unknown(text, is("lock.go", "internal/slot", "../scripts/a.lua"), is("Lock.end", "slot.Of")))
}
