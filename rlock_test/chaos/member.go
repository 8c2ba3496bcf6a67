package chaos

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// patience bounds what a process may take to do as it is told, beyond the time that
// its locks may take: a failover takes half a minute on a machine that was too busy
// for the sentinels.
const patience = time.Minute

// member is a process of a round, as its parent sees it.
type member struct {
	*env.Program
	number int

	answers chan event    // those that say that an order was carried out
	ended   chan struct{} // closed when all its events are here

	mu     sync.Mutex
	events []event
}

func startMember(t testing.TB, o orders) *member {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	m := &member{
		Program: env.Reexec(t, workerVariable+"="+string(text)),
		number:  o.Process,
		answers: make(chan event, 4),
		ended:   make(chan struct{}),
	}
	go m.collect()
	return m
}

func (m *member) collect() {
	defer close(m.ended)
	defer close(m.answers)
	for line := range m.Lines() {
		var e event
		if json.NewDecoder(strings.NewReader(line)).Decode(&e) != nil {
			continue // what the runtime of a test binary has to say
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

// await waits until the process says that it has done what it was told.
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
