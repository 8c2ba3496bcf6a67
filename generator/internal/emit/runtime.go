package emit

import (
	"bytes"
	"embed"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"

	"github.com/rlock-go/toolkit/generator/internal/output"
)

//go:embed runtime/*.go
var runtimeFiles embed.FS

// library is the runtime package. Every generated package has the whole of it, so a reader
// finds the same file everywhere. The linker leaves out what is not called.
type library struct {
	names   map[string]bool // declared in the package
	imports map[string]bool // paths
	bodies  [][]byte        // of the files, without package clauses and imports
}

// readLibrary reads the files that all clients share, and the client's own.
func readLibrary(c *Client) (*library, error) {
	l := &library{names: map[string]bool{}, imports: map[string]bool{}}
	for _, name := range []string{"runtime", c.runtime, "guard", "slot", "encode", "decode"} {
		if err := l.add("runtime/" + name + ".go"); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (l *library) add(name string) error {
	source, err := runtimeFiles.ReadFile(name)
	if err != nil {
		return err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.ParseComments)
	if err != nil {
		return err
	}
	end := file.Name.End()
	for _, d := range file.Decls {
		switch n := d.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil {
				l.names[n.Name.Name] = true
			}
		case *ast.GenDecl:
			if n.Tok == token.IMPORT {
				end = n.End()
			}
			for _, spec := range n.Specs {
				if err := l.declare(spec); err != nil {
					return err
				}
			}
		}
	}
	l.bodies = append(l.bodies, bytes.TrimSpace(source[set.Position(end).Offset:]))
	return nil
}

func (l *library) declare(spec ast.Spec) error {
	switch n := spec.(type) {
	case *ast.ImportSpec:
		path, err := strconv.Unquote(n.Path.Value)
		l.imports[path] = true
		return err
	case *ast.TypeSpec:
		l.names[n.Name.Name] = true
	case *ast.ValueSpec:
		for _, name := range n.Names {
			l.names[name.Name] = true
		}
	}
	return nil
}

// file returns the package as one file of another package.
func (l *library) file(pkg string) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "// %s\n\npackage %s\n\nimport (\n", output.Header("its own helpers"), pkg)
	for _, path := range slices.Sorted(maps.Keys(l.imports)) {
		fmt.Fprintln(&b, strconv.Quote(path))
	}
	fmt.Fprintf(&b, ")\n\n// packageName opens every error text.\nconst packageName = %q\n", pkg)
	for _, body := range l.bodies {
		fmt.Fprintf(&b, "\n%s\n", body)
	}
	text, err := format.Source(b.Bytes())
	return groupImports(text), err
}
