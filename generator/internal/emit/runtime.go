package emit

import (
	"bytes"
	"embed"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/scanner"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/output"
)

// copies are the files of packages redislua and luaimpl.
//
//go:embed _runtime/*/*.go
var copies embed.FS

// runtime is the code that standalone bindings have in place of packages redislua and luaimpl. It is all code
// of both packages, so the file is the same in every package. The linker leaves out functions that nothing
// calls.
type runtime struct {
	names   map[string]bool // names that the package declares
	imports map[string]bool // paths
	bodies  [][]byte        // of the files, without package clauses and imports
}

// source is a file of the two packages.
type source struct {
	text []byte
	file *ast.File
	end  int // of the imports
}

// copyRuntime reads the files that all clients share, and the file of the client. It hides the exported names
// of luaimpl, so a user of standalone bindings sees the names of package redislua only.
func copyRuntime(c *Client) (*runtime, error) {
	var sources []source
	hidden := map[string]bool{} // the exported names of luaimpl
	for _, dir := range []string{"shared", c.copied} {
		entries, err := copies.ReadDir("_runtime/" + dir)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			s, err := read(path.Join("_runtime", dir, entry.Name()))
			if err != nil {
				return nil, err
			}
			sources = append(sources, s)
			for _, name := range declared(s.file) {
				if s.file.Name.Name == "luaimpl" && ast.IsExported(name) {
					hidden[name] = true
				}
			}
		}
	}
	// The code for users comes first.
	slices.SortStableFunc(sources, func(a, b source) int {
		return strings.Compare(b.file.Name.Name, a.file.Name.Name)
	})
	r := &runtime{names: map[string]bool{}, imports: map[string]bool{}}
	for _, s := range sources {
		for _, name := range declared(s.file) {
			if hidden[name] {
				name = lowerFirst(name)
			}
			r.names[name] = true
		}
		for _, spec := range s.file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return nil, err
			}
			if path != redisluaPath {
				r.imports[path] = true
			}
		}
		body := s.text[s.end:]
		if s.file.Name.Name == "luaimpl" {
			body = unexport(body, hidden)
		}
		r.bodies = append(r.bodies, bytes.TrimSpace(body))
	}
	return r, nil
}

func read(name string) (source, error) {
	text, err := copies.ReadFile(name)
	if err != nil {
		return source{}, err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments)
	if err != nil {
		return source{}, err
	}
	end := file.Name.End()
	for _, d := range file.Decls {
		if n, ok := d.(*ast.GenDecl); ok && n.Tok == token.IMPORT {
			end = n.End()
		}
	}
	return source{text, file, set.Position(end).Offset}, nil
}

// declared returns the names that a file declares.
func declared(file *ast.File) (names []string) {
	for _, d := range file.Decls {
		switch n := d.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil {
				names = append(names, n.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range n.Specs {
				switch n := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, n.Name.Name)
				case *ast.ValueSpec:
					for _, name := range n.Names {
						names = append(names, name.Name)
					}
				}
			}
		}
	}
	return names
}

// unexport returns Go code in which hidden names begin with a small letter. It drops the qualifier redislua
// from names. A name after any other dot is a field or a method, and stays.
func unexport(code []byte, hidden map[string]bool) []byte {
	var out bytes.Buffer
	var s scanner.Scanner
	set := token.NewFileSet()
	s.Init(set.AddFile("", set.Base(), len(code)), code, nil, scanner.ScanComments)
	done, last := 0, token.ILLEGAL
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			break
		}
		at := set.Position(pos).Offset
		switch {
		case tok == token.IDENT && text == "redislua":
			out.Write(code[done:at])
			done = at + len("redislua.")
		case tok == token.IDENT && hidden[text] && last != token.PERIOD,
			tok == token.COMMENT && hidden[firstWord(text)]:
			out.Write(code[done:at])
			out.WriteString(strings.Replace(text, firstWord(text), lowerFirst(firstWord(text)), 1))
			done = at + len(text)
		}
		last = tok
	}
	out.Write(code[done:])
	return out.Bytes()
}

// firstWord returns the first word of a comment, which is the name of the thing that it describes.
func firstWord(comment string) string {
	word, _, _ := strings.Cut(strings.TrimPrefix(comment, "// "), " ")
	return word
}

// file returns both packages as one file of another package.
func (r *runtime) file(pkg string) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "// %s\n\npackage %s\n\nimport (\n", output.Header("package redislua"), pkg)
	for _, path := range slices.Sorted(maps.Keys(r.imports)) {
		fmt.Fprintln(&b, strconv.Quote(path))
	}
	b.WriteString(")\n")
	for _, body := range r.bodies {
		fmt.Fprintf(&b, "\n%s\n", body)
	}
	text, err := format.Source(b.Bytes())
	return groupImports(text), err
}
