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
	"argArray", "args", "c", "ctx", "err", "failed", "fields", "keyArray", "keys", "o", "opts", "p", "params", "r", "reply", "s", "script", "text", "ttl", "v", "value", "values",
}

var notInNames = regexp.MustCompile(`[^a-z0-9]`)

// rename imports packages of Go types that the script names under another name, if their own
// name means something else in the generated code.
func rename(f *jen.File, s *script.Script, helpers *library) {
	for _, p := range s.Args {
		renameOf(f, p.Type, helpers)
	}
	renameOf(f, s.Returns.Type, helpers)
}

func renameOf(f *jen.File, t script.Type, helpers *library) {
	if t.Elem != nil {
		renameOf(f, *t.Elem, helpers)
	}
	for _, field := range t.Fields {
		renameOf(f, field.Type, helpers)
	}
	dot := strings.LastIndex(t.Named, ".")
	if dot < 0 {
		return
	}
	importPath := t.Named[:dot]
	name := notInNames.ReplaceAllString(strings.ToLower(path.Base(importPath)), "")
	if _, taken := helpers.names[name]; taken || slices.Contains(locals, name) {
		f.ImportAlias(importPath, name+"pkg")
	}
}
