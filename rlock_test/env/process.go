package env

import (
	"os"
	"os/exec"
	"runtime"
	"time"
)

// process is a running child. When exited is closed, the child is dead and reaped.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// launch starts a server.
func launch(path string, args, env []string, logPath string) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	// Newer servers refuse to start with a locale that is not installed.
	cmd.Env = append(append(os.Environ(), "LC_ALL=C"), env...)
	return spawn(cmd)
}

func spawn(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = dieWithParent()
	p := &process{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error)
	go p.run(started)
	return p, <-started
}

// run keeps its OS thread until the child is gone. A child that dies with its parent also dies when the
// thread that started it ends.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	// A killed process always exits with an error, so the error says nothing.
	_ = p.cmd.Wait()
	close(p.exited)
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// stop suspends the process, and returns when all its threads stand still. The signal takes a while to reach
// a running thread.
func (p *process) stop() error {
	if err := p.signal(stopSignal); err != nil {
		return err
	}
	for end := time.Now().Add(stopTimeout); !stands(p.pid()) && time.Now().Before(end); {
		time.Sleep(pollInterval)
	}
	return nil
}

// stopTimeout limits the wait for a process that has died meanwhile.
const stopTimeout = time.Second

// The caller may call kill more than once. The signal fails only if the process has exited already.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}
