package internal_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module   = "github.com/rlock-go/toolkit/"
	toolkit  = module + "rlock"
	internal = toolkit + "/internal/"
)

// pkg is what a package imports.
type pkg struct{ imports, testImports []string }

// short returns how docs/ARCHITECTURE.md names a package: a room by its own name, gen, and what
// another module has by the name of its repository. It is empty for the standard library.
func short(path string) string {
	if room, is := strings.CutPrefix(path, internal); is {
		return room
	}
	if own, is := strings.CutPrefix(path, module); is {
		return own
	}
	elements := strings.Split(path, "/")
	if !strings.Contains(elements[0], ".") {
		return ""
	}
	return elements[2]
}

// wrongArrows returns how the packages differ from what is planned: what each room imports,
// and the rooms from the lowest to the highest. Since gen imports nothing of the module but redislua, and
// a room nothing but lower rooms and gen, a room cannot reach rlock through others either.
func wrongArrows(planned map[string][]string, order []string, packages map[string]pkg) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for at, room := range order {
		for _, imported := range planned[room] {
			if slices.Contains(order[at:], imported) {
				say("%s is planned to import %s, which is not above it in the table", room, imported)
			}
		}
		if _, exists := packages[internal+room]; !exists {
			say("there is no room %s", room)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(packages)) {
		room, isRoom := strings.CutPrefix(path, internal)
		if !isRoom && path != module+"gen" {
			continue
		}
		allowed, known := planned[room]
		if !isRoom {
			room, allowed, known = "gen", []string{"redislua", "redislua/luaimpl", "rueidis"}, true
		}
		if !known {
			say("the room %s is not in the table", room)
			continue
		}
		imports := map[string]bool{}
		for _, imported := range packages[path].imports {
			imports[short(imported)] = true
		}
		delete(imports, "")
		for _, imported := range slices.Sorted(maps.Keys(imports)) {
			if !slices.Contains(allowed, imported) {
				say("%s must not import %s", room, imported)
			}
		}
		for _, imported := range allowed {
			if !imports[imported] {
				say("%s does not import %s any more", room, imported)
			}
		}
		if slices.Contains(packages[path].testImports, toolkit) {
			say("the tests of %s must not import rlock", room)
		}
	}
	return wrong
}

// list returns rlock, the rooms, and all that they import. A package that has nothing but tests
// is no room: nobody can import it.
func list(t *testing.T) map[string]pkg {
	t.Helper()
	const format = `{{if .GoFiles}}{{.ImportPath}};{{join .Imports " "}};{{join .TestImports " "}} {{join .XTestImports " "}}{{end}}`
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", format, toolkit, internal+"...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	packages := map[string]pkg{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), ";")
		if line == "\n" {
			continue
		}
		require.Len(t, fields, 3)
		packages[fields[0]] = pkg{strings.Fields(fields[1]), strings.Fields(fields[2])}
	}
	return packages
}

// rlock stands on the rooms, those on wire, and that on gen. Nothing points upwards, and
// the table in docs/ARCHITECTURE.md says the same.
func TestArrows(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	planned, order := table(t, string(text))
	packages := list(t)
	for _, path := range []string{toolkit, module + "gen", internal + "clock", internal + "slot"} {
		require.Contains(t, packages, path)
	}
	require.Empty(t, wrongArrows(planned, order, packages), "compare docs/ARCHITECTURE.md, the rooms")
}

// The check finds what it looks for.
func TestWrongArrows(t *testing.T) {
	t.Parallel()
	const low, middle, high, gen, rueidis = internal + "low", internal + "middle", internal + "high",
		module + "gen", "github.com/redis/rueidis"
	type packages = map[string]pkg
	imports := func(names ...string) pkg { return pkg{imports: names} }
	planned := map[string][]string{"low": {}, "middle": {"low", "gen"}, "high": {"middle", "rueidis"}}
	for name, c := range map[string]struct {
		changed packages
		wrong   []string
	}{
		"as it should be": {},
		"upwards":         {packages{low: imports("time", middle)}, []string{"low must not import middle"}},
		"past a floor":    {packages{high: imports(low, middle, rueidis)}, []string{"high must not import low"}},
		"rlock": {packages{high: imports(middle, rueidis, toolkit)},
			[]string{"high must not import rlock"}},
		"rlock by detour": {packages{high: imports(middle, rueidis, module+"helper")},
			[]string{"high must not import helper"}},
		"gen": {packages{low: imports(gen)}, []string{"low must not import gen"}},
		"a client": {packages{middle: imports(low, gen, rueidis+"/internal/cmds")},
			[]string{"middle must not import rueidis"}},
		"out of gen": {packages{gen: imports(rueidis, module+"redislua", module+"redislua/luaimpl", low)},
			[]string{"gen must not import low"}},
		"tests": {packages{low: {nil, []string{"testing", toolkit}}},
			[]string{"the tests of low must not import rlock"}},
		"not in the table": {packages{internal + "new": imports("time")},
			[]string{"the room new is not in the table"}},
		"no more": {packages{high: imports(middle)}, []string{"high does not import rueidis any more"}},
		"several": {packages{low: imports(gen, toolkit), middle: imports(gen, low, toolkit)},
			[]string{"low must not import gen", "low must not import rlock", "middle must not import rlock"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := packages{
				toolkit: imports(high, low, gen, rueidis, "context"),
				high:    imports(middle, rueidis, "crypto/tls"),
				middle:  {[]string{low, gen}, []string{"testing", rueidis}},
				low:     imports("time"),
				gen:     imports(rueidis, module+"redislua", module+"redislua/luaimpl"),
				rueidis: imports("golang.org/x/sys/cpu"),
			}
			maps.Copy(all, c.changed)
			require.Equal(t, c.wrong, wrongArrows(planned, []string{"low", "middle", "high"}, all))
		})
	}
	require.Equal(t, []string{"low is planned to import high, which is not above it in the table",
		"there is no room low", "there is no room high"},
		wrongArrows(map[string][]string{"low": {"high"}, "high": nil}, []string{"low", "high"}, nil))
}
