//go:build unix && !linux

package main

import "syscall"

// Only Linux can tie the life of a command to rlock's.
func dieWithParent(*syscall.SysProcAttr) {}
