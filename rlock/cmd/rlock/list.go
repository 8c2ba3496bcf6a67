package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rlock-go/toolkit/rlock/rlockadmin"
)

// listCommand is rlock ls.
func (p *program) listCommand(args []string) error {
	a := p.arguments("ls")
	owner := ""
	a.owner(&owner)
	operands, err := a.operands(args, 1, 1, "one PATTERN, quoted: rlock ls 'job:*'")
	if err != nil {
		return err
	}
	ctx, admin, done, err := p.admin()
	if err != nil {
		return err
	}
	defer done()
	table := p.table("KEY", "LEFT", "OWNER", "WAITING")
	err = list(ctx, admin, operands[0], func(state rlockadmin.State) error {
		if owner != "" && len(of(owner, state)) == 0 {
			return nil
		}
		if table != nil {
			table.rows = append(table.rows, row(state))
			return nil
		}
		line := []string{quote(state.Key), left(state.Remaining), sharers(state), queued(state)}
		return p.result(strings.Join(line, "\t")+"\n", held(state).withKey(state.Key))
	})
	if table != nil {
		err = cmp.Or(err, p.print(table))
	}
	return err
}

// row tells a person about a lock.
func row(state rlockadmin.State) []string {
	waiting := ""
	if n := len(state.Waiters); n > 0 {
		waiting = strconv.Itoa(n)
	}
	return []string{
		quote(state.Key), strings.TrimSuffix(left(state.Remaining), " left"), sharers(state), waiting,
	}
}

// list tells of the locks that are held and match a pattern. What it cannot find out keeps it from nothing
// else, and is its error.
func list(
	ctx context.Context, admin *rlockadmin.Admin, pattern string, tell func(rlockadmin.State) error,
) error {
	var failed error
	for state, err := range admin.List(ctx, pattern) {
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			failed = cmp.Or(failed, error(&exit{exitFailed, err}))
			continue
		}
		if err := tell(state); err != nil {
			return err
		}
	}
	return failed
}

// owner defines the flag that names holders. An empty one would be all, by a variable that nobody has set.
func (a *arguments) owner(name *string) {
	a.flags.Func("owner", "", func(text string) error {
		if *name = text; text == "" {
			return errors.New("want the owner of the locks; check that the shell variable is set")
		}
		return nil
	})
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
// is. A lock that cannot be freed keeps it from no other.
func (p *program) releaseOwners(owner, pattern string, yes bool) error {
	ctx, admin, done, err := p.admin()
	if err != nil {
		return err
	}
	defer done()
	found, kept, failed := 0, 0, error(nil)
	err = list(ctx, admin, pattern, func(state rlockadmin.State) error {
		for _, h := range of(owner, state) {
			found++
			object, outcome := fields{"owner": h.Owner, "token": h.Token(), "released": false}, ""
			if yes {
				freed, err := force(ctx, admin, state.Key, h.Token())
				switch {
				case ctx.Err() != nil:
					return context.Cause(ctx)
				case err != nil:
					failed, outcome = cmp.Or(failed, err), "\tunknown: "+errorText(err)
					object["released"] = nil
				case freed:
					outcome = "\treleased"
					object["released"] = true
				default:
					kept++
					outcome = "\tnot released: the lock ended or changed hands"
				}
			}
			text := fmt.Sprintf("%s\t%s\t%s%s\n", quote(state.Key), left(h.Remaining), h.Owner, outcome)
			if err := p.result(text, object.withKey(state.Key)); err != nil {
				return err
			}
		}
		return nil
	})
	switch err = cmp.Or(err, failed); {
	case err != nil:
		return err
	case found == 0:
		return failure(exitFailed, "owner %q holds no lock that matches %s; see rlock ls %[2]s",
			owner, shellQuote(pattern))
	case !yes:
		return failure(exitFailed,
			"nothing is released without --yes; to free %s: rlock force-release --owner %s --yes %s",
			plural(found, "lock"), shellQuote(owner), shellQuote(pattern))
	case kept > 0:
		return failure(exitLost, "%s ended or changed hands meanwhile", plural(kept, "lock"))
	}
	return nil
}
