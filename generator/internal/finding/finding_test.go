package finding

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOneFindingForACause(t *testing.T) {
	t.Parallel()
	var findings []Finding
	add := func(path string, line, column int, message, cause string) {
		findings = append(findings, Finding{Path: path, Line: line, Column: column, Message: message, Cause: cause})
	}
	for line := range 90 {
		add("b.lua", 100-line, 3, "often", "")
	}
	add("a.lua", 2, 1, "once", "")
	add("a.lua", 2, 1, "once", "")
	add("a.lua", 2, 9, "once", "")
	add("a.lua", 4, 1, "once", "")
	add("b.lua", 4, 1, "once", "")
	add("c.lua", 7, 1, "fragment", "x.lua")
	add("d.lua", 8, 1, "the fragment", "x.lua")
	add("d.lua", 9, 1, "the fragment", "x.lua")
	var lines []string
	for _, f := range Sort(findings) {
		lines = append(lines, f.String())
	}
	require.Equal(t, []string{
		"a.lua:2:1: once; the same in line 4",
		"b.lua:4:1: once",
		"b.lua:11:3: often; the same in lines 12, 13, 14, 15, 16 and 84 more",
		"c.lua:7:1: fragment; the same in file d.lua",
	}, lines)
}
