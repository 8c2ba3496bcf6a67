package env

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const lineTimeout = 10 * time.Second

// Program is the test binary, or another program, as a process of its own. Several goroutines may call the
// methods that do not wait.
type Program struct {
	tb    testing.TB
	proc  *process
	input io.Writer
	lines chan string
}

// Reexec starts the test binary again, with variables "NAME=value" added to its environment. From a variable,
// its TestMain knows which program to run in place of the tests. The program's standard error goes to that of
// the test. The cleanup of tb kills the program. On Linux it also dies with the test binary.
func Reexec(tb testing.TB, env ...string) *Program {
	tb.Helper()
	return Run(tb, exec.Command(os.Args[0]), env...)
}

// Run starts cmd with variables "NAME=value" added to the environment of the test binary. The output and the
// end of cmd are as with Reexec, unless cmd has its own Stderr.
func Run(tb testing.TB, cmd *exec.Cmd, env ...string) *Program {
	tb.Helper()
	cmd.Env = append(os.Environ(), env...)
	if cmd.Stderr == nil {
		cmd.Stderr = os.Stderr
	}
	output, feed, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	cmd.Stdout = feed
	input, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	proc, err := spawn(cmd)
	if err != nil {
		tb.Fatalf("start %s: %v", cmd.Path, err)
	}
	_ = feed.Close()
	p := &Program{tb: tb, proc: proc, input: input, lines: make(chan string, 1<<16)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer output.Close()
		p.read(output)
	}()
	tb.Cleanup(func() {
		p.Kill()
		_ = input.Close()
		<-read
	})
	return p
}

// Lines are the lines of the program's standard output, without the line ends. The channel closes when the
// program has ended.
func (p *Program) Lines() <-chan string { return p.lines }

// Line returns the next of Lines. If the program ends, or prints nothing for ten seconds, the test ends with
// a failure.
func (p *Program) Line() string {
	p.tb.Helper()
	select {
	case line, ok := <-p.lines:
		if !ok {
			p.tb.Fatal("the program ended before it said anything")
		}
		return line
	case <-time.After(lineTimeout):
		p.tb.Fatalf("the program said nothing for %s", lineTimeout)
	}
	return ""
}

// Send writes a line to the program's standard input.
func (p *Program) Send(line string) {
	p.tb.Helper()
	if _, err := io.WriteString(p.input, line+"\n"); err != nil {
		p.tb.Errorf("send %q to the program: %v", line, err)
	}
}

// Stop suspends the program with SIGSTOP until Cont.
func (p *Program) Stop() {
	p.tb.Helper()
	if err := p.proc.stop(); err != nil {
		p.tb.Errorf("stop the program: %v", err)
	}
}

// Cont resumes a program that Stop has suspended.
func (p *Program) Cont() {
	p.tb.Helper()
	if err := p.proc.signal(continueSignal); err != nil {
		p.tb.Errorf("continue the program: %v", err)
	}
}

// Kill ends the program with SIGKILL, and returns when the program is gone. The caller may repeat Kill.
func (p *Program) Kill() { p.proc.kill() }

// Wait returns when the program has ended by itself. If the program fails or does not end, the test ends with
// a failure.
func (p *Program) Wait() {
	p.tb.Helper()
	select {
	case <-p.proc.exited:
	case <-time.After(lineTimeout):
		p.tb.Fatalf("the program has not ended after %s", lineTimeout)
	}
	if state := p.proc.cmd.ProcessState; !state.Success() {
		p.tb.Fatalf("the program failed: %v", state)
	}
}

func (p *Program) read(output io.Reader) {
	defer close(p.lines)
	in := bufio.NewReader(output)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		p.lines <- strings.TrimSuffix(line, "\n")
	}
}
