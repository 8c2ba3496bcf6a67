package wire

import (
	"context"
	"time"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// A key gets another token in one of three ways. It is handed over to the next caller of this process. It
// is passed on to the process that waits first. Or a process with a Handoff attaches it.

// Handed says what HandOver has done.
type Handed struct {
	Over     bool // the key has the next token
	Sent     clock.Instant
	Fence    uint64 // the first reserved fence
	Reserved int
	Waits    time.Duration // for how long another process has waited for the key; 0: none waits
}

// HandOver gives a key that has token the token and the lease of next. If next is fenced, it also reserves
// fences. It sends one command, once. After an error that is Indeterminate, the key may have either token.
func (s *Server) HandOver(
	ctx context.Context, c *Claim, token string, next Request, fences int,
) (h Handed, err error) {
	c.tally.perhaps = true // until the answer
	h, err = s.handOver(ctx, c.key[0], token, next, fences)
	if OutcomeOf(err) != Indeterminate {
		c.tally.perhaps = false
	}
	return h, err
}

// AskHeld returns what HandOver would say of a key that has token. If fenced, it also reserves fences. It
// changes neither the token nor the lease of the key: the script takes the call for a repeated hand-over to
// that token, and keeps the longer lease. So a late AskHeld does no harm.
func (s *Server) AskHeld(ctx context.Context, key, token string, fenced bool, fences int) (Handed, error) {
	next := Request{Token: token, TTL: time.Millisecond, Fenced: fenced}
	return s.handOver(ctx, key, NewToken(""), next, fences)
}

func (s *Server) handOver(
	ctx context.Context, key, token string, next Request, fences int,
) (h Handed, err error) {
	params := gen.HandOverParams{
		Lock: key, Queue: key, Token: token, Next: next.Token, TTL: ttlParam(next.TTL), Fences: int64(fences),
	}
	if next.Fenced {
		params.Counter = slot.FenceCounter(key)
	}
	if s.queues.Used() {
		params.Queue, params.Barging = slot.Queue(key), s.calls.queue.barging
	}
	h.Sent = clock.Now()
	reply, err := s.calls.locks.HandOver(ctx, s.calls.client, params)
	err = Redact(err, token, next.Token)
	if OutcomeOf(err) != Indeterminate {
		s.roundTrip.note(h.Sent)
	}
	h.Over, h.Fence, h.Reserved = err == nil && reply.HandedOver, uint64(reply.Fence), int(reply.Fences)
	h.Waits = time.Duration(reply.Waits) * time.Microsecond
	return h, err
}

// Passed says what Pass has done.
type Passed struct {
	Freed bool // the key had the token, and no longer has it
	Standing
}

// Pass releases a key that has token. The first place in the queue gets the key, and next gets a place
// behind all others. If no other process waits, next gets the key. Pass sends one command, once. After an
// error the caller does not know what the server has done.
func (q *Queues) Pass(
	ctx context.Context, c *Claim, token string, next Request, silent bool,
) (p Passed, err error) {
	names := slot.NamesOf(c.key[0])
	params := gen.RequeueParams{
		Lock: c.key[0], Queue: names.Queue, Waiters: names.Waiters, Holders: names.Holders,
		Grants: q.calls.queue.grants(c.key[0]), Counter: slot.FenceCounter(c.key[0]),
		Token: token, Again: next.Token, TTL: ttlParam(next.TTL),
		Process: q.calls.queue.process, Barging: q.calls.queue.barging,
	}
	if silent {
		params.Process = ""
	}
	c.tally.perhaps = true // until the answer
	sent := clock.Now()
	reply, err := q.calls.scripts.Requeue(ctx, q.calls.client, params)
	err = Redact(err, token, next.Token)
	if OutcomeOf(err) != Indeterminate {
		c.tally.perhaps = false
	}
	p.Freed = err == nil && reply.Freed
	p.Standing.Answer = Answer{
		Sent: sent, Acquired: reply.Granted, Fence: uint64(reply.Fence), Left: remaining(reply.Remaining),
	}
	p.Score = reply.Score
	return p, err
}

// Attached says what Attach has found.
type Attached struct {
	Lost      bool          // a key has none of the tokens
	Key       string        // that key, or a key that an error is about
	End       clock.Instant // the earliest end of the leases
	Remaining time.Duration // of the longest lease; clock.NoExpiry: a lease never ends
}

// Attach gives the keys the token in place of the tokens of a Handoff. It tries while ctx lasts, and for
// Patience in each slot. A share gets a new lease of ttl, and whole keys keep their lease. Attach asks one
// slot after the other. So if two callers have the same former tokens, only one gets past the first slot.
//
// If a key is lost, the keys of its slot have not changed. The reaper frees the keys of the slots before
// it, unless the caller chose the token. After an error the keys may have the new token. If no key is lost,
// no caller has the former tokens any more, and the reaper takes back what late calls take for them.
func (s *Server) Attach(
	ctx context.Context, c *Claim, token string, h *Handoff, ttl time.Duration,
) (Attached, error) {
	a, err := s.attachEach(ctx, c, token, h.Tokens(), ttl)
	if err == nil && h.Late && !a.Lost { // otherwise another Attach may get the keys, and then does the same
		former := s.All(c.Keys(), true)
		former.Unsettle(h.Tokens()[0])
		s.Abandon(&former, h.Tokens(), clock.NoExpiry)
	}
	return a, err
}

func (s *Server) attachEach(
	ctx context.Context, c *Claim, token string, former []string, ttl time.Duration,
) (Attached, error) {
	whole := Attached{End: clock.Never}
	for done, keys := range c.BySlot() {
		lost, sent, left, err := s.calls.attach(ctx, keys, token, former, ttl)
		switch {
		case err != nil:
			return Attached{Key: keys[0]}, err
		case lost != "":
			if done > 0 {
				s.Abandon(c, []string{token}, clock.NoExpiry)
			}
			return Attached{Lost: true, Key: lost}, nil
		}
		whole.End = min(whole.End, clock.LeaseEnd(sent, left))
		whole.Remaining = max(whole.Remaining, left)
	}
	return whole, nil
}

// attach is Attach for keys of one slot.
func (s calls) attach(
	ctx context.Context, keys []string, token string, former []string, ttl time.Duration,
) (lost string, sent clock.Instant, left time.Duration, err error) {
	p := gen.AttachParams{Keys: keysOf(keys, token), Token: token, Keep: true, Former: former}
	if isShare(token) {
		p.Keep, p.TTL = false, ttlParam(ttl)
	}
	err = RetryFor(ctx, Patience, func(ctx context.Context) error {
		sent = clock.Now()
		r, err := s.scripts.Attach(ctx, s.client, p)
		if err == nil && r.Position != 0 {
			lost = slot.KeyAt(keys, r.Position)
		}
		left = remaining(r.Remaining)
		return err
	})
	return lost, sent, left, Redact(Redact(err, token), former...)
}
