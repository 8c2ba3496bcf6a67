package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Holder is what the server says of a key.
type Holder struct {
	Key   string
	Held  bool
	Token string
	End   clock.Instant // of the lease, if the key is held, counted from when the call was sent
}

// Inspect asks who holds each of the keys. The Holders have the order of the slots, and within a slot the
// order of the keys.
func (s *Server) Inspect(ctx context.Context, c *Claim) ([]Holder, error) {
	if !c.SpansSlots() {
		return s.calls.inspect(ctx, c.Keys())
	}
	var all []Holder
	for _, keys := range c.BySlot() {
		some, err := s.calls.inspect(ctx, keys)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// Confirm asks about each key of a Claim whose lock may have one of tokens. If the lock has a key, the
// Token of its Holder is one of tokens. The order is that of Inspect.
func (s *Server) Confirm(ctx context.Context, c *Claim, tokens []string) ([]Holder, error) {
	if !c.IsShare() {
		return s.Inspect(ctx, c)
	}
	h, err := s.holderOf(ctx, c, tokens)
	return []Holder{h}, err
}

// inspect is Inspect for keys of one slot.
func (s calls) inspect(ctx context.Context, keys []string) ([]Holder, error) {
	var (
		r    gen.InspectResult
		sent clock.Instant
	)
	err := RetryTimes(ctx, Attempts, func(ctx context.Context) (err error) {
		sent = clock.Now()
		r, err = s.locks.Inspect(ctx, s.client, gen.InspectParams{Keys: keys, Waiters: -1})
		return err
	})
	return holders(keys, r, sent, err)
}

// InspectEach asks in one round trip who holds each of the keys. The keys may be in any slots. Each key has
// an error of its own.
func (s *Server) InspectEach(ctx context.Context, keys []string) ([]Holder, []error) {
	params := make([]gen.InspectParams, len(keys))
	for i := range keys {
		params[i] = gen.InspectParams{Keys: keys[i : i+1], Waiters: -1}
	}
	var (
		replies []redislua.Reply[gen.InspectResult]
		sent    clock.Instant
	)
	_ = RetryTimes(ctx, Attempts, func(ctx context.Context) error {
		sent = clock.Now()
		replies = s.calls.locks.InspectBatch(ctx, s.calls.client, params)
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
		if one, errs[i] = holders(keys[i:i+1], reply.Value, sent, reply.Err); errs[i] == nil {
			all[i] = one[0]
		}
	}
	return all, errs
}

// Peeked is what Peek has found.
type Peeked struct {
	Held   bool
	Token  string
	Until  time.Time // the end of the lease, if the key is held, or of the cache entry
	Cached bool      // the cache answered, not the server
}

// ErrUncached is the error of a Peek that cannot use the client-side cache.
var ErrUncached = errors.New("rlock: the client has no cache")

// Peek reads a key through the client-side cache, which may keep the answer for ttl. If the client has no
// cache, the first Peek asks the server to find that out, and each Peek returns ErrUncached.
//
// A Peek runs the transaction MULTI, PTTL, GET, EXEC. If the answer is not whole, because a command is
// missing or a connection broke, Peek also returns ErrUncached, and the error says why.
func (s *Server) Peek(ctx context.Context, key string, ttl time.Duration) (Peeked, error) {
	if s.uncached.Load() {
		return Peeked{}, ErrUncached
	}
	answer, err := s.calls.scripts.CheckCached(ctx, s.calls.client, gen.CheckParams{Lock: key}, ttl)
	var garbled *redislua.ReplyError
	switch {
	case err == nil && answer.Until.IsZero():
		s.uncached.Store(true)
		err = ErrUncached
	case errors.As(err, &garbled), errors.Is(err, rueidis.ErrDoCacheAborted):
		err = fmt.Errorf("%w: %w", ErrUncached, err)
	}
	return Peeked{answer.Value.Valid, answer.Value.V, answer.Until, answer.Hit}, err
}

// Uncached reports whether a Peek has found that the client has no cache.
func (s *Server) Uncached() bool { return s.uncached.Load() }

// holders reads the answer of inspect.lua to a call that was sent at sent.
func holders(keys []string, r gen.InspectResult, sent clock.Instant, err error) ([]Holder, error) {
	whole := len(r.Values) == len(keys) && len(r.Remaining) == len(keys) && len(r.Members) == len(r.Left)
	if err == nil && !whole {
		err = &redislua.ReplyError{Script: "Inspect",
			Reason: errors.New("is about another number of keys or holders")}
	}
	if err != nil {
		return nil, err
	}
	all := make([]Holder, len(keys))
	for i, key := range keys {
		all[i] = Holder{Key: key, Held: r.Values[i].Valid, Token: r.Values[i].V}
		if all[i].Held {
			all[i].End = sent.After(remaining(r.Remaining[i]))
		}
	}
	return all, nil
}
