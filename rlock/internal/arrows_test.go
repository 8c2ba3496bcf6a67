package internal_test

import (
	"bytes"
	"fmt"
	"maps"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module   = "github.com/rlock-go/toolkit"
	gen      = module + "/gen"
	toolkit  = module + "/rlock"
	internal = toolkit + "/internal"
	rueidis  = "github.com/redis/rueidis"
)

// arrows says of every room what it may import besides the standard library: other rooms
// by their names, gen, and packages of others. Each is above all that it imports.
var arrows = map[string][]string{
	"clock":     nil,
	"slot":      {gen},
	"remote":    {"clock", "slot", gen, rueidis},
	"lease":     {"clock"},
	"queue":     {"clock"},
	"renew":     {"clock", "remote"},
	"notify":    {"clock", "remote", rueidis},
	"reaper":    {"clock", "remote"},
	"conntrack": {rueidis},
	"probe":     {"clock", "slot", "remote", "notify", rueidis},
	"wide":      nil, // of rlocktest
}

// pkg is what a package imports.
type pkg struct{ imports, testImports []string }

// wrongArrows returns what the arrows forbid of the packages, in the order of their names.
// Since gen imports nothing of the module, and a room nothing but rooms and gen, a room
// cannot reach rlock through others either.
func wrongArrows(arrows map[string][]string, packages map[string]pkg) (wrong []string) {
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		p := packages[name]
		room, isRoom := strings.CutPrefix(name, internal+"/")
		if !isRoom && name != gen {
			continue
		}
		allowed, known := arrows[room]
		if name == gen {
			allowed, known = []string{rueidis}, true
		}
		if !known {
			wrong = append(wrong, fmt.Sprintf("%s: no room of this name is planned: add a row to arrows, with what it may import", room))
		}
		for _, imported := range p.imports {
			as := strings.TrimPrefix(imported, internal+"/")
			if !isStandard(imported) && !slices.Contains(allowed, as) {
				wrong = append(wrong, fmt.Sprintf("%s must not import %s", path.Base(name), as))
			}
		}
		if isRoom && slices.Contains(p.testImports, toolkit) {
			wrong = append(wrong, fmt.Sprintf("the tests of %s must not import rlock", room))
		}
	}
	return wrong
}

// isStandard tells packages of the standard library by their first element, which has no
// dot.
func isStandard(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return !strings.Contains(first, ".")
}

// list returns rlock, the rooms, and all that they import.
func list(t *testing.T) map[string]pkg {
	t.Helper()
	const format = `{{.ImportPath}};{{join .Imports " "}};{{join .TestImports " "}} {{join .XTestImports " "}}`
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", format, toolkit, internal+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	packages := map[string]pkg{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), ";")
		require.Len(t, fields, 3)
		packages[fields[0]] = pkg{strings.Fields(fields[1]), strings.Fields(fields[2])}
	}
	return packages
}

// rlock stands on the rooms, those on remote, and that on gen. Nothing points upwards.
func TestArrows(t *testing.T) {
	t.Parallel()
	packages := list(t)
	for _, name := range []string{toolkit, gen, internal + "/clock", internal + "/slot", rueidis} {
		require.Contains(t, packages, name)
	}
	require.Empty(t, wrongArrows(arrows, packages))
}

// The check finds what it looks for.
func TestWrongArrows(t *testing.T) {
	t.Parallel()
	type packages = map[string]pkg
	imports := func(names ...string) pkg { return pkg{imports: names} }
	rooms := map[string][]string{"low": nil, "middle": {"low", gen}, "high": {"middle", rueidis}}
	for name, c := range map[string]struct {
		packages packages
		wrong    []string
	}{
		"as it should be": {packages{
			toolkit:              imports(internal+"/high", internal+"/low", gen, rueidis, "context"),
			internal + "/high":   imports(internal+"/middle", rueidis, "crypto/tls"),
			internal + "/middle": {[]string{internal + "/low", gen}, []string{"testing", rueidis}},
			internal + "/low":    imports("time"),
			gen:                  imports(rueidis),
			rueidis:              imports("golang.org/x/sys/cpu"),
		}, nil},
		"upwards":         {packages{internal + "/low": imports("time", internal+"/middle")}, []string{"low must not import middle"}},
		"past a floor":    {packages{internal + "/high": imports(internal + "/low")}, []string{"high must not import low"}},
		"rlock":           {packages{internal + "/high": imports(toolkit)}, []string{"high must not import " + toolkit}},
		"rlock by detour": {packages{internal + "/high": imports(module + "/helper"), module + "/helper": imports(toolkit)}, []string{"high must not import " + module + "/helper"}},
		"gen":             {packages{internal + "/low": imports(gen)}, []string{"low must not import " + gen}},
		"a client":        {packages{internal + "/middle": imports(rueidis)}, []string{"middle must not import " + rueidis}},
		"out of gen":      {packages{gen: imports(internal + "/low")}, []string{"gen must not import low"}},
		"tests":           {packages{internal + "/low": {nil, []string{toolkit}}}, []string{"the tests of low must not import rlock"}},
		"unplanned":       {packages{internal + "/new": imports("time")}, []string{"new: no room of this name is planned: add a row to arrows, with what it may import"}},
		"all of them": {packages{internal + "/low": imports(gen, toolkit), internal + "/middle": imports(toolkit)},
			[]string{"low must not import " + gen, "low must not import " + toolkit, "middle must not import " + toolkit}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.wrong, wrongArrows(rooms, c.packages))
		})
	}
}

// The arrows themselves have no circle: the rooms can be built one after the other.
func TestArrowsHaveNoCircle(t *testing.T) {
	t.Parallel()
	built := map[string]bool{gen: true, rueidis: true}
	for len(built) < len(arrows)+2 {
		before := len(built)
		for room, imports := range arrows {
			if !slices.ContainsFunc(imports, func(name string) bool { return !built[name] }) {
				built[room] = true
			}
		}
		require.Greater(t, len(built), before, "what is left imports itself: built are %v", built)
	}
}
