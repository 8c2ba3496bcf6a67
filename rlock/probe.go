package rlock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/internal/probe"
	"github.com/rlock-go/toolkit/rlock/internal/text"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// ProbeReport has the findings of Probe, in the order in which Probe looked. String returns one line for each
// finding.
type ProbeReport []ProbeFinding

// ProbeFinding answers one question of Probe.
type ProbeFinding struct {
	// Name is client, locks, held, cache, waiting, queue, shared, version, protocol, eviction or replication.
	Name     string
	Server   string // address, if the finding is about one server
	Severity ProbeSeverity
	Text     string // for people: the finding, what it means and what to do
	Err      error  // the error of the server or the client behind the finding; may be nil
}

// ProbeSeverity says what a finding means.
type ProbeSeverity int

const (
	ProbeOK    ProbeSeverity = iota // as it should be
	ProbeNote                       // locks work, with a limit that the operator should know
	ProbeFault                      // locks fail, are lost, or do not wake their waiters
)

// String returns ok, note or FAULT.
func (s ProbeSeverity) String() string {
	switch s {
	case ProbeOK:
		return "ok"
	case ProbeNote:
		return "note"
	default:
		return "FAULT"
	}
}

// String returns the finding as one line.
func (f ProbeFinding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-5s %s", f.Severity, f.Name)
	if f.Server != "" {
		fmt.Fprintf(&b, " at %s", f.Server)
	}
	fmt.Fprintf(&b, ": %s", f.Text)
	if f.Err != nil {
		fmt.Fprintf(&b, " (%v)", f.Err)
	}
	return b.String()
}

// String returns a line for each finding.
func (r ProbeReport) String() string {
	lines := make([]string, len(r))
	for i, f := range r {
		lines[i] = f.String() + "\n"
	}
	return strings.Join(lines, "")
}

// Err returns one error with all faults, which wraps their errors. It returns nil if there is no fault.
func (r ProbeReport) Err() error {
	var faults []error
	for _, f := range r {
		switch {
		case f.Severity != ProbeFault:
		case f.Err != nil:
			faults = append(faults, fmt.Errorf("rlock: %s: %s: %w", f.Name, f.Text, f.Err))
		default:
			faults = append(faults, fmt.Errorf("rlock: %s: %s", f.Name, f.Text))
		}
	}
	return errors.Join(faults...)
}

// Probe tests what locks need of the client, the server and the rights of the user. Use it at the start of a
// program, or for a health page. It takes a scratch lock under the Locker's prefix, and asks the servers
// about themselves. It takes a few round trips. If messages of the server about the scratch key do not come,
// Probe waits for two of them, each for a second at most.
//
// Each finding says what is missing and what to do; see ProbeReport.Err. Probe returns an error if it cannot
// find out: no server answers, the context ends, or the Locker is closed. It returns the findings until then
// with the error.
func (l *Locker) Probe(ctx context.Context) (ProbeReport, error) {
	key, err := l.asking(ctx, "probe", "rlock:probe:"+wire.NewToken(""))
	if err == nil {
		err = l.onRedis("Probe")
	}
	if err != nil {
		return nil, err
	}
	target := probe.Target{
		Client: l.calls, Built: l.client, TimeOuts: l.timeOuts, Lease: l.defaults.ttl,
		Scratch: probe.NewScratch(l.wire, key, wire.NewToken(""), !l.defaults.unfenced),
		Mode:    l.defaults.queue,
		Grants:  l.grants.Channel(key),
		Poll:    notify.LongestPoll,
		Stop:    l.closed,
	}
	if l.listener != nil {
		w := l.listener.Watch(key)
		defer w.Leave()
		target.Changed = w.Changed()
	}
	rows, err := probe.Run(ctx, target)
	report := make(ProbeReport, len(rows))
	for i, row := range rows {
		report[i] = ProbeFinding{row.Name, row.Server, severities[row.Severity], row.Text, nil}
		if row.Err != nil {
			report[i].Err = &reason{text.Cause(row.Err), row.Err}
		}
		if row.Name == "waiting" && row.Severity == probe.Fault {
			l.listener.SetHeard(false)
		}
	}
	if err == clock.ErrStopped {
		err = ErrClosed
	}
	if err != nil {
		return report, &LockError{"probe", key, wire.NoAnswer(err)}
	}
	return report, nil
}

var severities = [...]ProbeSeverity{probe.OK: ProbeOK, probe.Note: ProbeNote, probe.Fault: ProbeFault}
