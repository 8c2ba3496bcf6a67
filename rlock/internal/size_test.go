package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	maxInterface = 6  // methods of an interface in a room
	maxType      = 25 // methods of a type in a room
)

// sizes counts what a package declares outside its tests.
type sizes struct {
	interfaces map[string]int // methods by name, or by position if it has none
	methods    map[string]int // of each type, those of embedded types of the package included
	lines      int
	documented int // of the lines, those that go doc shows: what is exported, without bodies, with its docs
	exported   int // names and methods that go doc shows
}

// measure counts the declarations of files by name and text.
func measure(files map[string]string) (sizes, error) {
	s := sizes{interfaces: map[string]int{}, methods: map[string]int{}}
	set := token.NewFileSet()
	named := map[string]*ast.InterfaceType{}
	embeds := map[string][]string{}
	var all []*ast.InterfaceType
	names := map[*ast.InterfaceType]string{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		s.lines += strings.Count(files[name], "\n")
		file, err := parser.ParseFile(set, name, files[name], parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return s, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				switch t := n.Type.(type) {
				case *ast.InterfaceType:
					named[n.Name.Name], names[t] = t, n.Name.Name
				case *ast.StructType:
					embeds[n.Name.Name] = embedded(t)
				}
			case *ast.InterfaceType:
				all = append(all, n)
			case *ast.FuncDecl:
				if n.Recv != nil {
					s.methods[receiver(n.Recv.List[0].Type)]++
				}
			}
			return true
		})
		s.exported += exported(file)
		s.documented += documented(set, file)
	}
	for _, i := range all {
		name := names[i]
		if name == "" {
			name = set.Position(i.Pos()).String()
		}
		n, err := interfaceMethods(i, named)
		if err != nil {
			return s, fmt.Errorf("%s: %w", name, err)
		}
		s.interfaces[name] = n
	}
	own := maps.Clone(s.methods)
	for name := range embeds {
		s.methods[name] = promoted(name, own, embeds)
	}
	return s, nil
}

// receiver returns the name of the type of a method.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// embedded returns the types of the package that a struct embeds.
func embedded(t *ast.StructType) (names []string) {
	for _, field := range t.Fields.List {
		if name := receiver(field.Type); len(field.Names) == 0 && name != "" {
			names = append(names, name)
		}
	}
	return names
}

func promoted(name string, own map[string]int, embeds map[string][]string) int {
	n := own[name]
	for _, e := range embeds[name] {
		n += promoted(e, own, embeds)
	}
	return n
}

// interfaceMethods counts methods with those of embedded interfaces of the package. What
// another package's interface has cannot be counted here, and is refused.
func interfaceMethods(i *ast.InterfaceType, named map[string]*ast.InterfaceType) (n int, err error) {
	for _, m := range i.Methods.List {
		switch t := m.Type.(type) {
		case *ast.FuncType:
			n += len(m.Names)
		case *ast.Ident:
			if other, ok := named[t.Name]; ok {
				more, err := interfaceMethods(other, named)
				if err != nil {
					return 0, err
				}
				n += more
			}
		case *ast.SelectorExpr:
			return 0, fmt.Errorf("it embeds %s.%s; write its methods out", t.X, t.Sel.Name)
		}
	}
	return n, nil
}

// exported counts what go doc shows by name.
func exported(file *ast.File) (n int) {
	count := func(names ...*ast.Ident) {
		for _, name := range names {
			if name.IsExported() {
				n++
			}
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type)) {
				count(d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					count(spec.Name)
				case *ast.ValueSpec:
					count(spec.Names...)
				}
			}
		}
	}
	return n
}

// documented counts the lines that go doc shows.
func documented(set *token.FileSet, file *ast.File) int {
	lines := map[int]bool{}
	add := func(from, to token.Pos) {
		for at := set.Position(from).Line; at <= set.Position(to).Line; at++ {
			lines[at] = true
		}
	}
	addDoc := func(doc *ast.CommentGroup) {
		if doc != nil {
			add(doc.Pos(), doc.End())
		}
	}
	anyExported := func(names []*ast.Ident) bool {
		return slices.ContainsFunc(names, (*ast.Ident).IsExported)
	}
	addFields := func(t *ast.StructType) {
		for _, field := range t.Fields.List {
			if anyExported(field.Names) {
				addDoc(field.Doc)
				add(field.Pos(), field.End())
			}
		}
	}
	addType := func(spec *ast.TypeSpec) bool {
		if !spec.Name.IsExported() {
			return false
		}
		addDoc(spec.Doc)
		if t, is := spec.Type.(*ast.StructType); is {
			add(spec.Pos(), spec.Pos())
			addFields(t)
			add(spec.End(), spec.End())
		} else {
			add(spec.Pos(), spec.End())
		}
		return true
	}
	addDoc(file.Doc)
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d.Recv.List[0].Type))) {
				addDoc(d.Doc)
				add(d.Pos(), d.Type.End())
			}
		case *ast.GenDecl:
			shown := false
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					shown = addType(spec) || shown
				case *ast.ValueSpec:
					if anyExported(spec.Names) {
						shown = true
						addDoc(spec.Doc)
						add(spec.Pos(), spec.End())
					}
				}
			}
			if shown {
				addDoc(d.Doc)
				add(d.Pos(), d.Pos())
				add(d.End(), d.End())
			}
		}
	}
	return len(lines)
}

