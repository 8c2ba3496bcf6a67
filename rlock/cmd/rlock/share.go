package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlock-go/toolkit/rlock/rlockadmin"
)

// mostPermits is what package rlock allows one call to take.
const mostPermits = 1000

// sharing is what the flags of run and acquire say about others who may have the lock too.
type sharing struct {
	readers bool
	limit   int // permits that there are; 0: the lock has no permits
	permits int // of these, how many the call takes; 0: one
}

func (s *sharing) define(a *arguments) {
	a.flags.BoolVar(&s.readers, "shared", false, "")
	a.count(&s.limit, "limit")
	a.count(&s.permits, "permits")
}

// count defines a flag that is a number of things.
func (a *arguments) count(n *int, name string) {
	a.flags.Func(name, "", func(text string) (err error) {
		if *n, err = strconv.Atoi(text); err != nil || *n < 1 {
			return errors.New("want a whole number of 1 or more")
		}
		return nil
	})
}

// shares tells whether others may have the lock too.
func (s *sharing) shares() bool { return s.readers || s.limit > 0 }

// flag is the one that says so.
func (s *sharing) flag() string {
	if s.readers {
		return "--shared"
	}
	return "--limit"
}

func (s *sharing) check(a *arguments, keys int) error {
	switch {
	case s.readers && s.limit > 0:
		return a.usage("--shared and --limit contradict each other: readers have no limit; use only one of them")
	case s.permits > 0 && s.limit == 0:
		return a.usage("--permits is the number of permits that CMD takes; set the number of all permits " +
			"with --limit")
	case s.permits > s.limit:
		return a.usage("--permits %d is more than --limit %d, so there will never be so many; use fewer "+
			"--permits or a larger --limit", s.permits, s.limit)
	case s.permits > mostPermits:
		return a.usage("--permits %d is more than the %d that one call may take", s.permits, mostPermits)
	case s.shares() && keys > 1:
		return a.usage("%s is for one KEY: rlock cannot share several keys in one step; run one rlock run under "+
			"the other, with the keys in the same order everywhere, so that no two commands wait for each other",
			s.flag())
	}
	return nil
}

// want names what the call waits for.
func (s *sharing) want(key string) string {
	switch {
	case s.readers:
		return "a share of " + quote(key)
	case s.permits > 1:
		return fmt.Sprintf("%d permits of %s", s.permits, quote(key))
	case s.limit > 0:
		return "a permit of " + quote(key)
	}
	return quote(key)
}

// sharers says in a few words who has a lock.
func sharers(state rlockadmin.State) string {
	if state.Mode == rlockadmin.Exclusive {
		return state.Holders[0].Owner
	}
	owners := make([]string, len(state.Holders))
	for i, h := range state.Holders {
		owners[i] = h.Owner
	}
	return named(inUse(state), owners)
}

// named adds to a text the names of some of those whom it is about.
func named(text string, owners []string) string {
	const most = 3
	var names []string
	for _, owner := range owners {
		if owner != "" && len(names) < most {
			names = append(names, owner)
		}
	}
	if len(names) == 0 {
		return text
	}
	if more := len(owners) - len(names); more > 0 {
		names = append(names, strconv.Itoa(more)+" more")
	}
	return text + ": " + strings.Join(names, ", ")
}

// inUse counts the readers, or the permits that are in use.
func inUse(state rlockadmin.State) string {
	if state.Mode == rlockadmin.Readers {
		return plural(len(state.Holders), "reader")
	}
	return fmt.Sprintf("%d of %s", state.Permits, plural(state.Limit, "permit"))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// by returns the holder with the token.
func by(state rlockadmin.State, token string) (h rlockadmin.Holder, has bool) {
	i := slices.IndexFunc(state.Holders, func(h rlockadmin.Holder) bool { return h.Token() == token })
	if i < 0 {
		return h, false
	}
	return state.Holders[i], true
}

// holderLines tell of each of those who share a lock, in the order in which their leases end.
func holderLines(state rlockadmin.State) string {
	var b strings.Builder
	for _, h := range state.Holders {
		about := []string{left(h.Remaining)}
		if h.Limit > 0 {
			about = append([]string{fmt.Sprintf("%d of %s", h.Permits, plural(h.Limit, "permit"))}, about...)
		}
		if h.Owner != "" {
			about = append([]string{h.Owner}, about...)
		}
		b.WriteString("\n    " + strings.Join(about, ", ") + "\n        token " + shellQuote(h.Token()))
	}
	return b.String()
}

// share adds the fields of a lock that several hold.
func share(state rlockadmin.State, object fields) {
	holders := make([]fields, len(state.Holders))
	for i, h := range state.Holders {
		holders[i] = fields{
			"owner": h.Owner, "token": h.Token(), "permits": h.Permits, "limit": h.Limit,
			"remaining_ms": milliseconds(h.Remaining),
		}
	}
	object["permits"], object["limit"], object["holders"] = len(holders), nil, holders
	if state.Mode == rlockadmin.Permits {
		object["permits"], object["limit"] = state.Permits, state.Limit
	}
}
