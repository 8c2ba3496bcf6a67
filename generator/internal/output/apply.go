package output

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Apply makes all changes in dir, or none: what is new, and what it replaces, is on
// disk before the first file is touched, so that only renames are left to fail, and
// those that were done are taken back. A file is replaced in one step: a reader never
// sees half of it.
func Apply(dir string, changes []Change) error {
	if len(changes) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	sweep(dir)
	stage, err := os.MkdirTemp(dir, stagePrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(stage)
	for i, c := range changes {
		if err := errors.Join(write(staged(stage, "new", i), c.New), write(staged(stage, "old", i), c.Old)); err != nil {
			return err
		}
	}
	for i, c := range changes {
		if err := move(staged(stage, "new", i), c.Path, c.New); err != nil {
			return errors.Join(err, takeBack(stage, changes[:i]))
		}
	}
	return nil
}

// takeBack undoes the changes, the last one first.
func takeBack(stage string, changes []Change) error {
	var failed error
	for i := len(changes) - 1; i >= 0; i-- {
		c := changes[i]
		if err := move(staged(stage, "old", i), c.Path, c.Old); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s could not be put back: %w", c.Path, err))
		}
	}
	return failed
}

func staged(stage, what string, i int) string {
	return filepath.Join(stage, what+"-"+strconv.Itoa(i))
}

// write writes a file for move; nil: there is none.
func write(path string, text []byte) error {
	if text == nil {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Chmod(0o644), f.Close())
}

// move puts a file that was written in its place; without a text, it removes what is
// there.
func move(from, to string, text []byte) error {
	if text == nil {
		return os.Remove(to)
	}
	return os.Rename(from, to)
}

// stagePrefix starts the names of the directories that Apply works in. Go looks into
// no directory with a dot in front.
const stagePrefix = ".generator-"

// abandoned is when a run that left such a directory is over for sure: a run takes
// seconds.
const abandoned = time.Hour

// sweep removes what killed runs have left. That it fails is no reason not to go on.
func sweep(dir string) {
	entries, _ := os.ReadDir(dir)
	for _, entry := range entries {
		if !entry.IsDir() || !strings.HasPrefix(entry.Name(), stagePrefix) {
			continue
		}
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > abandoned {
			_ = os.RemoveAll(filepath.Join(dir, entry.Name()))
		}
	}
}
