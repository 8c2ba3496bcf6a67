// Package file reads a file that a user named. If it cannot, it says why.
package file

import (
	"fmt"
	"io/fs"
	"os"
)

// Read returns the contents of a regular file. It refuses anything else, because a pipe or a device may never
// end.
func Read(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "read", Path: path,
			Err: fmt.Errorf("it is %s, not a regular file", kind(info.Mode()))}
	}
	return os.ReadFile(path)
}

func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}

// Cause returns why a read failed, without the path, because the messages name the path themselves.
func Cause(err error) error {
	if in, ok := err.(*fs.PathError); ok {
		return in.Err
	}
	return err
}

// Same reports whether two paths lead to one file or directory.
func Same(a, b string) bool {
	first, err1 := os.Stat(a)
	second, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(first, second)
}
