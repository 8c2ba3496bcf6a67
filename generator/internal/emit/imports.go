package emit

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// locals are the variables of generated functions.
var locals = []string{
	"c", "call", "ctx", "err", "opts", "p", "params", "pkg", "r", "reply", "s", "ttl", "v", "values",
}

var notInNames = regexp.MustCompile(`[^a-z0-9]`)

// rename imports a package of the script's Go types under another name, if the generated code uses the name
// for something else.
func rename(f *jen.File, s *script.Script, reserved []string) {
	for _, p := range s.Args {
		renameOf(f, p.Type, reserved)
	}
	renameOf(f, s.Returns.Type, reserved)
}

func renameOf(f *jen.File, t script.Type, reserved []string) {
	if t.Elem != nil {
		renameOf(f, *t.Elem, reserved)
	}
	for _, field := range t.Fields {
		renameOf(f, field.Type, reserved)
	}
	dot := strings.LastIndex(t.Named, ".")
	if dot < 0 {
		return
	}
	importPath := t.Named[:dot]
	name := notInNames.ReplaceAllString(strings.ToLower(path.Base(importPath)), "")
	if slices.Contains(reserved, name) || slices.Contains(locals, name) {
		f.ImportAlias(importPath, name+"pkg")
	}
}
