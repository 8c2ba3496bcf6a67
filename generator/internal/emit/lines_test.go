package emit

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Long lines are broken, and what a long line says stays the same.
func TestBreakLines(t *testing.T) {
	word := strings.Repeat("w", 40)
	text := `package p

// A is ` + word + ` ` + word + ` of too much.
// It goes on.
//
//   - ` + word + ` ` + word + ` ` + word + `
type A struct {
	B string // short
	C string // ` + word + ` ` + word + ` ` + word + `
}

// D must stay ` + word + ` ` + word + ` +build one.
func (a *A) D(` + word + ` int, other func(int, string) []string) (first map[string][]string, err error) {
	return E("(` + word + `,", []string{")", "` + word + `"}, F(1, '(', other), G(2, other(3, "` + word + `")))
}
`
	broken, err := breakLines([]byte(text))
	require.NoError(t, err)
	require.Equal(t, `package p

// A is `+word+` `+word+` of too
// much. It goes on.
//
//   - `+word+` `+word+` `+word+`
type A struct {
	B string // short
	// `+word+` `+word+`
	// `+word+`
	C string
}

// D must stay `+word+` `+word+` +build one.
func (a *A) D(
	`+word+` int, other func(int, string) []string,
) (first map[string][]string, err error) {
	return E(
		"(`+word+`,",
		[]string{")", "`+word+`"},
		F(1, '(', other),
		G(2, other(3, "`+word+`")),
	)
}
`, string(broken))

	again, err := breakLines(broken)
	require.NoError(t, err)
	require.Equal(t, string(broken), string(again))
}
