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

// ProbeReport is what Probe found, in the order in which it looked. Printed, it is a line for each finding.
type ProbeReport []ProbeFinding

// ProbeFinding is the answer to one question of Probe.
type ProbeFinding struct {
	// Name is client, locks, held, cache, waiting, queue, shared, version, protocol, eviction or replication.
	Name     string
	Server   string // address, where it is about one server
	Severity ProbeSeverity
	Text     string // for people: what is so, what it means and what to do about it
	Err      error  // the server's or client's error that says so; may be nil
}

// ProbeSeverity says what a finding means.
type ProbeSeverity int

const (
	ProbeOK    ProbeSeverity = iota // as it should be
	ProbeNote                       // it works, in a way that one should know of
	ProbeFault                      // locks fail, are lost, or do not wake those who wait for them
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

// Err returns an error that tells all faults and wraps their errors, nil if there is none.
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

// Probe tries out what locks need of the client, the server and the user's rights, for the start of a
// program or a health page. It takes a scratch lock behind the Locker's prefix, and asks the servers about
// themselves. That takes a few round trips, and up to a second more for each of two messages that do not
// come.
//
// What is missing is a finding, with what to do about it; see ProbeReport.Err. The error is for what keeps
// Probe from finding out: no server answers, the context ends, the Locker is closed. The findings until then
// are returned with it.
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
