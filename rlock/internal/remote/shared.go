package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// Share is what a holder wants of a key that several hold together.
type Share struct {
	Limit   int // how many permits there are; 0: any number, for readers
	Permits int // how many of them the holder wants
}

// OwnPrefix is what the tokens and values of this module that are not a plain token start with. No
// caller may choose such a token.
const OwnPrefix = "rlock:"

const (
	sharePrefix  = OwnPrefix + "share:"
	sharedPrefix = OwnPrefix + "shared "
)

// NewToken returns a new token for the share. It says what share that is, so that those who pass a
// key on know it from the queue, and those who release it know that it is no whole key.
func (s Share) NewToken(owner string) string {
	return sharePrefix + strconv.Itoa(s.Limit) + ":" + strconv.Itoa(s.Permits) + ":" + NewToken(owner)
}

// isShare reports whether a token is that of a share.
func isShare(token string) bool { return strings.HasPrefix(token, sharePrefix) }

// ShareOf returns the share of a token, and what follows in it. It reports false if the token is not
// one that Share.NewToken makes.
func ShareOf(token string) (s Share, plain string, is bool) {
	rest, is := strings.CutPrefix(token, sharePrefix)
	if !is {
		return Share{}, token, false
	}
	parts := strings.SplitN(rest, ":", 3)
	if len(parts) < 3 {
		return Share{}, token, false
	}
	limit, err1 := strconv.Atoi(parts[0])
	permits, err2 := strconv.Atoi(parts[1])
	if err1 != nil || err2 != nil {
		return Share{}, token, false
	}
	return Share{limit, permits}, parts[2], true
}

// newTokenLike returns a new token of the kind of a former one.
func newTokenLike(former, owner string) string {
	if s, _, is := ShareOf(former); is {
		return s.NewToken(owner)
	}
	return NewToken(owner)
}

// SharedValue reads the value of a key that several hold: the phase, which is their fence, and their
// limit. It reports false for the value of any other key.
func SharedValue(value string) (phase uint64, limit int, shared bool) {
	rest, is := strings.CutPrefix(value, sharedPrefix)
	fence, bound, two := strings.Cut(rest, " ")
	if !is || !two {
		return 0, 0, false
	}
	phase, err1 := strconv.ParseUint(fence, 10, 64)
	limit, err2 := strconv.Atoi(bound)
	return phase, limit, err1 == nil && err2 == nil
}

// Wants notes that the Claim is of a share of its key.
func (c *Claim) Wants(s Share) { c.needRare().share = s }

// Share returns the share that the Claim is of, and false if it is of whole keys.
func (c *Claim) Share() (Share, bool) {
	if c.rare == nil {
		return Share{}, false
	}
	return c.rare.share, c.rare.share != Share{}
}

// NewToken returns a new token for what the Claim is of.
func (c *Claim) NewToken(owner string) string {
	if s, is := c.Share(); is {
		return s.NewToken(owner)
	}
	return NewToken(owner)
}

// IsShare reports whether the Claim is of a share of its key.
func (c *Claim) IsShare() bool { _, is := c.Share(); return is }

// LimitError says that those who hold a key have another limit. Nothing was done then.
type LimitError struct{ Present int }

func (e *LimitError) Error() string {
	return "the present holders have " + limitText(e.Present)
}

func limitText(limit int) string {
	if limit == 0 {
		return "no limit"
	}
	return fmt.Sprintf("a limit of %d", limit)
}

// Shares calls the scripts about keys that several hold together.
type Shares struct{ calls calls }

// Shares returns what the server does about shared keys.
func (s *Server) Shares() Shares { return s.calls.shares() }

func (s calls) shares() Shares { return Shares{s} }

func (s Shares) params(key, token string, ttl time.Duration, silent bool) gen.AcquireSharedParams {
	p := gen.AcquireSharedParams{
		Lock: key, Holders: slot.Holders(key), Queue: slot.Queue(key), Counter: slot.FenceCounter(key)[0], Grants: s.calls.queue.grants(key),
		Token: token, TTL: ttlParam(ttl), Process: s.calls.queue.process, Barging: s.calls.queue.barging,
	}
	if silent {
		p.Process = ""
	}
	return p
}

// try takes a share, without a place in the queue.
func (s Shares) try(ctx context.Context, c *Claim, r Request) (Answer, error) {
	p := s.params(c.key[0], r.Token, r.TTL, false)
	p.How = gen.AcquireSharedHowTry
	st, err := s.ask(ctx, p)
	return st.Answer, err
}

func (s Shares) ask(ctx context.Context, p gen.AcquireSharedParams) (Standing, error) {
	r, err := s.calls.scripts.AcquireShared(ctx, s.calls.client, p)
	if err == nil && !r.Granted && r.Limit >= 0 {
		err = &LimitError{int(r.Limit)}
	}
	a := Answer{Acquired: r.Granted, Fence: uint64(r.Fence), Held: p.Lock, Left: remaining(r.Remaining)}
	return Standing{a, r.Score, int(r.Ahead)}, err
}

