// Package finding holds what the generator has to say about a script: one
// complaint with the place it is about.
package finding

import (
	"cmp"
	"fmt"
	"slices"
)

// Finding is one reason not to generate code, with its mend in the message.
type Finding struct {
	Path    string // as the user named it
	Line    int    // from 1
	Column  int    // in bytes, from 1
	Message string
}

// String formats f as path:line:col: message, which editors turn into a link.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", f.Path, f.Line, f.Column, f.Message)
}

// Sort orders findings by place and drops repetitions.
func Sort(findings []Finding) []Finding {
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Message, b.Message),
		)
	})
	return slices.Compact(findings)
}
