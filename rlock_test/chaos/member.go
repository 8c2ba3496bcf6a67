package chaos

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// patience bounds the time in which a process must do what it is told, beyond the time that its
// locks may take. A failover takes half a minute on a machine that is too busy for the sentinels.
const patience = time.Minute

// member is a process of a round, from its parent's view.
type member struct {
	*env.Program
	number int

	errors  *printed
	answers chan event    // events that say that the process has carried out an order
	ended   chan struct{} // closed when all events of the process are here

	mu     sync.Mutex
	events []event
}

// startMember starts a process, and copies the process's standard error to a writer.
func startMember(t testing.TB, o orders, errors io.Writer) *member {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd, lines := exec.Command(os.Args[0]), &printed{to: errors}
	cmd.Stderr = lines
	m := &member{
		Program: env.Run(t, cmd, workerVariable+"="+string(text), raceOptions()),
		number:  o.Process,
		errors:  lines,
		answers: make(chan event, 4),
		ended:   make(chan struct{}),
	}
	go m.collect()
	return m
}

// raceOptions makes the race detector report to standard error and keep the exit code unchanged. So
// a killed process also reports its races, and the round goes on to its checks.
func raceOptions() string { return "GORACE=" + os.Getenv("GORACE") + " log_path=stderr exitcode=0" }

// printed keeps what a process has printed to standard error.
type printed struct {
	to   io.Writer
	mu   sync.Mutex
	text []byte
}

// mostPrinted bounds what printed keeps of a process that never stops complaining.
const mostPrinted = 1 << 20

func (p *printed) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = append(p.text, text[:min(len(text), mostPrinted-len(p.text))]...)
	return p.to.Write(text)
}

// race returns the first report of the race detector in an ended process, or "" if there is none.
func (m *member) race() string {
	m.errors.mu.Lock()
	defer m.errors.mu.Unlock()
	_, report, _ := strings.Cut(string(m.errors.text), "WARNING: DATA RACE\n")
	report, _, _ = strings.Cut(report, "\n==================")
	return report
}

func (m *member) collect() {
	defer close(m.ended)
	defer close(m.answers)
	for line := range m.Lines() {
		var e event
		if json.NewDecoder(strings.NewReader(line)).Decode(&e) != nil {
			continue // a line from the runtime of the test binary
		}
		e.Process = m.number
		m.mu.Lock()
		m.events = append(m.events, e)
		m.mu.Unlock()
		switch e.Kind {
		case opened, stopped, settled, closed:
			m.answers <- e
		}
	}
}

// history returns the events until now.
func (m *member) history() []event {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.events[:len(m.events):len(m.events)]
}

// await waits until the process says that it has done what the parent told it.
func (m *member) await(t testing.TB, answer kind, limit time.Duration) event {
	t.Helper()
	select {
	case e, ok := <-m.answers:
		if !ok {
			t.Fatalf("process %d has ended before it was %s", m.number, answer)
		}
		if e.Kind == opened && answer != opened {
			return m.await(t, answer, limit)
		}
		return e
	case <-time.After(limit):
		t.Fatalf("process %d is not %s after %s", m.number, answer, limit)
	}
	return event{}
}
