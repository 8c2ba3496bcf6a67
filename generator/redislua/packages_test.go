package main

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module   = "github.com/rlock-go/toolkit/"
	internal = module + "generator/internal/"
)

// shortName returns how docs/GENERATOR.md names an import: a package of the generator by its
// path below internal, and another module by its repository; "" for the standard library.
func shortName(t *testing.T, importPath string) string {
	t.Helper()
	if name, own := strings.CutPrefix(importPath, internal); own {
		return name
	}
	require.False(t, strings.HasPrefix(importPath, module),
		"the generator imports %s, and must know nothing of the other packages", importPath)
	elements := strings.Split(importPath, "/")
	if !strings.Contains(elements[0], ".") {
		return ""
	}
	return elements[2]
}

// shortNames returns the names of imports, each once and sorted.
func shortNames(t *testing.T, imports []string) []string {
	t.Helper()
	var names []string
	for _, path := range imports {
		if name := shortName(t, path); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// The table in docs/GENERATOR.md names every package of the generator with all that it
// imports, and each of them imports only packages above it, in its tests too.
func TestPackagesImportDownwards(t *testing.T) {
	t.Parallel()
	type listed struct {
		ImportPath                         string
		Imports, TestImports, XTestImports []string
	}
	text, err := exec.CommandContext(t.Context(), "go", "list",
		"-json=ImportPath,Imports,TestImports,XTestImports", "../...").Output()
	require.NoError(t, err)
	packages := map[string]listed{}
	for decoder := json.NewDecoder(strings.NewReader(string(text))); ; {
		var p listed
		if err := decoder.Decode(&p); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
		name := "redislua"
		if p.ImportPath != module+"generator/redislua" {
			name = shortName(t, p.ImportPath)
		}
		packages[name] = p
	}

	page, err := os.ReadFile("../../docs/GENERATOR.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(page), "| package |")
	require.True(t, found)
	quoted := regexp.MustCompile("`([^`]+)`")
	var above []string
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.HasPrefix(line, "| `") {
			if len(above) > 0 {
				break
			}
			continue
		}
		name := quoted.FindStringSubmatch(cells[1])[1]
		var imports []string
		for _, m := range quoted.FindAllStringSubmatch(cells[3], -1) {
			imports = append(imports, m[1])
		}
		slices.Sort(imports)
		p, exists := packages[name]
		require.True(t, exists, "GENERATOR.md has the package %s, which does not exist", name)
		delete(packages, name)
		require.Equal(t, imports, shortNames(t, p.Imports),
			"GENERATOR.md says something else about the imports of %s", name)
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if other, own := strings.CutPrefix(path, internal); own && other != name {
				require.Contains(t, above, other, "%s imports %s, which is not above it", name, other)
			}
		}
		above = append(above, name)
	}
	require.Empty(t, packages, "packages that GENERATOR.md does not have")
}
