package remote

import (
	"context"
	"errors"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Holder is what the server says of a key.
type Holder struct {
	Key   string
	Held  bool
	Token string
	End   clock.Instant // of the lease, if it is held
}

// Inspect asks who holds each of the keys. On a cluster they must be in one slot.
func (s *Server) Inspect(ctx context.Context, keys []string) ([]Holder, error) {
	var r gen.InspectResult
	err := RetryTimes(ctx, Attempts, func(ctx context.Context) (err error) {
		r, err = s.calls.scripts.Inspect(ctx, s.calls.client, gen.InspectParams{Locks: keys})
		return err
	})
	return holders(keys, r, err)
}

// InspectClaim is Inspect for the keys of a Claim, which may be of several slots. The Holders are
// in the order of slots.
func (s *Server) InspectClaim(ctx context.Context, c *Claim) ([]Holder, error) {
	if !c.Split() {
		return s.Inspect(ctx, c.Keys())
	}
	var all []Holder
	for _, keys := range c.Parts() {
		some, err := s.Inspect(ctx, keys)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// InspectEach asks who holds each of the keys, which may be in any slots, in one round trip. Each
// has an error of its own.
func (s *Server) InspectEach(ctx context.Context, keys []string) ([]Holder, []error) {
	params := make([]gen.InspectParams, len(keys))
	for i := range keys {
		params[i] = gen.InspectParams{Locks: keys[i : i+1]}
	}
	var replies []gen.Reply[gen.InspectResult]
	_ = RetryTimes(ctx, Attempts, func(ctx context.Context) error {
		replies = s.calls.scripts.InspectBatch(ctx, s.calls.client, params)
		for _, reply := range replies {
			if OutcomeOf(reply.Err) == Indeterminate {
				return reply.Err
			}
		}
		return nil
	})
	all, errs := make([]Holder, len(keys)), make([]error, len(keys))
	for i, reply := range replies {
		var one []Holder
		if one, errs[i] = holders(keys[i:i+1], reply.Value, reply.Err); errs[i] == nil {
			all[i] = one[0]
		}
	}
	return all, errs
}

// holders reads the answer of inspect.lua.
func holders(keys []string, r gen.InspectResult, err error) ([]Holder, error) {
	if err == nil && (len(r.Holders) != len(keys) || len(r.Remaining) != len(keys)) {
		err = &gen.ReplyError{Script: "Inspect", Reason: errors.New("is about another number of keys")}
	}
	if err != nil {
		return nil, err
	}
	all := make([]Holder, len(keys))
	for i, key := range keys {
		all[i] = Holder{Key: key, Held: r.Holders[i].Valid, Token: r.Holders[i].V}
		if all[i].Held {
			all[i].End = clock.Now().After(remaining(r.Remaining[i]))
		}
	}
	return all, nil
}
