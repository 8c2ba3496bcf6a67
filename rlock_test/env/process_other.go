//go:build !linux

package env

import "syscall"

// Only Linux can tie the life of a child to its parent.
func dieWithParent() *syscall.SysProcAttr { return nil }

// Only Linux reports whether threads are stopped.
func stands(int) bool { return true }
