package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockadmin"
)

// whoCommand is rlock who.
func (p *program) whoCommand(args []string) error {
	keys, err := p.arguments("who").keys(args, 1, math.MaxInt, "at least one KEY")
	if err != nil {
		return err
	}
	ctx, admin, done, err := p.admin()
	if err != nil {
		return err
	}
	defer done()
	for part := range slices.Chunk(keys, concurrent) {
		states, errs := make([]rlockadmin.State, len(part)), make([]error, len(part))
		var group sync.WaitGroup
		for i, key := range part {
			group.Go(func() { states[i], errs[i] = inspect(ctx, admin, key) })
		}
		group.Wait()
		for i, state := range states {
			if errs[i] != nil {
				return errs[i]
			}
			object := held(state)
			object["held"] = state.Mode != rlockadmin.Free
			text := describe(state) + waiterLines(state) + "\n"
			if err := p.result(text, object.withKey(state.Key)); err != nil {
				return err
			}
		}
	}
	return nil
}

// concurrent is how many questions are under way at once, which the client sends together.
const concurrent = 64

// waiterLines tell of each of those who wait for a lock, in the order in which they get it.
func waiterLines(state rlockadmin.State) string {
	var b strings.Builder
	for _, w := range state.Waiters {
		wants := "the whole lock"
		switch w.Mode {
		case rlockadmin.Permits:
			wants = fmt.Sprintf("%d of %d permits", w.Permits, w.Limit)
		case rlockadmin.Readers:
			wants = "to read"
		}
		since := w.Since.UTC().Format(time.RFC3339)
		fmt.Fprintf(&b, "\n  waits since %s, wants %s, owner %q", since, wants, w.Owner)
	}
	return b.String()
}

// held are the fields of a lock.
func held(state rlockadmin.State) fields {
	object := fields{
		"mode": nil, "owner": nil, "token": nil,
		"remaining_ms": milliseconds(state.Remaining), "waiting": waiters(state),
	}
	switch state.Mode {
	case rlockadmin.Free:
		return object
	case rlockadmin.Exclusive:
		object["owner"], object["token"] = state.Holders[0].Owner, state.Holders[0].Token()
	default:
		share(state, object)
	}
	object["mode"] = state.Mode.String()
	return object
}

// waiters are the fields of those who wait for a lock.
func waiters(state rlockadmin.State) []fields {
	objects := make([]fields, len(state.Waiters))
	for i, w := range state.Waiters {
		objects[i] = fields{
			"owner": w.Owner, "since": w.Since.UTC().Format(time.RFC3339),
			"mode": w.Mode.String(), "permits": w.Permits, "limit": w.Limit,
		}
	}
	return objects
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
	ctx, locker, done, err := p.locker(&w)
	if err != nil {
		return err
	}
	defer done()
	start := time.Now()
	bounded, cancel := w.bound(ctx)
	defer cancel()
	stop := p.watch(ctx, locker, &w, quote, keys, "")
	err = locker.WaitFree(bounded, keys[0], rlock.WithRetry(w.retry()))
	stop()
	if err != nil {
		return w.failed(ctx, p, locker, err)
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
	ctx, locker, done, err := p.locker(&atOnce, rlock.WithPrefix(prefix))
	if err != nil {
		return err
	}
	defer done()
	report, failed := probe(ctx, locker)
	for _, finding := range report {
		object := fields{"severity": finding.Severity.String(), "name": finding.Name, "server": finding.Server,
			"text": finding.Text, "error": nil}
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
		return failure(exitFault, "locks fail, are lost, or do not wake waiters; see the lines with %s",
			rlock.ProbeFault)
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
