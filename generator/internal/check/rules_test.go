package check

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Rules has every rule of this package once.
func TestRulesAreAll(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "rules.go", nil, 0)
	require.NoError(t, err)
	var declared, listed []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(strings.ToLower(spec.Names[0].Name), "rule") {
			return true
		}
		if text, ok := spec.Values[0].(*ast.BasicLit); ok { // otherwise it is Rules
			name, err := strconv.Unquote(text.Value)
			require.NoError(t, err)
			declared = append(declared, name)
		}
		return true
	})
	for _, r := range Rules {
		require.NotEmpty(t, r.Demand)
		listed = append(listed, r.Name)
	}
	require.NotEmpty(t, declared)
	require.Equal(t, declared, listed)
}
