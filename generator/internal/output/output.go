// Package output holds generated files against a directory, and writes them.
package output

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/rlock-go/toolkit/generator/internal/emit"
)

// Change is one file of a directory that is not what it should be.
type Change struct {
	Path     string
	Old, New []byte // nil: the file does not exist, or must go
}

// Changes compares dir with the files that should be there. Generated files that
// no script stands behind any more are changes too. A file in the way that was
// not generated is an error, as it must never be overwritten.
func Changes(dir string, files []emit.File) ([]Change, error) {
	var changes []Change
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		old, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if old != nil && !generated(old) {
			return nil, fmt.Errorf("%s was not written by the generator and would be overwritten; rename it or the script", path)
		}
		if !bytes.Equal(old, f.Text) {
			changes = append(changes, Change{Path: path, Old: old, New: f.Text})
		}
	}
	orphans, err := orphans(dir, files)
	return append(changes, orphans...), err
}

func orphans(dir string, files []emit.File) ([]Change, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var changes []Change
	for _, path := range paths {
		if slices.ContainsFunc(files, func(f emit.File) bool { return f.Name == filepath.Base(path) }) {
			continue
		}
		old, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if generated(old) {
			changes = append(changes, Change{Path: path, Old: old})
		}
	}
	return changes, nil
}

// generated reports whether the generator wrote the text.
func generated(text []byte) bool {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	header := strings.TrimSuffix(strings.TrimPrefix(string(line), "<!-- "), " -->")
	return strings.HasPrefix("// "+strings.TrimPrefix(header, "// "), emit.HeaderStart) && strings.HasSuffix(header, emit.HeaderEnd)
}

// Reason says why a file changes.
func (c Change) Reason() string {
	switch {
	case c.New == nil:
		return "removed, as its script is gone"
	case c.Old == nil:
		return "new"
	}
	return "changed"
}

// Diff returns c as a unified diff.
func (c Change) Diff() []byte {
	before, after := c.Path, c.Path
	if c.Old == nil {
		before = os.DevNull
	}
	if c.New == nil {
		after = os.DevNull
	}
	return diff.Diff(before, c.Old, after, c.New)
}

// Apply makes the change. A file is replaced in one step, so that a reader never
// sees half of it.
func (c Change) Apply() error {
	if c.New == nil {
		return os.Remove(c.Path)
	}
	if err := os.MkdirAll(filepath.Dir(c.Path), 0o777); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(c.Path), "."+filepath.Base(c.Path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(c.New)
	if err := errors.Join(err, temp.Chmod(0o644), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), c.Path)
}
