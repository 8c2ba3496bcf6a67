// Copies writes copies of the files of packages redislua and luaimpl: to the module redislua/goredis, whose
// luaimpl differs from the other in what talks to the client, and to the generator, which writes them
// into bindings that are to import nothing but the client. Go cannot embed files of another directory.
//
// Its tests fail if a file is another than its copy.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

//go:generate go run . ../..

func main() {
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "copies:", err)
		os.Exit(1)
	}
}

// group is files that are copied, as patterns, and where to: both seen from the directory redislua.
type group struct {
	files []string
	to    string
}

const (
	goredis = "goredis/luaimpl/"
	runtime = "../generator/internal/emit/_runtime/"
)

var groups = []group{
	{[]string{"luaimpl/call*.go", "luaimpl/decode*.go", "luaimpl/lua*.go", "luaimpl/version.go"}, goredis},
	{[]string{"luaimpl/fuzz_test.go"}, goredis},
	{[]string{"luaimpl/testdata/fuzz/FuzzDecode/*"}, goredis + "testdata/fuzz/FuzzDecode"},
	{[]string{"redislua.go", "errors.go", "guard.go", "slot.go"}, runtime + "shared"},
	{[]string{"luaimpl/lua.go", "luaimpl/call.go", "luaimpl/decode.go"}, runtime + "shared"},
	{[]string{"luaimpl/client.go"}, runtime + "rueidis"},
	{[]string{"goredis/luaimpl/client.go"}, runtime + "goredis"},
}

// each calls f with every file and the path of its copy.
func each(dir string, f func(file, to string) error) error {
	for _, g := range groups {
		for _, pattern := range g.files {
			paths, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
			if err != nil {
				return err
			}
			if len(paths) == 0 {
				return fmt.Errorf("%s: there is no such file", pattern)
			}
			for _, path := range paths {
				if err := f(path, filepath.Join(dir, filepath.FromSlash(g.to), filepath.Base(path))); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func write(dir string) error {
	return each(dir, func(file, to string) error {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if old, err := os.ReadFile(to); err == nil && bytes.Equal(old, text) {
			return nil
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o666)
	})
}
