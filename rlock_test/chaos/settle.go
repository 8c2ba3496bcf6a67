package chaos

import (
	"fmt"
	"strings"
	"time"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// settle brings the processes to rest after the last fault, and checks what they leave behind.
func (r *round) settle() {
	limit := r.longest() + recovery + patience
	r.order("stop", stopped, limit)
	r.order("reach", settled, limit)
	r.inspectLeases()
	for _, e := range r.order("close", closed, limit) {
		if e.Outcome != done {
			r.find("goroutine left", "process %d: %s", e.Process, e.Error)
		}
	}
	r.awaitNone("connection left", recovery, r.connections)
	shortly := recovery
	if r.mayLeaveKeys() {
		shortly += r.longest()
	}
	r.awaitNone("key left", shortly, r.locks)
	for _, m := range r.members {
		m.Send("end")
		m.Wait()
		<-m.ended
	}
}

// order tells all processes to do something, and returns their answers.
func (r *round) order(line string, answer kind, limit time.Duration) []event {
	for _, m := range r.members {
		m.Send(line)
	}
	var said []event
	for _, m := range r.members {
		said = append(said, m.await(r.t, answer, limit))
	}
	return said
}

// mayLeaveKeys reports whether a key may stay until its lease ends. A key may stay if a holder did
// not or could not release it, or if a command came late. A topology that loses data also leaves
// keys.
func (r *round) mayLeaveKeys() bool {
	since := r.calm.add(-r.longest())
	for _, d := range r.disturbances {
		if d.late && d.to >= since {
			return true
		}
	}
	for _, m := range r.all {
		for _, e := range m.history() {
			if e.Return >= since && (e.Outcome == abandoned || e.Kind == released && e.Outcome != done) {
				return true
			}
		}
	}
	return !r.topology.keeps
}

// inspectLeases finds keys that never expire, or that expire later than any lease allows.
func (r *round) inspectLeases() {
	longest := r.longest()
	for _, s := range r.servers() {
		for _, key := range r.names(s) {
			reply := s.Do(r.t, "PTTL", key)
			ms, err := reply.ToInt64()
			if left := time.Duration(ms) * time.Millisecond; err != nil || ms == -1 || left > longest {
				r.find("lease too long", "%s has %v left, the longest lease is %v", key, left, longest)
			}
		}
	}
}

// locks returns the keys that are not fence counters.
func (r *round) locks() []string {
	var names []string
	for _, s := range r.servers() {
		names = append(names, r.names(s)...)
	}
	return names
}

func (r *round) names(s *env.Server) []string {
	reply := s.Do(r.t, "KEYS", "*")
	all, err := reply.AsStrSlice()
	if err != nil {
		r.t.Fatal(err)
	}
	var names []string
	counters := 0
	for _, name := range all {
		if strings.HasPrefix(name, "rlock:fence:") {
			counters++
		} else {
			names = append(names, name)
		}
	}
	if slots := len(keys) + len(sharedKeys); counters > slots {
		r.find("key left", "%d fence counters for %d slots", counters, slots)
	}
	return names
}

// connections returns the connections of the processes.
func (r *round) connections() []string {
	var open []string
	for _, s := range r.servers() {
		reply := s.Do(r.t, "CLIENT", "LIST")
		text, err := reply.ToString()
		if err != nil {
			r.t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			if strings.Contains(line, " name="+clientName+" ") {
				open = append(open, strings.TrimSpace(line))
			}
		}
	}
	return open
}

// awaitNone reports what is still there after the limit.
func (r *round) awaitNone(check string, limit time.Duration, list func() []string) {
	start := time.Now()
	for {
		left := list()
		if len(left) == 0 {
			return
		}
		if time.Since(start) > limit {
			r.find(check, "%d after %v, the first is %s", len(left), limit, left[0])
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (r *round) find(check, format string, args ...any) {
	r.findings = append(r.findings, violation{check: check, text: fmt.Sprintf(format, args...)})
}
