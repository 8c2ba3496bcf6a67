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

// Apply makes all changes in dir, or none. It first writes the new texts, and copies of the old texts, to a
// directory beside the files. After that, only a rename can fail, and Apply then takes back the earlier
// renames. A rename replaces a file in one step, so a reader never sees half of a file.
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
		if err := errors.Join(write(staged(stage, "new", i), c.New),
			write(staged(stage, "old", i), c.Old)); err != nil {
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

// write writes a file for move. If text is nil, it writes nothing.
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

// move renames a file from write. If text is nil, it removes the file at to.
func move(from, to string, text []byte) error {
	if text == nil {
		return os.Remove(to)
	}
	return os.Rename(from, to)
}

// stagePrefix begins the names of the directories in which Apply works. Go ignores directories whose names
// begin with a dot.
const stagePrefix = ".redislua-"

// abandoned is the age of a directory whose run is certainly over. A run takes seconds.
const abandoned = time.Hour

// sweep removes the directories of killed runs. It ignores errors, because the directories do no harm.
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
