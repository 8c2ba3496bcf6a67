package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

// notify returns a channel of Ctrl-C and Ctrl-Break.
func notify() (signals chan os.Signal, stop func()) {
	signals = make(chan os.Signal, 16)
	signal.Notify(signals, os.Interrupt)
	return signals, func() { signal.Stop(signals) }
}

// passSignals has nothing to do: writing to a closed pipe fails, and ends no process.
func passSignals() (restore func()) { return func() {} }

// signalCode is the exit code of a process that the signal has ended.
func signalCode(sig os.Signal) int { return exitSignal + int(sig.(syscall.Signal)) }

// signalName is the name of a signal.
func signalName(sig syscall.Signal) string { return sig.String() }

// readSignal reads the name of a signal. All of them end the command at once.
func readSignal(text string) (syscall.Signal, error) {
	switch strings.TrimPrefix(strings.ToUpper(text), "SIG") {
	case "TERM":
		return syscall.SIGTERM, nil
	case "KILL":
		return syscall.SIGKILL, nil
	}
	return 0, errors.New("want TERM or KILL")
}

// group is a command. Windows has no process groups that a signal could reach.
type group struct {
	changes chan change
	process *os.Process
}

func start(cmd *exec.Cmd, _ chan os.Signal) (*group, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	g := &group{make(chan change, 1), cmd.Process}
	go func() {
		_ = cmd.Wait() // the exit code says how it has ended
		g.changes <- change{ended: true, code: cmd.ProcessState.ExitCode()}
	}()
	return g, nil
}

// pass does nothing: the command has the same console, and gets Ctrl-C from there.
func (g *group) pass(os.Signal) {}

// stop ends the command at once, since there is no signal that asks it to.
func (g *group) stop(syscall.Signal) { g.kill() }

func (g *group) kill() { _ = g.process.Kill() }

// empty is true: what the command has started is not known.
func (g *group) empty() bool { return true }

func (g *group) suspended(syscall.Signal, func()) bool { return false }

func (g *group) resume() {}

func (g *group) close() {}
