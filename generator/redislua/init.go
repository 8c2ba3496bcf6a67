package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rlock-go/toolkit/generator/internal/draft"
	"github.com/rlock-go/toolkit/generator/internal/file"
)

// initialize writes a first header into the script that -init names. It prints what the user has
// to decide as findings. If the file is no Lua, it writes nothing.
func initialize(o options, stdout, stderr io.Writer) error {
	text, err := file.Read(o.init)
	if err != nil {
		return err
	}
	s := &scriptSet{}
	var with []byte
	if with, s.findings, err = draft.Of(filepath.ToSlash(o.init), text); err != nil {
		return err
	}
	if with == nil {
		return s.report(o, stdout, stderr)
	}
	if err := replace(o.init, with); err != nil {
		return err
	}
	if o.forPeople() {
		what := "the generator accepts it"
		if len(s.findings) > 0 {
			what = "what is left to decide follows"
		}
		fmt.Fprintf(stdout, "%s: the header is written, and %s; read its types, name its entries, and say what "+
			"they are\n", o.init, what)
	}
	return s.report(o, stdout, stderr)
}

// replace writes a file in one step, so that no failure leaves half of a script.
func replace(path string, text []byte) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".redislua-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // it is gone if the rename succeeds
	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(info.Mode().Perm())
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
