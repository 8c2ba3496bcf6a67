// Package finding has the only way in which the generator refuses a script. A finding has a place, and says
// what is wrong and what to do. The package orders findings, and merges those with one cause. It has no
// rules.
package finding

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Finding is one reason not to generate code. Its message says how to mend the script.
type Finding struct {
	Path    string // as the user wrote it
	Line    int    // from 1
	Column  int    // in bytes, from 1
	Message string
	Rule    string // the rule that finds it; empty: the text is not a script with a header
	// Sort merges findings with the same cause. If Cause is empty, it merges equal messages of one file.
	Cause string
}

// Rule is a rule that findings name, with its demand on a script.
type Rule struct{ Name, Demand string }

// String formats f as path:line:col: message. Editors turn that into a link.
func (f Finding) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", f.Path, f.Line, f.Column, f.Message)
}

// Sort orders findings by place. It merges findings with one cause into the first, and adds the other places
// to its message.
func Sort(findings []Finding) []Finding {
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(a.Path, b.Path),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Message, b.Message),
		)
	})
	type cause struct{ key, path, message string }
	causeOf := func(f Finding) cause {
		if f.Cause != "" {
			return cause{key: f.Cause}
		}
		return cause{path: f.Path, message: f.Message}
	}
	var order []cause
	groups := map[cause][]Finding{}
	for _, f := range findings {
		c := causeOf(f)
		if groups[c] == nil {
			order = append(order, c)
		}
		groups[c] = append(groups[c], f)
	}
	var merged []Finding
	for _, c := range order {
		first := groups[c][0]
		first.Message += elsewhere(first, groups[c][1:])
		merged = append(merged, first)
	}
	return merged
}

// shown is how many other places a finding names. It only counts the rest.
const shown = 5

// elsewhere names the other places of a cause.
func elsewhere(first Finding, others []Finding) string {
	var lines, files []string
	for _, f := range others {
		switch line := strconv.Itoa(f.Line); {
		case f.Path != first.Path:
			if !slices.Contains(files, f.Path) {
				files = append(files, f.Path)
			}
		case f.Line != first.Line && !slices.Contains(lines, line):
			lines = append(lines, line)
		}
	}
	return also("line", lines) + also("file", files)
}

func also(what string, places []string) string {
	if len(places) == 0 {
		return ""
	}
	more := ""
	if n := len(places) - shown; n > 0 {
		places, more = places[:shown], fmt.Sprintf(" and %d more", n)
	}
	if len(places) > 1 {
		what += "s"
	}
	return "; the same in " + what + " " + strings.Join(places, ", ") + more
}
