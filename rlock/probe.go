package rlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// Report is what Probe found, in the order in which it looked.
type Report []Finding

// Finding is the answer to one question of Probe.
type Finding struct {
	Name     string // locks, held, cache, waiting, version, protocol, eviction or replication
	Server   string // address, where it is about one server
	Severity Severity
	Text     string // for people: what is so, what it means and what to do about it
	Err      error  // the server's or client's error that says so; may be nil
}

// Severity says what a finding means.
type Severity int

const (
	SeverityOK    Severity = iota // as it should be
	SeverityNote                  // it works, in a way that one should know of
	SeverityFault                 // locks fail, are lost, or are waited for in vain
)

// String returns ok, note or FAULT.
func (s Severity) String() string {
	switch s {
	case SeverityOK:
		return "ok"
	case SeverityNote:
		return "note"
	default:
		return "FAULT"
	}
}

// String returns the finding as one line.
func (f Finding) String() string {
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
func (r Report) String() string {
	lines := make([]string, len(r))
	for i, f := range r {
		lines[i] = f.String() + "\n"
	}
	return strings.Join(lines, "")
}

// Err returns an error that tells all faults and wraps their errors, nil if there is
// none.
func (r Report) Err() error {
	var faults []error
	for _, f := range r {
		switch {
		case f.Severity != SeverityFault:
		case f.Err != nil:
			faults = append(faults, fmt.Errorf("rlock: %s: %s: %w", f.Name, f.Text, f.Err))
		default:
			faults = append(faults, fmt.Errorf("rlock: %s: %s", f.Name, f.Text))
		}
	}
	return errors.Join(faults...)
}

const (
	probeTTL  = 5 * time.Second // of the scratch key
	probeWait = time.Second     // for the server's push
)

// Probe tries out what locks need of the client, the server and the user's rights,
// for the start of a program or a health page. It takes a scratch lock, sees whether the
// server tells of a change of it while it is held, reads it through the cache, sees
// whether its release is pushed, and asks the servers about themselves. The key is the Locker's prefix and a name of its own; it
// is gone afterwards, or after 5 seconds.
//
// What is missing is a finding; see Report.Err. The error is for what keeps Probe
// from finding out: no server answers, the context ends, the Locker is closed. The
// findings until then are returned with it. It takes a few round trips, and up to a
// second more for each of two pushes that do not come. A Locker whose Hook got no push
// polls from then on until one comes.
func (l *Locker) Probe(ctx context.Context) (Report, error) {
	key, err := l.begun(ctx, "probe", "rlock:probe:"+newToken(""))
	if err != nil {
		return nil, err
	}
	p := &probe{locker: l, lock: l.lockOf(key)}
	p.lock.prepare(ctx, l.defaults, wanted{})
	p.lock.lease.Prepare(probeTTL, "")
	if err := p.run(ctx); err != nil {
		if err == clock.ErrStopped {
			err = ErrClosed
		}
		return p.report, &LockError{"probe", key, err}
	}
	return p.report, nil
}

// probe is one call of Probe.
type probe struct {
	locker *Locker
	lock   *Lock // the scratch lock
	report Report
}

func (p *probe) add(name string, severity Severity, err error, format string, args ...any) {
	p.report = append(p.report, Finding{Name: name, Severity: severity, Text: fmt.Sprintf(format, args...), Err: err})
}

// run returns an error when the outcome of a call is unknown.
func (p *probe) run(ctx context.Context) error {
	t, err := p.lock.attempt(ctx, p.lock.counters(), nil)
	if p.lock.late > 0 {
		p.lock.abandon(probeTTL, int(p.lock.late)+1)
	}
	if answerOf(err) == unknown {
		return err
	}
	p.locks(t, err)
	if err == nil {
		if err := p.push(ctx); answerOf(err) == unknown {
			return err
		}
	}
	return p.servers(ctx)
}

// locks tells whether the scratch lock was acquired.
func (p *probe) locks(t taken, err error) {
	var server *rueidis.RedisError
	refused := errors.As(err, &server)
	switch {
	case err == nil && t.acquired:
		p.add("locks", SeverityOK, nil, "acquired in %v", time.Duration(clock.Now()-t.sent).Round(time.Microsecond))
	case refused && strings.HasPrefix(server.Error(), "READONLY"):
		p.add("locks", SeverityFault, err, "the server is a replica that takes no writes; connect to the primary")
	case refused && denied(server):
		p.add("locks", SeverityFault, err, "the user may not run the scripts; grant what AUDIT.md of package gen lists for Acquire, "+
			"on the locks and on %s*, or use WithFence(false); the key tried was %s", strings.TrimSuffix(slot.FencePrefix, "{"), quoteKey(t.key))
	default:
		p.add("locks", SeverityFault, err, "a lock that nobody holds cannot be acquired")
	}
}

// denied reports the refusal of a user's rights, in a script or outside.
func denied(err error) bool {
	text := err.Error()
	return strings.Contains(text, "NOPERM") || strings.Contains(text, "ACL failure") || strings.Contains(text, "user executing the script can't")
}

// push reads the scratch lock through the cache, releases it, and tells whether the
// server says so. Like run, it returns what keeps it from finding out.
func (p *probe) push(ctx context.Context) error {
	l, key := p.locker, p.lock.key[0]
	var changed chan struct{}
	if l.hook != nil {
		w := l.hook.watch(l, key)
		defer w.leave()
		changed = w.changed
	}
	held, err := p.held(ctx, changed)
	if err != nil {
		return err
	}
	answer, err := l.scripts.HolderCached(ctx, l.client, gen.HolderParams{Lock: key}, probeTTL)
	if _, err := p.lock.free(ctx); err != nil {
		p.add("locks", SeverityFault, err, "a lock cannot be released; grant what AUDIT.md of package gen lists for Release")
		return err
	}
	if held.Severity == SeverityFault && err == nil && answer.Remaining < 0 {
		held = Finding{Name: "held", Severity: SeverityNote, Text: "no cache: " + noticedLate}
	}
	p.report = append(p.report, held)
	const polls = "waiting for a held lock polls at the pace of WithRetry"
	switch {
	case err != nil:
		p.add("cache", SeverityFault, err, "reading through the client-side cache fails, and so does Check; "+
			"grant what AUDIT.md of package gen lists for Check, or build the client with DisableCache")
		p.add("waiting", SeverityNote, nil, "no cache: %s", polls)
		return nil
	case answer.Remaining < 0:
		p.add("cache", SeverityNote, nil, "the client has none: Check asks the server every time")
		p.add("waiting", SeverityNote, nil, "no cache: %s", polls)
		return nil
	}

	fresh, err := p.follows(ctx, key)
	if err != nil {
		return err
	}
	if !fresh {
		// Here the command changes nothing; if it is refused, that is the reason.
		why := l.client.Do(ctx, l.client.B().Arbitrary("CLIENT", "CACHING", "YES").Build()).Error()
		p.add("cache", SeverityFault, why, "the server did not tell within %v that a key had changed: Check may be wrong for as long as WithCacheTTL; "+
			"grant +client|caching and +client|tracking", probeWait)
	} else {
		p.add("cache", SeverityOK, nil, "it hears of changes")
	}
	if l.hook == nil {
		p.add("waiting", SeverityNote, nil, "there is no Hook: %s; use Open or WithHook", polls)
		return nil
	}
	patience := probeWait // the cache may hear of it a moment before the Hook
	if !fresh {
		patience = 0
	}
	switch over, err := clock.Receive(ctx, changed, patience, l.closed); {
	case err != nil:
		return err
	case !over:
		p.add("waiting", SeverityOK, nil, "the server wakes those who wait")
	default:
		l.heard.Store(false)
		p.add("waiting", SeverityFault, nil, "no push reached the Hook: until one does, those who wait for a held lock poll every %v; "+
			"set ClientOption.OnInvalidations of this client to Hook.OnInvalidations, and see cache", unheardPause)
	}
	return nil
}

const noticedLate = "the loss of a held lock is noticed when it is extended, checked or released"

// held reads the scratch lock as the monitor reads those that are held, changes its
// lease, and tells whether the server says so. The change takes the same connection,
// since a client that is not told of its own changes loses track of what it extends.
func (p *probe) held(ctx context.Context, changed <-chan struct{}) (Finding, error) {
	l, key := p.locker, p.lock.key[0]
	finding := func(severity Severity, err error, text string) (Finding, error) {
		return Finding{Name: "held", Severity: severity, Text: text, Err: err}, nil
	}
	switch {
	case l.hook == nil:
		return finding(SeverityNote, nil, "there is no Hook: "+noticedLate+"; use Open or WithHook")
	case l.cluster:
		return finding(SeverityNote, nil, "on a cluster "+noticedLate)
	}
	lease := l.client.B().Pexpire().Key(key).Milliseconds(probeTTL.Milliseconds()).Build().ToPipe()
	replies := l.client.DoMulti(ctx, append(track(l.client, []string{key}), lease)...)
	for _, reply := range replies[1:] {
		if err := reply.Error(); answerOf(err) == unknown {
			return Finding{}, err
		} else if err != nil {
			return finding(SeverityFault, err, "the key of a held lock cannot be read and given a lease: "+noticedLate+"; grant +mget and +pexpire")
		}
	}
	over, err := clock.Receive(ctx, changed, probeWait, l.closed)
	switch {
	case err != nil:
		return Finding{}, err
	case !over:
		return finding(SeverityOK, nil, "the server tells of a change")
	}
	text := "the server did not tell within " + probeWait.String() + " that a key had changed: " + noticedLate + "; " +
		"set ClientOption.OnInvalidations of this client to Hook.OnInvalidations, without NOLOOP and with prefixes that cover the locks, and grant +client|caching"
	why := replies[0].Error()
	if optedOut(why) {
		why = nil
	}
	return finding(SeverityFault, why, text)
}

// optedOut reports whether CLIENT CACHING was refused because nothing has to be opted
// in: everything is tracked anyway.
func optedOut(err error) bool {
	return err != nil && strings.Contains(err.Error(), "OPTIN mode")
}

// follows reports whether the cache notices within probeWait that the scratch key is
// free.
func (p *probe) follows(ctx context.Context, key string) (bool, error) {
	for end := clock.Now().After(probeWait); ; {
		answer, err := p.locker.scripts.HolderCached(ctx, p.locker.client, gen.HolderParams{Lock: key}, probeTTL)
		switch {
		case err != nil:
			return false, err
		case !answer.Value.Valid:
			return true, nil
		case clock.Now() > end:
			return false, nil
		}
		if err := clock.Sleep(ctx, 5*time.Millisecond, p.locker.closed); err != nil {
			return false, err
		}
	}
}
