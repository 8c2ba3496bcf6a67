package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rlock-go/toolkit/rlock/rlockadmin"
)

// listCommand is rlock ls.
func (p *program) listCommand(args []string) error {
	a := p.arguments("ls")
	owner := ""
	a.flags.StringVar(&owner, "owner", "", "")
	operands, err := a.operands(args, 1, 1, "one PATTERN, quoted: rlock ls 'job:*'")
	if err != nil {
		return err
	}
	ctx, admin, done, err := p.admin()
	if err != nil {
		return err
	}
	defer done()
	flush := p.columns()
	err = list(ctx, admin, operands[0], func(state rlockadmin.State) error {
		if owner != "" && len(of(owner, state)) == 0 {
			return nil
		}
		row := []string{quote(state.Key), left(longest(state)), sharers(state), queued(state)}
		return p.result(strings.Join(row, "\t")+"\n", held(state).withKey(state.Key))
	})
	return cmp.Or(err, flush())
}

// list tells of the locks that are held and match a pattern.
func list(
	ctx context.Context, admin *rlockadmin.Admin, pattern string, tell func(rlockadmin.State) error,
) error {
	for state, err := range admin.List(ctx, pattern) {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return &exit{exitFailed, err}
		}
		if err := tell(state); err != nil {
			return err
		}
	}
	return nil
}

// of returns the holders of a lock that say to be the owner: in these words, or in more that begin with them.
func of(owner string, state rlockadmin.State) (theirs []rlockadmin.Holder) {
	for _, h := range state.Holders {
		if h.Owner == owner || strings.HasPrefix(h.Owner, owner+" ") {
			theirs = append(theirs, h)
		}
	}
	return theirs
}

// queued says in a few words who waits for a lock, "" if nobody does.
func queued(state rlockadmin.State) string {
	if len(state.Waiters) == 0 {
		return ""
	}
	owners := make([]string, len(state.Waiters))
	for i, w := range state.Waiters {
		owners[i] = w.Owner
	}
	return named(fmt.Sprintf("%d waiting", len(owners)), owners)
}

// releaseOwners frees everything that an owner has of the locks that match a pattern, or only tells what that
// is.
func (p *program) releaseOwners(owner, pattern string, yes bool) error {
	ctx, admin, done, err := p.admin()
	if err != nil {
		return err
	}
	defer done()
	found, kept := 0, 0
	err = list(ctx, admin, pattern, func(state rlockadmin.State) error {
		for _, h := range of(owner, state) {
			found++
			object := fields{"owner": h.Owner, "token": h.Token(), "released": false}
			text := fmt.Sprintf("%s\t%s\t%s", quote(state.Key), left(h.Remaining), h.Owner)
			if yes {
				freed, err := force(ctx, admin, state.Key, h.Token())
				switch {
				case err != nil:
					return err
				case freed:
					text += "\treleased"
				default:
					kept++
					text += "\tanother's by now"
				}
				object["released"] = freed
			}
			if err := p.result(text+"\n", object.withKey(state.Key)); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case found == 0:
		return failure(exitFailed, "nobody who says to be %q holds a lock that matches %s; see rlock ls %[2]s",
			owner, shellQuote(pattern))
	case !yes:
		return failure(exitFailed,
			"nothing is released without --yes; to free %s: rlock force-release --owner %s --yes %s",
			plural(found, "lock"), shellQuote(owner), shellQuote(pattern))
	case kept > 0:
		return failure(exitLost, "%s had ended or changed hands by then", plural(kept, "lock"))
	}
	return nil
}

// longest is what is left of the lease that ends last.
func longest(state rlockadmin.State) time.Duration {
	if len(state.Holders) == 0 {
		return 0
	}
	return state.Holders[len(state.Holders)-1].Remaining
}
