package generator

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var testName = regexp.MustCompile(`\b(Test|Fuzz|Example)[A-Z_]\w*`)

// Every statement of the guarantees names the tests that show it, and they exist.
func TestGuaranteesNameTheirTests(t *testing.T) {
	t.Parallel()
	tests := testsOf(t, root)
	text, err := os.ReadFile(filepath.Join(root, "docs", "GUARANTEES.md"))
	require.NoError(t, err)
	statements := 0
	for paragraph := range strings.SplitSeq(string(text), "\n\n") {
		for _, item := range strings.Split("\n"+paragraph, "\n- ")[1:] {
			statements++
			requireTests(t, tests, item)
		}
	}
	require.NotZero(t, statements)
}

// So does every row of the table of failures.
func TestFailuresNameTheirTests(t *testing.T) {
	t.Parallel()
	tests := testsOf(t, root)
	text, err := os.ReadFile(filepath.Join(root, "docs", "FAILURES.md"))
	require.NoError(t, err)
	rows := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || strings.HasPrefix(cells[0], "---") || strings.TrimSpace(cells[2]) == "shown by" {
			continue
		}
		rows++
		requireTests(t, tests, cells[2])
	}
	require.NotZero(t, rows)
}

func requireTests(t *testing.T, tests map[string]bool, text string) {
	t.Helper()
	names := testName.FindAllString(text, -1)
	require.NotEmpty(t, names, text)
	for _, name := range names {
		require.True(t, tests[name], "%s, of %q, does not exist", name, text)
	}
}

// testsOf returns the names of all tests below a directory, of nested modules too.
func testsOf(t *testing.T, root string) map[string]bool {
	t.Helper()
	tests := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && testName.MatchString(f.Name.Name) {
				tests[f.Name.Name] = true
			}
		}
		return nil
	})
	require.NoError(t, err)
	return tests
}