// tooLarge returns which interfaces and types of a room are.
func tooLarge(s sizes) (large []string) {
	for _, name := range slices.Sorted(maps.Keys(s.interfaces)) {
		if n := s.interfaces[name]; n > maxInterface {
			large = append(large, fmt.Sprintf("interface %s has %d methods; at most %d", name, n, maxInterface))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.methods)) {
		if n := s.methods[name]; n > maxType {
			large = append(large, fmt.Sprintf("type %s has %d methods; at most %d", name, n, maxType))
		}
	}
	return large
}

// read returns the files of a package.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, paths, dir)
	files := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		files[path] = string(text)
	}
	return files
}

// No room becomes what Lock once was: an object that all others hang on.
func TestRoomsAreSmall(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	measured := 0
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		measured++
		s, err := measure(read(t, entry.Name()))
		require.NoError(t, err, entry.Name())
		require.Empty(t, tooLarge(s), entry.Name())
		t.Logf("%-10s %5d lines, %3d exported names", entry.Name(), s.lines, s.exported)
	}
	require.Greater(t, measured, 1)
}

// What rlock itself may be: a little more than it is. Whoever makes it thinner lowers these.
//
// TestRlockGrowsNoMore logs how many of the lines are the API with its docs: some 980. The other
// 4,200 are the bodies of options, methods of the Locker, errors and texts (1,340); what observers and
// Stats are told (320); an acquisition, which is one loop over the rooms attempt and front (520); the
// state of a lock with what extends, watches and releases it (1,050); the same for many locks and
// between processes (330); and shares (580). Imports and blank lines are in all of them. Each works on
// a Lock or a Locker, and stays for that reason. Logic that needs neither belongs into a room.
const (
	maxLines         = 5315
	maxLockMethods   = 40
	maxLockerMethods = 49
)

func TestRlockGrowsNoMore(t *testing.T) {
	t.Parallel()
	s, err := measure(read(t, ".."))
	require.NoError(t, err)
	require.NotZero(t, s.methods["Lock"])
	require.NotZero(t, s.methods["Locker"])
	require.LessOrEqual(t, s.lines, maxLines, "lines of rlock: put what is new into a room")
	require.LessOrEqual(t, s.methods["Lock"], maxLockMethods, "methods of Lock: put what is new into a room")
	require.LessOrEqual(t, s.methods["Locker"], maxLockerMethods, "methods of Locker: put what is new into a room")
	t.Logf("rlock: %d lines, %d of them the API with its docs, %d exported names; methods: Lock %d, Locker %d",
		s.lines, s.documented, s.exported, s.methods["Lock"], s.methods["Locker"])
}

// The counts are right, and the check finds what is too large.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	methods := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format+"\n", i)
		}
		return b.String()
	}
	for name, c := range map[string]struct {
		text  string
		large []string
	}{
		"as large as may be": {
			"type i interface {\n" + methods("M%d()", 6) + "}\ntype T struct{}\n" + methods("func (t *T) M%d() {}", 25), nil},
		"an interface": {
			"type i interface {\n" + methods("M%d()", 7) + "}", []string{"interface i has 7 methods; at most 6"}},
		"one name after the other": {
			"type i interface { a(); b(); c(); d(); e(); f(); g() }", []string{"interface i has 7 methods; at most 6"}},
		"by embedding": {
			"type i interface { j; k; A() }\ntype j interface {\n" + methods("M%d()", 3) + "}\ntype k interface {\n" + methods("N%d()", 3) + "}",
			[]string{"interface i has 7 methods; at most 6"}},
		"of a parameter": {
			"func f(i interface {\n" + methods("M%d()", 7) + "}) {}", []string{"interface a.go:2:10 has 7 methods; at most 6"}},
		"a type": {
			"type T struct{}\n" + methods("func (t T) M%d() {}", 20) + methods("func (t *T) N%d() {}", 6), []string{"type T has 26 methods; at most 25"}},
		"a type with parameters": {
			"type T[A, B any] struct{}\n" + methods("func (t *T[A, B]) M%d() {}", 26), []string{"type T has 26 methods; at most 25"}},
		"a type in two halves": {
			"type T struct { *u; x int }\ntype u struct { v[int] }\ntype v[A any] struct{}\n" + methods("func (t *T) M%d() {}", 10) + methods("func (u *u) N%d() {}", 10) + methods("func (v v[A]) O%d() {}", 6),
			[]string{"type T has 26 methods; at most 25"}},
		"of a constraint": {
			"type i interface { ~int | ~string; comparable }", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := measure(map[string]string{"a.go": "package p\n" + c.text, "a_test.go": "not measured"})
			require.NoError(t, err)
			require.Equal(t, c.large, tooLarge(s))
		})
	}
	_, err := measure(map[string]string{"a.go": "package p\ntype i interface { io.Reader }"})
	require.ErrorContains(t, err, "i: it embeds io.Reader")

	s, err := measure(map[string]string{"a.go": "package p\nvar A, b int\nconst C = 1\ntype D struct{}\nfunc (d D) E() {}\nfunc (d D) f() {}\nfunc g() {}\nfunc H() {}\n"})
	require.NoError(t, err)
	require.Equal(t, 5, s.exported)
	require.Equal(t, 8, s.lines)

	s, err = measure(map[string]string{"a.go": `// Package p is documented.
// In two lines.
package p

import "fmt" // 1

// A is shown, without its body.
func A(
	s string,
) {
	fmt.Println(s) // 2
}

// b is not. 3
func b() {} // 4

// C is, with one of its fields.
type C struct {
	D int
	e int // 5
}

func (c C) f() {} // 6

// The constants are shown.
const (
	G = 1
	h = 2 // 7
)
`})
	require.NoError(t, err)
	require.Equal(t, 14, s.documented)
}
