// Package emit writes the bindings of scripts in Go. It knows the names and types in Go, and the code of each
// call. It does not judge a script, and trusts that package check accepts each one. It returns the files, and
// does not store them.
package emit

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dave/jennifer/jen"

	"github.com/rlock-go/toolkit/generator/internal/output"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// Options say how to write the bindings of a package.
type Options struct {
	Package    string
	Client     *Client
	Comment    bool // the package has no comment yet, so scripts.go gets one
	Replicas   bool // calls of read scripts may go to replicas
	Standalone bool // the package has a copy of package redislua, and does not import it
}

// version is a constant of package luaimpl. Package luaimpl has the constant while it serves the bindings of
// this generator.
const version = "Version1"

// user refers to a name of package redislua.
func (o Options) user(name string) *jen.Statement {
	if o.Standalone {
		return jen.Id(name)
	}
	return jen.Qual(redisluaPath, name)
}

// impl refers to a name of package luaimpl.
func (o Options) impl(name string) *jen.Statement {
	if o.Standalone {
		return jen.Id(lowerFirst(name))
	}
	return jen.Qual(o.Client.impl, name)
}

// Package renders the files of one package. Each script has two files, its bindings and the text that runs.
// All scripts share one more file. The order of the scripts does not matter.
func Package(o Options, scripts []*script.Script) ([]output.File, error) {
	reserved, err := o.Reserved()
	if err != nil {
		return nil, err
	}
	var files []output.File
	add := func(name string, f *jen.File) error {
		var b bytes.Buffer
		if err := f.Render(&b); err != nil {
			return fmt.Errorf("render %s: %w", name, err)
		}
		text, err := breakLines(groupImports(b.Bytes()))
		if err != nil {
			return fmt.Errorf("break the lines of %s: %w", name, err)
		}
		files = append(files, output.File{Name: name, Text: text})
		return nil
	}
	for _, s := range scripts {
		if err := add(s.Base+".go", scriptFile(o, s, reserved)); err != nil {
			return nil, err
		}
		files = append(files, output.File{Name: s.Base, Text: []byte(s.Source), EmbeddedBy: s.Base + ".go"})
	}
	if err := add("scripts.go", gather(o, scripts, reserved)); err != nil {
		return nil, err
	}
	if !o.Standalone {
		return files, nil
	}
	runtime, err := copyRuntime(o.Client)
	if err != nil {
		return nil, err
	}
	text, err := runtime.file(o.Package)
	if err != nil {
		return nil, err
	}
	return append(files, output.File{Name: "runtime.go", Text: text}), nil
}

// groupImports moves the imports of the standard library into a group of their own, because jennifer does
// not.
func groupImports(text []byte) []byte {
	before, rest, found := bytes.Cut(text, []byte("import (\n"))
	block, after, closed := bytes.Cut(rest, []byte("\n)\n"))
	if !found || !closed {
		return text
	}
	var std, others [][]byte
	for line := range bytes.SplitSeq(block, []byte("\n")) {
		if bytes.Contains(line, []byte(".")) {
			others = append(others, line)
		} else {
			std = append(std, line)
		}
	}
	if len(std) > 0 && len(others) > 0 {
		std = append(std, nil)
	}
	block = bytes.Join(append(std, others...), []byte("\n"))
	return slices.Concat(before, []byte("import (\n"), block, []byte("\n)\n"), after)
}

// Reserved returns the names that every generated package declares or imports.
func (o Options) Reserved() ([]string, error) {
	names := []string{"Scripts", "New", "Caller"}
	if !o.Standalone {
		return append(names, "redislua", "luaimpl"), nil
	}
	runtime, err := copyRuntime(o.Client)
	if err != nil {
		return nil, err
	}
	return slices.AppendSeq(names, maps.Keys(runtime.names)), nil
}

func newFile(o Options, source string) *jen.File {
	f := jen.NewFile(o.Package)
	f.HeaderComment("// " + output.Header(source))
	f.ImportName(o.Client.pkg, o.Client.alias)
	f.ImportName(redisluaPath, "redislua")
	f.ImportName(o.Client.impl, "luaimpl")
	return f
}

// lowerFirst turns a script's name into the start of an unexported name. The caller appends a word, so the
// result is never a Go keyword.
func lowerFirst(name string) string {
	_, size := utf8.DecodeRuneInString(name)
	return strings.ToLower(name[:size]) + name[size:]
}
