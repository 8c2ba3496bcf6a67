package report

import (
	"bytes"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/generator/internal/finding"
)

var someRules = []finding.Rule{{Name: "reply", Demand: "the reply fits"},
	{Name: "units", Demand: "units are right"}}

// write makes a file whose second line has the text before a finding, and returns its path.
func write(t *testing.T, before string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a b.lua")
	require.NoError(t, os.WriteFile(path, []byte("-- one\n"+before+"here\n"), 0o666))
	return path
}

// A log has what SARIF 2.1.0 requires, and what readers of it rely on: each result names a rule
// of the log by its number too, and a place with a line and a column in the declared unit.
func TestSARIFShape(t *testing.T) {
	t.Parallel()
	const before = "é🔒\t"
	path := write(t, before)
	findings := []finding.Finding{
		{Path: path, Line: 1, Column: 1, Message: "no header; write one"},
		{Path: path, Line: 2, Column: 1 + len(before), Message: "a \"b\" <c>\nd", Rule: "units"},
		{Path: "gone.lua", Line: 7, Column: 9, Message: "it cannot be read", Rule: "reply"},
	}
	for n := range len(findings) + 1 {
		var b bytes.Buffer
		require.NoError(t, Findings(&b, SARIF, findings[:n], someRules))
		var log map[string]any
		require.NoError(t, json.Unmarshal(b.Bytes(), &log))
		require.Equal(t, "2.1.0", log["version"])
		require.Contains(t, log["$schema"], "sarif-schema-2.1.0.json")
		require.Len(t, log["runs"], 1)
		run := log["runs"].([]any)[0].(map[string]any)
		require.Equal(t, "utf16CodeUnits", run["columnKind"])
		driver := run["tool"].(map[string]any)["driver"].(map[string]any)
		require.NotEmpty(t, driver["name"])
		rules := driver["rules"].([]any)
		seen := map[string]bool{}
		for _, rule := range rules {
			id := rule.(map[string]any)["id"].(string)
			require.False(t, seen[id], "ids are unique: %s", id)
			seen[id] = true
			for _, name := range []string{"shortDescription", "fullDescription", "help"} {
				require.NotEmpty(t, rule.(map[string]any)[name].(map[string]any)["text"])
			}
		}
		results := run["results"].([]any) // [] and not null: null means that the tool did not look
		require.Len(t, results, n)
		require.Len(t, rules, n, "each finding here has another rule")
		for i, one := range results {
			result, f := one.(map[string]any), findings[i]
			rule := rules[int(result["ruleIndex"].(float64))].(map[string]any)
			require.Equal(t, rule["id"], result["ruleId"])
			require.Contains(t, []string{"none", "note", "warning", "error"}, result["level"])
			require.Equal(t, f.Message, result["message"].(map[string]any)["text"])
			place := result["locations"].([]any)[0].(map[string]any)["physicalLocation"].(map[string]any)
			_, err := url.Parse(place["artifactLocation"].(map[string]any)["uri"].(string))
			require.NoError(t, err)
			region := place["region"].(map[string]any)
			require.EqualValues(t, f.Line, region["startLine"])
			want := f.Column
			if i == 1 {
				want = 1 + len(utf16.Encode([]rune(before)))
			}
			require.EqualValues(t, want, region["startColumn"])
			require.EqualValues(t, f.Line, region["endLine"])
			require.EqualValues(t, want+1, region["endColumn"])
		}
	}
}

// What ends a message or a property in a workflow command does not get into one.
func TestAnnotationsAreOneLine(t *testing.T) {
	t.Setenv("GITHUB_WORKSPACE", t.TempDir())
	var b bytes.Buffer
	require.NoError(t, Findings(&b, GitHub,
		[]finding.Finding{{Path: filepath.Join(os.Getenv("GITHUB_WORKSPACE"), "a,b:c%.lua"), Line: 3, Column: 4,
			Message: "50%\r\n::error::b", Rule: "x,y"}}, nil))
	require.Equal(t, "::error file=a%2Cb%3Ac%25.lua,line=3,col=4,title=redislua%3A "+
		"x%2Cy::50%25%0D%0A::error::b\n", b.String())
	require.Equal(t, 1, strings.Count(b.String(), "\n"))
}
