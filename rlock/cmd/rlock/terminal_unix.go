//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is the controlling terminal of rlock. One process group at a time may read from it and gets the
// signals of its keys: the foreground group. A shell makes rlock's group that, and rlock passes it on to the
// command's.
type terminal struct {
	fd      int
	own     int            // rlock's process group
	signals chan os.Signal // that are passed on

	foreground bool // the command has had it from the beginning
}

// openTerminal returns the terminal, nil if there is none.
func openTerminal(signals chan os.Signal) *terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	return &terminal{fd: fd, own: syscall.Getpgrp(), signals: signals}
}

// of tells whether the group is the foreground group.
func (t *terminal) of(group int) bool {
	foreground, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && foreground == group
}

func (t *terminal) ours() bool { return t.of(t.own) }

// whole tells whether the command has the terminal from the beginning. If rlock is one program of several in
// a pipe, the others may need it, such as a pager: the command then gets the terminal when it reads from it.
func (t *terminal) whole() bool {
	for _, file := range []*os.File{os.Stdin, os.Stdout} {
		if _, err := unix.IoctlGetInt(int(file.Fd()), unix.TIOCGPGRP); err != nil {
			return false
		}
	}
	return t.ours()
}

// begin is called when the command has started: it must not ignore what rlock ignores. If the command has
// the terminal, Ctrl-Z comes to it alone, and rlock must take SIGTSTP as every program does: once it was
// asked for, package os/signal cannot restore that. Otherwise Ctrl-Z comes to rlock, which passes it
// on.
func (t *terminal) begin(foreground bool) {
	signal.Ignore(syscall.SIGTTOU) // so that rlock can take the terminal back from the background
	t.foreground = foreground
	switch {
	case foreground:
		signal.Notify(t.signals, syscall.SIGCONT)
	case !signal.Ignored(syscall.SIGTSTP):
		signal.Notify(t.signals, syscall.SIGTSTP)
	}
}

// continued is told that a shell has continued rlock, perhaps in the foreground again.
func (t *terminal) continued(group int) {
	if t.foreground && t.ours() {
		t.give(group)
	}
}

// give makes the group the foreground group. It fails if the terminal is gone, when nobody needs it.
func (t *terminal) give(group int) { _ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group) }

// suspendSelf suspends rlock's own process group, as the terminal would have, and returns when rlock was
// continued. Where no shell could continue it, nothing is suspended: the system passes over SIGTSTP then, and
// SIGSTOP is not sent.
func (t *terminal) suspendSelf() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	switch {
	case t.foreground:
		_ = syscall.Kill(0, syscall.SIGTSTP)
	case t.underShell():
		_ = syscall.Kill(0, syscall.SIGSTOP)
	}
	select {
	case <-continued:
	case <-time.After(passedOver):
	}
}

// underShell tells whether the parent is of the same session and of another group, so that it can continue
// rlock.
func (t *terminal) underShell() bool {
	own, err := unix.Getsid(0)
	session, gone := unix.Getsid(syscall.Getppid())
	group, unknown := unix.Getpgid(syscall.Getppid())
	return err == nil && gone == nil && unknown == nil && session == own && group != t.own
}

// passedOver is when the signal must have had its effect. The time in which rlock is suspended counts, so
// it may end the wait as well.
const passedOver = 100 * time.Millisecond

// close takes the terminal back from a command that has ended.
func (t *terminal) close(group int) {
	if t.of(group) {
		t.give(t.own)
	}
	_ = unix.Close(t.fd)
}
