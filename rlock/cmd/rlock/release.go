package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockadmin"
)

// releaseCommand is rlock release.
func (p *program) releaseCommand(args []string) error {
	a := p.arguments("release")
	operands, err := a.operands(args, 2, 2, "KEY and TOKEN; quote a TOKEN with spaces")
	if err != nil {
		return err
	}
	if err := checkKeys(operands[:1]); err != nil {
		return err
	}
	ctx, admin, done, err := p.admin()
	if err != nil {
		return err
	}
	defer done()
	return p.free(ctx, admin, operands[0], operands[1], fields{})
}

// free releases the lock of key if token is its holder's, and tells so.
func (p *program) free(ctx context.Context, admin *rlockadmin.Admin, key, token string, more fields) error {
	freed, err := force(ctx, admin, key, token)
	if err != nil {
		return err
	}
	more["released"] = freed
	return p.did(freed, key, more)
}

// did tells whether a command has done what it does to the holder of a token.
func (p *program) did(done bool, key string, more fields) error {
	if done {
		return p.result("", more.withKey(key))
	}
	if p.json {
		if err := p.write(line(more.withKey(key))); err != nil {
			return err
		}
	}
	return failure(exitLost, "%s is not held with this token: the lease has ended, or another holder has "+
		"the lock; see rlock who %[1]s", quote(key))
}

// force releases the lock of key, and reports false if token is not its holder's.
func force(ctx context.Context, admin *rlockadmin.Admin, key, token string) (freed bool, err error) {
	return told(ctx, func(ctx context.Context) error { return admin.ForceRelease(ctx, key, token) })
}

// told makes a call that tells the server something about the holder of a token, and reports false if there
// is no such holder.
func told(ctx context.Context, call func(context.Context) error) (done bool, err error) {
	bounded, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err = call(bounded)
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case errors.Is(err, rlock.ErrLost):
		return false, nil
	case err != nil:
		return false, &exit{exitFailed, err}
	}
	return true, nil
}

// forceReleaseCommand is rlock force-release.
func (p *program) forceReleaseCommand(args []string) error {
	a := p.arguments("force-release")
	var token, owner string
	var yes bool
	a.flags.StringVar(&token, "token", "", "")
	a.owner(&owner)
	a.flags.BoolVar(&yes, "yes", false, "")
	operands, err := a.operands(args, 1, 1, "one KEY and --token TOKEN, or --owner TEXT and one PATTERN")
	switch {
	case err != nil:
		return err
	case owner != "" && token != "":
		return a.usage("--token frees one holder, and --owner frees all locks of an owner; use only one of them")
	case owner != "":
		return p.releaseOwners(owner, operands[0], yes)
	case yes:
		return a.usage("--yes needs --owner; --token TOKEN frees one holder without it")
	}
	if err := checkKeys(operands); err != nil {
		return err
	}
	key := operands[0]
	ctx, admin, done, err := p.admin()
	if err != nil {
		return err
	}
	defer done()
	state, err := inspect(ctx, admin, key)
	switch {
	case err != nil:
		return err
	case token == "" && state.Mode == rlockadmin.Free:
		return failure(exitFailed, "%s is free; there is nothing to release", quote(key))
	case token == "" && state.Mode != rlockadmin.Exclusive && len(state.Holders) > 0:
		return failure(exitFailed, "nothing is released without a holder's token; %s\nto free one of them: rlock "+
			"force-release %s --token TOKEN",
			describe(state), shellQuote(key))
	case token == "":
		return failure(exitFailed, "nothing is released without the holder's token; %s\nto free it: rlock "+
			"force-release %s --token %s",
			describe(state), shellQuote(key), shellQuote(state.Token()))
	}
	h, _ := by(state, token)
	return p.free(ctx, admin, key, token, fields{"owner": h.Owner})
}

// inspect asks the server about one lock.
func inspect(ctx context.Context, admin *rlockadmin.Admin, key string) (rlockadmin.State, error) {
	bounded, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	state, err := admin.Inspect(bounded, key)
	switch {
	case ctx.Err() != nil:
		return state, context.Cause(ctx)
	case err != nil:
		return state, &exit{exitFailed, err}
	}
	return state, nil
}

// describe tells who holds a lock, and with which tokens, as words for a shell.
func describe(state rlockadmin.State) string {
	switch state.Mode {
	case rlockadmin.Free:
		return quote(state.Key) + " is free"
	case rlockadmin.Exclusive:
		h, by := state.Holders[0], ""
		if h.Owner != "" {
			by = " by " + h.Owner
		}
		token := shellQuote(h.Token())
		return fmt.Sprintf("%s is held%s, %s\n    token %s", quote(state.Key), by, left(h.Remaining), token)
	}
	return fmt.Sprintf("%s is shared: %s, %s%s",
		quote(state.Key), inUse(state), left(state.Remaining), holderLines(state))
}
