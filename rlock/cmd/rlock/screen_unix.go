//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalWidth returns how many columns a terminal has now, and false for any other file.
func terminalWidth(file *os.File) (width int, is bool) {
	size, err := unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	switch {
	case err != nil:
		return 0, false
	case size.Col == 0:
		return usualWidth, true
	}
	return int(size.Col), true
}

// inBackground tells whether the terminal is rlock's own, and another process group has it. With stty tostop,
// who writes then is stopped.
func inBackground(file *os.File) bool {
	foreground, err := unix.IoctlGetInt(int(file.Fd()), unix.TIOCGPGRP)
	own, unknown := unix.Getpgid(0)
	return err == nil && unknown == nil && foreground != own
}
