package rlock_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every Go snippet of the README stands in an example, line by line, and so
// compiles and runs.
func TestReadmeSnippetsAreExamples(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	examples, err := os.ReadFile(filepath.Join(root, "rlock", "example_test.go"))
	require.NoError(t, err)
	code := unindented(string(examples))

	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	require.NotEmpty(t, snippets)
	for _, snippet := range snippets {
		require.Contains(t, code, unindented(snippet[1]))
	}
}

func unindented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}
