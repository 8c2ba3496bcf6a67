package probe

import (
	"context"
	"strings"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// pushes changes the lease of the scratch lock, reads the lock through the cache, and releases it. Its rows
// say of which changes the server has told. It returns an error if it cannot find that out.
func (p *probe) pushes(ctx context.Context) error {
	held, err := p.held(ctx)
	if err != nil {
		return err
	}
	_, cached, err := p.Scratch.Peek(ctx)
	if err := p.Scratch.Release(ctx); err != nil {
		if wire.OutcomeOf(err) == wire.Indeterminate {
			return err
		}
		p.add("locks", Fault, err, "a lock cannot be released; %s", p.rule())
		return nil
	}
	if held.Severity == Fault && err == nil && !cached {
		held = Row{Name: "held", Severity: Note, Text: "no cache: " + noticedLate}
	}
	p.rows = append(p.rows, held)
	const polls = "a waiter learns by a heartbeat that the key was deleted, and polls at the pace of " +
		"WithRetry where there is no queue between processes"
	switch {
	case err != nil:
		p.add("cache", Fault, err, "reading through the client-side cache (MULTI, PTTL, GET, EXEC) fails, so "+
			"Check asks the server every time, or fails too; %s, or build the client with DisableCache", p.rule())
		p.add("waiting", Note, nil, "no cache: %s", polls)
		return nil
	case !cached:
		p.add("cache", Note, nil, "the client has none: Check asks the server every time")
		p.add("waiting", Note, nil, "no cache: %s", polls)
		return nil
	}

	fresh, err := p.followed(ctx)
	if err != nil {
		return err // a refusal too: the server did not refuse the first read
	}
	patience := maxPush // the cache may hear of the change a moment before the waiters
	if fresh {
		p.add("cache", OK, nil, "it hears of changes")
	} else {
		patience = 0
		// Here the command changes nothing. If the server refuses it, that is the reason.
		why := p.Client.Do(ctx, p.Client.B().Arbitrary("CLIENT", "CACHING", "YES").Build().ToPipe()).Error()
		p.add("cache", Fault, why, "the server did not tell within %v that a key had changed: Check may be wrong "+
			"for as long as WithCacheTTL; grant +client|caching and +client|tracking", maxPush)
	}
	if p.Changed == nil {
		p.add("waiting", Note, nil, "there are no Invalidations: %s; use Open or WithInvalidations", polls)
		return nil
	}
	told, err := p.told(ctx, patience)
	switch {
	case err != nil:
		return err
	case told:
		p.add("waiting", OK, nil, "the server wakes the waiters")
	default:
		p.add("waiting", Fault, nil,
			"no push reached the Invalidations: until one does, a waiter does not hear that a key is deleted, and "+
				"polls every %v where there is no queue between processes; set ClientOption.OnInvalidations of "+
				"this client to Invalidations.OnInvalidations, and see cache", p.Poll)
	}
	return nil
}

func (p *probe) told(ctx context.Context, patience time.Duration) (bool, error) {
	over, err := clock.Receive(ctx, p.Changed, patience, p.Stop)
	return !over, err
}

const noticedLate = "the loss of a held lock is noticed when it is extended, verified or released"

// held reads the scratch lock as the monitor reads held locks, changes its lease, and reports whether the
// server tells of the change. Both commands use one connection. If the server does not tell a client of its
// own changes, the client hears nothing more of the keys that it extends.
func (p *probe) held(ctx context.Context) (Row, error) {
	row := func(severity Severity, err error, text string) (Row, error) {
		return Row{Name: "held", Severity: severity, Text: text, Err: err}, nil
	}
	if p.Changed == nil {
		return row(Note, nil, "there are no Invalidations: "+noticedLate+"; use Open or WithInvalidations")
	}
	key := p.Scratch.Key()
	lease := p.Client.B().Pexpire().Key(key).Milliseconds(TTL.Milliseconds()).Build().ToPipe()
	replies := p.Client.DoMulti(ctx, append(notify.Track(p.Client, []string{key}), lease)...)
	for _, reply := range replies[1:] {
		err := reply.Error()
		switch wire.OutcomeOf(err) {
		case wire.Indeterminate:
			return Row{}, err
		case wire.Refused:
			return row(Fault, err, "the key of a held lock cannot be read and given a lease: "+noticedLate+
				"; grant +mget and +pexpire")
		}
	}
	told, err := p.told(ctx, maxPush)
	switch {
	case err != nil:
		return Row{}, err
	case told:
		return row(OK, nil, "the server tells of a change")
	}
	text := "the server did not tell within " + maxPush.String() + " that a key had changed: " + noticedLate +
		"; set ClientOption.OnInvalidations of this client to Invalidations.OnInvalidations, without NOLOOP and " +
		"with prefixes that cover the locks, and grant +client|caching"
	why := replies[0].Error()
	if optedOut(why) {
		why = nil
	}
	return row(Fault, why, text)
}

// optedOut reports whether the server refused CLIENT CACHING because it tracks all keys anyway.
func optedOut(err error) bool {
	return err != nil && strings.Contains(err.Error(), "OPTIN mode")
}

// followed reports whether the cache notices within maxPush that the scratch key is free.
func (p *probe) followed(ctx context.Context) (bool, error) {
	for end := clock.Now().After(maxPush); ; {
		held, _, err := p.Scratch.Peek(ctx)
		switch {
		case err != nil:
			return false, err
		case !held:
			return true, nil
		case clock.Now() > end:
			return false, nil
		}
		if err := clock.Sleep(ctx, 5*time.Millisecond, p.Stop); err != nil {
			return false, err
		}
	}
}
