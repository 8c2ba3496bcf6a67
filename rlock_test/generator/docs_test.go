package generator

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var testName = regexp.MustCompile(`\b(Test|Fuzz|Example)[A-Z_]\w*`)

var (
	idOfItem = regexp.MustCompile(`^- \*\*([A-Z]\d+)\*\* \S`)
	idOfRow  = regexp.MustCompile(`^\| ([A-Z]\d+) \|(.*)\|$`)
	mention  = regexp.MustCompile(`\*\*([A-Z]\d+)\*\*`)
)

const (
	words        = "Words" // this section and the next one promise nothing
	assumptions  = "Assumptions"
	tableOfTests = "The tests behind each promise"
)

// Every item of the guarantees has an ID, the last table names the tests of each ID, and they exist.
func TestGuaranteesNameTheirTests(t *testing.T) {
	t.Parallel()
	require.Empty(t, wrongGuarantees(page(t, "docs/GUARANTEES.md"), testsOf(t, root)))
}

// Each fault of the page is found.
func TestWrongGuarantees(t *testing.T) {
	t.Parallel()
	const items = "# Guarantees\n\n## Words\n\n| key | a name |\n\n## Assumptions\n\n- One primary.\n\n## Fences\n\n- **F1** They rise.\n" +
		"  Always.\n- **F2** *It fails.* Do nothing.\n\n"
	const table = "## The tests behind each promise\n\n| ID | tests |\n|---|---|\n"
	tests := map[string]bool{"TestRise": true, "TestFail": true, "TestFall": true}
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"right": {
			items + table + "| F1 | `TestRise` |\n| F2 | `TestFail` (\"late\"), `TestFall/it` |\n", nil,
		},
		"in several rows": {
			items + table + "| F1 | `TestRise` |\n| F1 | `TestFall` |\n| F2 | `TestFail` |\n", nil,
		},
		"an ID is missing": {items + table + "| F1 | `TestRise` |\n", []string{"F2 is not in the table"}},
		"an item has no ID": {
			items + "- They fall.\n\n" + table + "| F1 | `TestRise` |\n| F2 | `TestFail` |\n",
			[]string{`"- They fall." has no ID`},
		},
		"a table without IDs": {
			items + "| they fall | nothing |\n\n" + table + "| F1 | `TestRise` |\n| F2 | `TestFail` |\n",
			[]string{`"| they fall | nothing |" has no ID`},
		},
		"two items with one ID": {
			items + "- **F1** They rise.\n\n" + table + "| F1 | `TestRise` |\n| F2 | `TestFail` |\n",
			[]string{"F1 is the ID of two items"},
		},
		"a row of no item": {
			items + table + "| F1 | `TestRise` |\n| F2 | `TestFail` |\n| F3 | `TestFall` |\n",
			[]string{"F3 is in the table, and no item has it"},
		},
		"a row names no test": {
			items + table + "| F1 | |\n| F2 | `TestFail` |\n", []string{`"| F1 | |" names no test`},
		},
		"a test does not exist": {
			items + table + "| F1 | `TestRise` |\n| F2 | `TestFail`, `TestFell` |\n",
			[]string{"TestFell, of F2, does not exist"},
		},
		"a row that is broken": {
			items + table + "| F1 | `TestRise` |\n| F2 | `TestFail` |\n| `TestFall` |\n",
			[]string{`"| ` + "`TestFall`" + ` |" has no ID`},
		},
		"rows of an ID apart": {
			items + table + "| F1 | `TestRise` |\n| F2 | `TestFail` |\n| F1 | `TestFall` |\n",
			[]string{"the rows of F1 are apart"},
		},
		"an ID that no item has": {
			strings.Replace(items, "Always.", "**F3** says when.", 1) + table +
				"| F1 | `TestRise` |\n| F2 | `TestFail` |\n",
			[]string{"F3 is mentioned, and no item has it"},
		},
		"no table": {items, []string{"F1 is not in the table", "F2 is not in the table"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, wrongGuarantees(c.text, tests))
		})
	}
}

// wrongGuarantees says what is wrong with a page of guarantees, where tests are all tests that exist.
func wrongGuarantees(text string, tests map[string]bool) (wrong []string) {
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	var ids []string // of the items, in their order
	inTable := map[string]bool{}
	var section, last string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		title, isTitle := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		switch {
		case isTitle && strings.HasPrefix(line, "#"):
			section = title
		case section == tableOfTests && strings.HasPrefix(line, "|"):
			row := idOfRow.FindStringSubmatch(line)
			switch {
			case line == "| ID | tests |", line == "|---|---|":
				continue
			case row == nil:
				complain("%q has no ID", line)
				continue
			case !slices.Contains(ids, row[1]):
				complain("%s is in the table, and no item has it", row[1])
			case inTable[row[1]] && last != row[1]:
				complain("the rows of %s are apart", row[1])
			}
			last, inTable[row[1]] = row[1], true
			names := testName.FindAllString(row[2], -1)
			if len(names) == 0 {
				complain("%q names no test", line)
			}
			for _, name := range names {
				if !tests[name] {
					complain("%s, of %s, does not exist", name, row[1])
				}
			}
		case (strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "|")) &&
			section != words && section != assumptions:
			item := idOfItem.FindStringSubmatch(line)
			switch {
			case item == nil:
				complain("%q has no ID", line)
			case slices.Contains(ids, item[1]):
				complain("%s is the ID of two items", item[1])
			default:
				ids = append(ids, item[1])
			}
		}
	}
	for _, id := range ids {
		if !inTable[id] {
			complain("%s is not in the table", id)
		}
	}
	for _, id := range mention.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(ids, id[1]) {
			complain("%s is mentioned, and no item has it", id[1])
		}
	}
	return wrong
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
