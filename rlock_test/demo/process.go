package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// These variables configure a worker. Other users of the machine cannot see them.
const (
	addressVariable = "REDIS_ADDR"
	roleVariable    = "RLOCK_DEMO_WORKER"
	prefixVariable  = "RLOCK_DEMO_PREFIX"
)

// process is the demo's view of a worker.
type process struct {
	name   string
	cmd    *exec.Cmd
	orders io.WriteCloser
	events chan event
}

// start starts a worker and waits until the worker is connected. The worker ends with its standard input, so
// it also ends when the demo is killed. The caller stops the worker.
func (d *demo) start(ctx context.Context) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	d.started++
	p := &process{cmd: exec.Command(program), events: make(chan event, 1024)}
	p.cmd.Env = append(os.Environ(), roleVariable+"=1", addressVariable+"="+d.server.address,
		prefixVariable+"="+d.server.prefix)
	p.cmd.Stderr = os.Stderr
	if p.orders, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.name = fmt.Sprintf("process %d", p.cmd.Process.Pid)
	go func() {
		defer close(p.events)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) != nil {
				return
			}
			p.events <- e
		}
	}()
	if _, err := p.await(ctx, isReady); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// startAll starts n workers, or none.
func (d *demo) startAll(ctx context.Context, n int) (processes []*process, stop func(), err error) {
	stop = func() {
		for _, p := range processes {
			p.stop()
		}
	}
	for range n {
		p, err := d.start(ctx)
		if err != nil {
			stop()
			return nil, nil, err
		}
		processes = append(processes, p)
	}
	return processes, stop, nil
}

// tell gives an order.
func (p *process) tell(o order) error {
	if err := json.NewEncoder(p.orders).Encode(o); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// next returns the next event of the process. A process that ends or gives up is an error.
func (p *process) next(ctx context.Context) (event, error) {
	select {
	case e, ok := <-p.events:
		switch {
		case !ok:
			return e, fmt.Errorf("%s ended", p.name)
		case e.Kind == isFailed:
			return e, fmt.Errorf("%s: %s", p.name, e.Cause)
		}
		return e, nil
	case <-ctx.Done():
		return event{}, context.Cause(ctx)
	}
}

// await returns the next event, which must be of this kind.
func (p *process) await(ctx context.Context, want kind) (event, error) {
	e, err := p.next(ctx)
	if err == nil && e.Kind != want {
		err = fmt.Errorf("%s: %s in place of %s", p.name, e.Kind, want)
	}
	return e, err
}

// do gives an order and returns the event that follows.
func (p *process) do(ctx context.Context, o order, want kind) (event, error) {
	if err := p.tell(o); err != nil {
		return event{}, err
	}
	return p.await(ctx, want)
}

// kill sends SIGKILL. The process does nothing from then on. The system may take a while to remove it.
func (p *process) kill() (at time.Time, err error) {
	return time.Now(), p.cmd.Process.Kill()
}

// reap waits until the system reports the death of a killed process.
func (p *process) reap() error {
	p.stop()
	if p.cmd.ProcessState.Success() {
		return fmt.Errorf("%s ended by itself", p.name)
	}
	return nil
}

// stop ends the process. It kills a process that does not end within three seconds. The caller may repeat
// stop.
func (p *process) stop() {
	if p.cmd.ProcessState != nil {
		return
	}
	_ = p.orders.Close()
	force := time.AfterFunc(3*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer force.Stop()
	for range p.events {
	}
	_ = p.cmd.Wait()
}
