package wire

import (
	"context"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Shortening is the release of keys that must not be free before Until. The keys get Token in place of the
// former tokens, and a lease that ends at Until. So a late command with a former token cannot change their
// lease. Freed means that the keys have this lease.
type Shortening struct {
	Freeing
	Until clock.Instant
}

// ShortenEach sends a call for each Shortening in one round trip, even after ctx has ended. It sets Freed
// or Err of each. After an error, the keys stay until Until or until their lease ends, whichever is
// earlier. The caller may then call ShortenEach again. If user code panics, the caller must call
// ReleaseLater.
func (s *Server) ShortenEach(ctx context.Context, all []*Shortening) {
	_ = RetryDetached(ctx, Patience, Remaining(all, func(ctx context.Context, some []*Shortening) []error {
		return s.shortenEach(ctx, some)
	}))
	for _, sh := range all {
		switch c := sh.Claim; {
		case sh.Err == nil:
			if !c.Settled() { // commands of the acquisition may still reach the server
				s.Abandon(c, sh.Former, clock.NoExpiry)
			}
		case !c.hopeless(sh.Err):
			s.ReleaseLater(c, sh.Token, sh.Former, sh.Until)
		}
	}
}

// shortenEach makes one try for each Shortening, in one pipeline.
func (s *Server) shortenEach(ctx context.Context, some []*Shortening) []error {
	list, errs := make([]Extension, len(some)), make([]error, len(some))
	now := clock.Now()
	for i, sh := range some {
		left := time.Duration(sh.Until - now)
		left = max(left+time.Millisecond-1, time.Millisecond).Truncate(time.Millisecond)
		list[i] = Extension{Parts: sh.Claim.BySlot(), Token: sh.Token, Former: sh.Former, TTL: left}
	}
	for i, answer := range s.calls.extendEach(ctx, list) {
		sh := some[i]
		sh.Err, errs[i] = answer.Err, answer.Err
		switch {
		case OutcomeOf(answer.Err) == Indeterminate:
			sh.Claim.perhapsFreed()
		case answer.Err != nil:
		case answer.Lost == "":
			sh.Freed = Free
		default:
			sh.Freed = sh.Claim.tallyOf(0).state(sh.Claim.Keys())
			sh.Err = s.shortenRest(ctx, list[i])
			errs[i] = sh.Err
		}
	}
	return errs
}

// shortenRest makes the call for each key by itself. One key of the set has another token, and the other
// keys must get the short lease all the same.
func (s *Server) shortenRest(ctx context.Context, e Extension) error {
	var parts [][]string
	for _, keys := range e.Parts {
		for i := range keys {
			parts = append(parts, keys[i:i+1])
		}
	}
	if len(parts) == 1 {
		return nil
	}
	e.Parts = parts
	return s.calls.extendEach(ctx, []Extension{e})[0].Err
}

// perhapsFreed notes that a release has got no answer.
func (c *Claim) perhapsFreed() {
	for i := range c.BySlot() {
		c.tallyOf(i).perhaps = true
	}
}
