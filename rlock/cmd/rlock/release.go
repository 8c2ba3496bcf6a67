package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/rlock-go/toolkit/rlock"
)

// releaseCommand is rlock release.
func (p *program) releaseCommand(args []string) error {
	a := p.arguments("release")
	operands, err := a.operands(args, 2, 2, "KEY and TOKEN, which is quoted if it has spaces")
	if err != nil {
		return err
	}
	if err := checkKeys(operands[:1]); err != nil {
		return err
	}
	ctx, locker, done, err := p.locker()
	if err != nil {
		return err
	}
	defer done()
	return p.free(ctx, locker, operands[0], operands[1], fields{})
}

// free releases the lock of key if token is its holder's.
func (p *program) free(ctx context.Context, locker *rlock.Locker, key, token string, more fields) error {
	bounded, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	err := locker.ForceRelease(bounded, key, token)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, rlock.ErrLost):
		more["released"] = false
		if p.json {
			if err := p.write(line(more.withKey(key))); err != nil {
				return err
			}
		}
		return failure(exitLost, "%s is not held with this token: the lease has ended, or somebody else holds it; see rlock who %[1]s", quote(key))
	case err != nil:
		return &exit{exitFailed, err}
	}
	more["released"] = true
	return p.result("", more.withKey(key))
}

// forceReleaseCommand is rlock force-release.
func (p *program) forceReleaseCommand(args []string) error {
	a := p.arguments("force-release")
	var token string
	a.flags.StringVar(&token, "token", "", "")
	operands, err := a.keys(args, 1, 1, "one KEY and --token TOKEN")
	if err != nil {
		return err
	}
	key := operands[0]
	ctx, locker, done, err := p.locker()
	if err != nil {
		return err
	}
	defer done()
	state, err := inspect(ctx, locker, key)
	switch {
	case err != nil:
		return err
	case token == "" && !state.Held:
		return failure(exitFailed, "%s is free; there is nothing to release", quote(key))
	case token == "" && state.Shared != nil:
		return failure(exitFailed, "nothing is released without a holder's token; %s\nto free one of them: rlock force-release %s --token TOKEN",
			describe(state), shellQuote(key))
	case token == "":
		return failure(exitFailed, "nothing is released without the holder's token; %s\nto free it: rlock force-release %s --token %s",
			describe(state), shellQuote(key), shellQuote(state.Token))
	}
	owner, _ := holder(state, token)
	return p.free(ctx, locker, key, token, fields{"owner": owner})
}

// inspect asks the server about one lock.
func inspect(ctx context.Context, locker *rlock.Locker, key string) (rlock.State, error) {
	bounded, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	state, err := locker.Inspect(bounded, key)
	switch {
	case ctx.Err() != nil:
		return state, context.Cause(ctx)
	case err != nil:
		return state, &exit{exitFailed, err}
	}
	return state, nil
}

// describe tells who holds a lock, and with which tokens, as words for a shell.
func describe(state rlock.State) string {
	switch {
	case !state.Held:
		return quote(state.Key) + " is free"
	case state.Shared != nil:
		return fmt.Sprintf("%s is shared: %s, %s%s", quote(state.Key), inUse(state.Shared), left(state.Remaining()), holderLines(state.Shared))
	case state.Owner == "":
		return fmt.Sprintf("%s is held, %s\n    token %s", quote(state.Key), left(state.Remaining()), shellQuote(state.Token))
	}
	return fmt.Sprintf("%s is held by %s, %s\n    token %s", quote(state.Key), state.Owner, left(state.Remaining()), shellQuote(state.Token))
}
