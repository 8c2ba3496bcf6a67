//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// passed are the signals that are passed on to the command.
var passed = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1,
	syscall.SIGUSR2}

// notify returns a channel of the signals that are passed on, but for those that the caller of
// rlock has it ignore, as nohup does.
func notify() (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 16)
	for _, sig := range passed {
		if !signal.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
	return signals, func() { signal.Stop(signals) }
}

// passSignals keeps rlock alive when nobody reads what it writes: the command must be stopped, and the
// lock released, in order. The command itself gets SIGPIPE as ever.
func passSignals() (restore func()) {
	signals := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGPIPE) {
		signal.Notify(signals, syscall.SIGPIPE)
	}
	return func() { signal.Stop(signals) }
}

// signalCode is the exit code of a process that the signal has ended.
func signalCode(sig os.Signal) int { return exitSignal + int(sig.(syscall.Signal)) }

// signalName is the name of a signal, such as SIGTERM.
func signalName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("SIG%d", int(sig))
}

// readSignal reads the name or the number of a signal.
func readSignal(text string) (syscall.Signal, error) {
	const last = 64
	if n, err := strconv.Atoi(text); err == nil && n > 0 && n <= last {
		return syscall.Signal(n), nil
	}
	name := strings.ToUpper(text)
	if sig := unix.SignalNum("SIG" + strings.TrimPrefix(name, "SIG")); sig != 0 {
		return sig, nil
	}
	return 0, errors.New("want the name of a signal, such as TERM, or its number")
}

// group is the process group of a command.
type group struct {
	changes  chan change
	pid      int
	terminal *terminal // nil: rlock has none
}

// start starts the command as the leader of a new process group.
func start(cmd *exec.Cmd, signals chan os.Signal) (*group, error) {
	g := &group{changes: make(chan change, 1), terminal: openTerminal(signals)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
	if g.terminal != nil && g.terminal.whole() {
		cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = true, g.terminal.fd
	}
	started := make(chan error)
	go func() {
		// The kernel ends the command when the thread that has started it is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			g.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			g.watch()
		}
	}()
	if err := <-started; err != nil {
		g.close()
		return nil, err
	}
	if g.terminal != nil {
		g.terminal.begin(cmd.SysProcAttr.Foreground)
	}
	return g, nil
}

// watch tells of what happens to the command until it has ended. It reaps all other children as well, until
// none is left: as the first process of a container, rlock gets those that the command leaves, which would
// stay as zombies.
func (g *group) watch() {
	for ended := false; ; {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			if !ended { // somebody has rlock's children reaped, so nobody knows how it has ended
				g.changes <- change{ended: true, code: exitFailed}
			}
			return
		case pid != g.pid:
		case status.Stopped():
			g.changes <- change{isStill: true, signal: status.StopSignal()}
		case status.Signaled():
			ended = true
			g.changes <- change{ended: true, code: signalCode(status.Signal()), signal: status.Signal()}
		case status.Exited():
			ended = true
			g.changes <- change{ended: true, code: status.ExitStatus()}
		}
	}
}

// signal sends a signal to every process of the group. There may be none left.
func (g *group) signal(sig syscall.Signal) { _ = syscall.Kill(-g.pid, sig) }

// pass passes a signal on that rlock has got.
func (g *group) pass(sig os.Signal) {
	if sig == syscall.SIGCONT {
		g.terminal.continued(g.pid)
		return
	}
	g.signal(sig.(syscall.Signal))
}

// stop is signal for a group that may be suspended, and would not learn of the signal.
func (g *group) stop(sig syscall.Signal) {
	g.signal(sig)
	g.signal(syscall.SIGCONT)
}

func (g *group) kill() { g.signal(syscall.SIGKILL) }

// empty tells whether no process of the group is left.
func (g *group) empty() bool { return syscall.Kill(-g.pid, 0) == syscall.ESRCH }

// suspended is told that a signal has suspended the command. It reports true when the command is to be
// continued: because it has the terminal now, or because rlock was suspended too, and was continued.
func (g *group) suspended(sig syscall.Signal, before func()) bool {
	if g.terminal == nil {
		return false
	}
	had := g.terminal.of(g.pid)
	if (sig == syscall.SIGTTIN || sig == syscall.SIGTTOU) && (had || g.terminal.ours()) {
		g.terminal.give(g.pid)
		return true
	}
	if !had && !g.terminal.ours() && sig == syscall.SIGSTOP {
		return false // somebody has suspended a command in the background, who can continue it
	}
	before()
	if had {
		g.terminal.give(g.terminal.own)
	}
	g.terminal.suspendSelf()
	if g.terminal.ours() && (had || sig == syscall.SIGTTIN || sig == syscall.SIGTTOU) {
		g.terminal.give(g.pid)
	}
	return true
}

// resume continues the group.
func (g *group) resume() { g.signal(syscall.SIGCONT) }

// close gives the terminal back.
func (g *group) close() {
	if g.terminal != nil {
		g.terminal.close(g.pid)
	}
}
