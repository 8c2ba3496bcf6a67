// Package output compares generated files with a directory, and writes them. It recognizes the files of the
// generator by their first line. Otherwise it does not know what the files contain.
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

	"github.com/rlock-go/toolkit/generator/internal/file"
)

// Change is one file of a directory that differs from the wanted file.
type Change struct {
	Path     string
	Old, New []byte // nil: the file does not exist, or must not exist
}

// Changes compares dir with the wanted files. A generated file without a script is a change too. If a wanted
// file would replace a file that the generator did not write, Changes returns an error.
func Changes(dir string, files []File) ([]Change, error) {
	changes, err := orphans(dir, files)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		old, err := file.Read(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if old != nil && bytes.Equal(old, f.Text) {
			continue
		}
		if old != nil && !f.written(dir, old) {
			return nil, fmt.Errorf("%s was not written by the generator and would be overwritten; "+
				"rename it or the script", path)
		}
		changes = append(changes, Change{Path: path, Old: old, New: f.Text})
	}
	return changes, nil
}

// orphans finds the generated files without a script, and the texts that they embed.
func orphans(dir string, files []File) ([]Change, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var changes []Change
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		if filepath.Ext(path) != ".go" || !entry.Type().IsRegular() || wanted(dir, path, files) {
			continue
		}
		old, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if !generated(old) {
			continue
		}
		changes = append(changes, Change{Path: path, Old: old})
		text := strings.TrimSuffix(path, ".go")
		if !embeds(old) || wanted(dir, text, files) {
			continue
		}
		embedded, err := file.Read(text)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		if embedded != nil {
			changes = append(changes, Change{Path: text, Old: embedded})
		}
	}
	return changes, nil
}

// wanted reports whether path is one of the files. A file system that ignores the case of letters may have
// the file under another name.
func wanted(dir, path string, files []File) bool {
	return slices.ContainsFunc(files, func(f File) bool {
		base := filepath.Base(path)
		return f.Name == base || strings.EqualFold(f.Name, base) && file.Same(path, filepath.Join(dir, f.Name))
	})
}

func (c Change) Reason() string {
	switch {
	case c.New == nil:
		return "removed, as its script is gone"
	case c.Old == nil:
		return "new"
	}
	return "changed"
}

// Line returns the first line that differs, from 1.
func (c Change) Line() int {
	old, should := bytes.Split(c.Old, []byte("\n")), bytes.Split(c.New, []byte("\n"))
	line := 0
	for line < min(len(old), len(should))-1 && bytes.Equal(old[line], should[line]) {
		line++
	}
	return line + 1
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
