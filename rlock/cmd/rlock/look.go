package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/rlock-go/toolkit/rlock"
)

// whoCommand is rlock who.
func (p *program) whoCommand(args []string) error {
	a, waiting := p.arguments("who"), false
	a.defineWaiting(&waiting)
	keys, err := a.keys(args, 1, math.MaxInt, "at least one KEY")
	if err != nil {
		return err
	}
	ctx, locker, done, err := p.locker()
	if err != nil {
		return err
	}
	defer done()
	return each(keys, func(key string) (rlock.State, error) { return inspect(ctx, locker, key) },
		func(state rlock.State) error {
			object := fields{"held": false, "mode": nil, "owner": nil, "token": nil, "remaining_ms": 0}
			if state.Held {
				object = held(state)
				object["held"] = true
			}
			text := describe(state) + "\n"
			if waiting {
				list, err := waiters(ctx, locker, state.Key, object)
				if err != nil {
					return err
				}
				text += list
			}
			return p.result(text, object.withKey(state.Key))
		})
}

// defineWaiting defines the flag of rlock who.
func (a *arguments) defineWaiting(waiting *bool) { a.flags.BoolVar(waiting, "waiting", false, "") }

// waiters describes who waits for a lock, one in each line, and puts it into the fields of the lock.
func waiters(ctx context.Context, locker *rlock.Locker, key string, of fields) (text string, err error) {
	bounded, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	all, err := locker.Waiters(bounded, key)
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", &exit{exitFailed, err}
	}
	objects := make([]fields, len(all))
	for i, w := range all {
		mode, wants := "exclusive", "the whole lock"
		switch {
		case w.Limit > 0:
			mode, wants = "permits", fmt.Sprintf("%d of %d permits", w.Permits, w.Limit)
		case w.Permits > 0:
			mode, wants = "readers", "to read"
		}
		since := w.Since.UTC().Format(time.RFC3339)
		text += fmt.Sprintf("  waits since %s, wants %s, owner %q\n", since, wants, w.Owner)
		objects[i] = fields{"owner": w.Owner, "since": since, "mode": mode, "permits": w.Permits, "limit": w.Limit}
	}
	of["waiting"] = objects
	return text, nil
}

// held are the fields of a lock that somebody holds.
func held(state rlock.State) fields {
	if state.Shared != nil {
		return shared(state)
	}
	return fields{"mode": "exclusive", "owner": state.Owner, "token": state.Token, "remaining_ms": milliseconds(state.Remaining())}
}

// waitCommand is rlock wait.
func (p *program) waitCommand(args []string) error {
	a := p.arguments("wait")
	var w waiting
	w.define(a)
	keys, err := a.keys(args, 1, 1, "one KEY")
	if err != nil {
		return err
	}
	if err := w.check(a); err != nil {
		return err
	}
	ctx, locker, done, err := p.locker()
	if err != nil {
		return err
	}
	defer done()
	start := time.Now()
	bounded, cancel := w.bound(ctx)
	defer cancel()
	if err := locker.WaitFree(bounded, keys[0], rlock.WithRetry(w.retry())); err != nil {
		return w.failed(ctx, locker, err)
	}
	return p.result("", fields{"waited_ms": time.Since(start).Milliseconds()}.withKey(keys[0]))
}

// probeCommand is rlock probe.
func (p *program) probeCommand(args []string) error {
	a, prefix := p.arguments("probe"), ""
	a.definePrefix(&prefix)
	if _, err := a.keys(args, 0, 0, "nothing but flags"); err != nil {
		return err
	}
	ctx, locker, done, err := p.locker(rlock.WithPrefix(prefix))
	if err != nil {
		return err
	}
	defer done()
	report, failed := probe(ctx, locker)
	for _, finding := range report {
		object := fields{"severity": finding.Severity.String(), "name": finding.Name, "server": finding.Server, "text": finding.Text, "error": nil}
		if finding.Err != nil {
			object["error"] = errorText(finding.Err)
		}
		if err := p.result(finding.String()+"\n", object); err != nil {
			return err
		}
	}
	switch {
	case failed != nil:
		return failed
	case report.Err() != nil:
		return failure(exitFault, "locks fail, are lost, or do not wake those who wait for them: see what says %s", rlock.ProbeFault)
	}
	return nil
}

// definePrefix defines the flag of rlock probe.
func (a *arguments) definePrefix(prefix *string) { a.flags.StringVar(prefix, "prefix", "", "") }

// probeTimeout is enough for a probe of many servers, each of which answers late.
const probeTimeout = time.Minute

func probe(ctx context.Context, locker *rlock.Locker) (rlock.ProbeReport, error) {
	bounded, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	report, err := locker.Probe(bounded)
	switch {
	case ctx.Err() != nil:
		return report, context.Cause(ctx)
	case err != nil:
		return report, &exit{exitFailed, err}
	}
	return report, nil
}
