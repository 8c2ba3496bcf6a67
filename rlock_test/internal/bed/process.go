package bed

import (
	"os"
	"os/exec"
	"runtime"
)

// process is a running child and, once exited is closed, a reaped one.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

func launch(path string, args []string, logPath string) (*process, error) {
	log, err := os.Create(logPath)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := &process{cmd: exec.Command(path, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// Newer servers refuse to start with a locale that is not installed.
	p.cmd.Env = append(os.Environ(), "LC_ALL=C")
	p.cmd.SysProcAttr = dieWithParent()
	started := make(chan error)
	go p.run(started)
	return p, <-started
}

// run keeps its OS thread until the child is gone, because a child that is to
// die with its parent dies as soon as the thread that started it ends.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	// A killed server always exits with an error, which tells nothing.
	_ = p.cmd.Wait()
	close(p.exited)
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// kill may be called more than once. The only failure of the signal is a
// process that has exited already.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}
