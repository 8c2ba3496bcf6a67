package emit

import (
	"bytes"
	"embed"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

//go:embed runtime/*.go
var runtimeFiles embed.FS

// file returns the file of helpers that the generated files use: those that wanted
// names, and what these need in turn.
func (r *library) file(pkg string, wanted map[string]bool) ([]byte, error) {
	keep := r.closure(wanted)

	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n\npackage %s\n\nimport (\n", headerFor("its own helpers"), pkg)
	for _, path := range r.importsOf(keep) {
		fmt.Fprintln(&b, strconv.Quote(path))
	}
	fmt.Fprintf(&b, ")\n\n// packageName opens every error text.\nconst packageName = %q\n", pkg)
	for _, d := range keep {
		fmt.Fprintf(&b, "\n%s\n", d.text)
	}
	text, err := format.Source(b.Bytes())
	return groupImports(text), err
}

// library is the runtime package, cut into declarations.
type library struct {
	decls   map[string]*decl
	order   []*decl
	imports map[string]string // package name -> path
}

// decl is one declaration; a method belongs to its type.
type decl struct {
	text string
	uses map[string]bool
}

func readLibrary() (*library, error) {
	r := &library{decls: map[string]*decl{}, imports: map[string]string{}}
	names, err := fs.Glob(runtimeFiles, "runtime/*.go")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "/doc.go") {
			continue
		}
		source, err := runtimeFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, source, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return nil, err
			}
			r.imports[path[strings.LastIndex(path, "/")+1:]] = path
		}
		for _, d := range file.Decls {
			r.add(set, source, d)
		}
	}
	return r, nil
}

func (r *library) add(set *token.FileSet, source []byte, node ast.Decl) {
	var name string
	start := node.Pos()
	switch n := node.(type) {
	case *ast.FuncDecl:
		name = n.Name.Name
		if n.Recv != nil {
			name = receiver(n) + "." + name
		}
		if n.Doc != nil {
			start = n.Doc.Pos()
		}
	case *ast.GenDecl:
		switch spec := n.Specs[0].(type) {
		case *ast.TypeSpec:
			name = spec.Name.Name
		case *ast.ValueSpec:
			name = spec.Names[0].Name
		default:
			return // imports
		}
		if n.Doc != nil {
			start = n.Doc.Pos()
		}
	}
	d := &decl{
		text: string(source[set.Position(start).Offset:set.Position(node.End()).Offset]),
		uses: map[string]bool{},
	}
	ast.Inspect(node, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			d.uses[id.Name] = true
		}
		return true
	})
	r.decls[name] = d
	r.order = append(r.order, d)
}

func receiver(n *ast.FuncDecl) string {
	t := n.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	return t.(*ast.Ident).Name
}

// closure returns the declarations that the wanted names need, in the order of
// the runtime package. A method is needed when its type is and its name is used,
// or when it is the Error or Unwrap of an error type.
func (r *library) closure(wanted map[string]bool) []*decl {
	kept := map[*decl]bool{}
	used := map[string]bool{"Error": true, "Unwrap": true}
	queue := slices.Collect(func(yield func(map[string]bool) bool) { yield(wanted) })
	for len(queue) > 0 {
		for name := range queue[0] {
			used[name] = true
		}
		queue = queue[1:]
		for name, d := range r.decls {
			owner, method, isMethod := strings.Cut(name, ".")
			if needed := used[owner] && (!isMethod || used[method]); needed && !kept[d] {
				kept[d] = true
				queue = append(queue, d.uses)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(r.order), func(d *decl) bool { return !kept[d] })
}

func (r *library) importsOf(keep []*decl) []string {
	var paths []string
	for name, path := range r.imports {
		if slices.ContainsFunc(keep, func(d *decl) bool { return d.uses[name] }) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}