// release gives up shares, in one pipeline.
func (s Shares) release(ctx context.Context, shares []freeing) []gen.Reply[bool] {
	params := make([]gen.ReleaseSharedParams, len(shares))
	for i, f := range shares {
		p := s.params(f.keys[0], f.token, f.ttl, f.silent)
		params[i] = gen.ReleaseSharedParams{
			Lock: p.Lock, Holders: p.Holders, Queue: p.Queue, Counter: p.Counter, Grants: p.Grants, Token: p.Token, TTL: p.TTL, Process: p.Process, Barging: p.Barging,
		}
	}
	return s.calls.scripts.ReleaseSharedBatch(ctx, s.calls.client, params)
}

// extend extends shares, in one pipeline.
func (s Shares) extend(ctx context.Context, list []Extension) []Extended {
	params := make([]gen.ExtendSharedParams, len(list))
	for i, e := range list {
		key := e.Parts[0][0]
		params[i] = gen.ExtendSharedParams{Lock: key, Holders: slot.Holders(key), Token: e.Token, TTL: ttlParam(e.TTL), Former: e.Former}
	}
	answers := make([]Extended, len(list))
	for i, reply := range s.calls.scripts.ExtendSharedBatch(ctx, s.calls.client, params) {
		answers[i].Err = Redact(Redact(reply.Err, list[i].Token), list[i].Former...)
		if reply.Err == nil && !reply.Value {
			answers[i].Lost = params[i].Lock
		}
	}
	return answers
}

// attach is calls.attach for a share, whose lease begins anew.
func (s Shares) attach(ctx context.Context, key, token string, former []string, ttl time.Duration) (lost string, sent clock.Instant, left time.Duration, err error) {
	err = RetryFor(ctx, Patience, func(ctx context.Context) error {
		sent = clock.Now()
		has, err := s.calls.scripts.ExtendShared(ctx, s.calls.client, gen.ExtendSharedParams{
			Lock: key, Holders: slot.Holders(key), Token: token, TTL: ttlParam(ttl), Former: former,
		})
		if err == nil && !has {
			lost = key
		}
		return err
	})
	return lost, sent, ttl, Redact(Redact(err, token), former...)
}

// NotShared is what ChangeLimit returns for a key that nobody shares.
const NotShared = -1

// ChangeLimit changes how many permits of a key there are, and returns how many there were: 0 if
// readers share the key, and NotShared if nobody does. Nothing has changed then.
func (s Shares) ChangeLimit(ctx context.Context, key string, limit int) (former int, err error) {
	p := s.params(key, "", 0, false)
	err = RetryFor(ctx, Patience, func(ctx context.Context) error {
		reply, err := s.calls.scripts.ChangeLimit(ctx, s.calls.client, gen.ChangeLimitParams{
			Lock: p.Lock, Holders: p.Holders, Queue: p.Queue, Grants: p.Grants, Limit: int64(limit),
		})
		former = int(reply)
		return err
	})
	return former, err
}

// Sharer is one of those who share a key.
type Sharer struct {
	Token   string
	Permits int
	End     clock.Instant // of the lease, as that of a Holder
}

// Shared is what the server says of a key that several may hold.
type Shared struct {
	Holder           // its Token is the value of the key
	Phase   uint64   // 0: nobody shares the key
	Limit   int      // of the permits; 0: none
	Sharers []Sharer // in the order in which their leases end
}

// Inspect asks who shares a key.
func (s Shares) Inspect(ctx context.Context, key string) (Shared, error) {
	var (
		r    gen.InspectSharedResult
		sent clock.Instant
	)
	err := RetryTimes(ctx, Attempts, func(ctx context.Context) (err error) {
		sent = clock.Now()
		r, err = s.calls.scripts.InspectShared(ctx, s.calls.client, gen.InspectSharedParams{Lock: key, Holders: slot.Holders(key)})
		return err
	})
	if err == nil && len(r.Members) != len(r.Left) {
		err = &gen.ReplyError{Script: "InspectShared", Reason: errors.New("has another number of leases than of holders")}
	}
	if err != nil {
		return Shared{}, err
	}
	found := Shared{Holder: Holder{Key: key, Held: r.Holder.Valid, Token: r.Holder.V}}
	if !found.Held {
		return found, nil
	}
	found.End = sent.After(remaining(r.Remaining))
	found.Phase, found.Limit, _ = SharedValue(r.Holder.V)
	at := map[string]int{}
	for i, member := range r.Members {
		fields := strings.SplitN(member, " ", 3)
		if len(fields) < 3 {
			return Shared{}, &gen.ReplyError{Script: "InspectShared", Reason: errors.New("has a holder without a token")}
		}
		n, known := at[fields[2]]
		if !known {
			n = len(found.Sharers)
			at[fields[2]] = n
			found.Sharers = append(found.Sharers, Sharer{Token: fields[2], End: sent.After(remaining(r.Left[i]))})
		}
		found.Sharers[n].Permits++
	}
	return found, nil
}

// holderOf returns what the server says of a share: its Token is that one of tokens which has the
// share, and empty if none has.
func (s Shares) holderOf(ctx context.Context, c *Claim, tokens []string) (Holder, error) {
	found, err := s.Inspect(ctx, c.key[0])
	if err != nil {
		return Holder{}, err
	}
	h := Holder{Key: c.key[0], Held: found.Held, End: found.End}
	for _, sharer := range found.Sharers {
		for _, token := range tokens {
			if sharer.Token == token {
				h.Token, h.End = cmp.Or(h.Token, token), sharer.End
			}
		}
	}
	return h, nil
}
