package wire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Freed says what became of the keys of a Claim.
type Freed uint8

const (
	// Missing: some keys had none of the tokens. They were gone or had another token.
	Missing Freed = iota
	// Perhaps: some keys had none of the tokens, and a release without an answer may have freed them.
	Perhaps
	// Free: all keys were freed.
	Free
)

// Release frees the keys that have the token or a former one, even after ctx has ended: see RetryDetached.
// After an error the reaper goes on, unless that is hopeless, and the caller may call Release again. The
// Claim adds up what all calls have freed. If user code panics, the caller must call ReleaseLater.
func (s *Server) Release(ctx context.Context, c *Claim, token string, former []string) (Freed, error) {
	err := RetryDetached(ctx, Patience, func(ctx context.Context) error {
		return s.calls.tryRelease(ctx, c, token, former)
	})
	return s.released(c, token, former, err)
}

// ReleaseWhile frees a key that another acquisition has taken. It repeats the command for Patience while
// ctx lasts, and leaves nothing to the reaper.
func (s *Server) ReleaseWhile(ctx context.Context, key, token string) (freed Freed, err error) {
	c := One(key)
	err = RetryFor(ctx, Patience, func(ctx context.Context) error {
		return s.calls.tryRelease(ctx, &c, token, nil)
	})
	if err != nil {
		return Missing, err
	}
	return c.freed()
}

func (s calls) tryRelease(ctx context.Context, c *Claim, token string, former []string) error {
	if len(former) > 0 || c.SpansSlots() {
		return s.tryReleaseEach(ctx, []*Freeing{{Claim: c, Token: token, Former: former}})[0]
	}
	reply := s.releaseOne(ctx, releaseCall{keys: c.Keys(), token: token})
	return c.tally.add(reply, c.Keys(), token)
}

// Freeing is one of many releases.
type Freeing struct {
	Claim  *Claim
	Token  string
	Former []string
	Freed  Freed
	Err    error
}

// ReleaseEach is Release for many Claims at once. It sets Freed or Err of each Freeing.
func (s *Server) ReleaseEach(ctx context.Context, all []*Freeing) {
	_ = RetryDetached(ctx, Patience, Remaining(all, s.calls.tryReleaseEach))
	for _, f := range all {
		f.Freed, f.Err = s.released(f.Claim, f.Token, f.Former, f.Err)
	}
}

// tryReleaseEach makes one try for each Freeing, all at once. It sets Err of each, and returns these
// errors.
func (s calls) tryReleaseEach(ctx context.Context, all []*Freeing) []error {
	var calls []releaseCall
	for _, f := range all {
		for _, keys := range f.Claim.BySlot() {
			for _, token := range tokens(f.Token, f.Former) {
				calls = append(calls, releaseCall{keys: keys, token: token})
			}
		}
	}
	replies := s.releaseAll(ctx, calls)
	errs := make([]error, len(all))
	next := 0
	for i, f := range all {
		first := next
		for part := range f.Claim.BySlot() {
			for range 1 + len(f.Former) {
				call := &calls[next]
				replies[next].Err = f.Claim.tallyOf(part).add(replies[next], call.keys, call.token)
				next++
			}
		}
		f.Err = Combine(replies[first:next])
		errs[i] = f.Err
	}
	return errs
}

// add takes the answer to a release of keys that have a token, and returns its error.
func (t *tally) add(reply redislua.Reply[int64], keys []string, token string) error {
	err := Redact(reply.Err, token)
	if OutcomeOf(err) == Indeterminate {
		t.perhaps = t.perhaps || !unsent(err)
	}
	switch freed, n := reply.Value, int64(len(keys)); {
	case freed < 0 || freed > n:
		t.freed = int32(n + 1) // see wrong
	case freed > 0:
		t.freed = int32(min(int64(t.freed)+freed, n))
	}
	return err
}

// state returns what became of the keys, by all answers so far.
func (t *tally) state(keys []string) Freed {
	switch {
	case int(t.freed) >= len(keys):
		return Free
	case t.perhaps: // one call may free some keys: perhaps those that the other calls have not found
		return Perhaps
	}
	return Missing
}

// wrong refuses an impossible answer, and forgets it.
func (t *tally) wrong(keys []string) error {
	if n := len(keys); int(t.freed) > n {
		t.freed = 0
		return fmt.Errorf("the server answers that it freed a number of keys that is not between 0 and %d: "+
			"something between them changes answers", n)
	}
	return nil
}

// freed returns what became of the keys, by all answers so far.
func (c *Claim) freed() (Freed, error) {
	if !c.SpansSlots() {
		return c.tally.state(c.Keys()), c.tally.wrong(c.Keys())
	}
	all := Free
	for i := range c.rare.parts {
		p := &c.rare.parts[i]
		if err := p.tally.wrong(p.keys); err != nil {
			return Missing, err
		}
		all = min(all, p.tally.state(p.keys))
	}
	return all, nil
}

// released handles the result of the last try of a release.
func (s *Server) released(c *Claim, token string, former []string, err error) (freed Freed, _ error) {
	if err == nil {
		freed, err = c.freed()
	}
	switch {
	case err == nil && c.Settled():
	case err == nil:
		// Commands of the acquisition may still reach the server, find the keys free, and take them.
		s.Abandon(c, tokens(token, former), clock.NoExpiry)
	case !c.hopeless(err) && !c.Chosen():
		s.ReleaseLater(c, token, former, clock.Past)
	}
	return freed, err
}

// ReleaseLater lets the reaper go on with a release. The release got an error, or user code ended it with a
// panic or runtime.Goexit, so it is not known what it freed. The reaper frees nothing before until.
func (s *Server) ReleaseLater(c *Claim, token string, former []string, until clock.Instant) {
	c.perhapsFreed()
	s.FreeLater(c, token, former, until)
}

// FreeLater lets the reaper free keys that no caller uses any more, but nothing before until. Like Abandon,
// it may run beside a release: it does not change what the Claim adds up.
func (s *Server) FreeLater(c *Claim, token string, former []string, until clock.Instant) {
	// An extension without an answer may have made the lease longer than every known TTL.
	abandon := func() { s.Abandon(c, tokens(token, former), clock.NoExpiry) }
	if now := clock.Now(); now < until && !c.Chosen() {
		time.AfterFunc(until.From(now), abandon)
		return
	}
	abandon()
}

// tokens returns all tokens in the order of their releases.
func tokens(token string, former []string) []string {
	return append(former[:len(former):len(former)], token)
}

// hopeless reports whether every further try of a release would fail with the same error. It would if the
// client is closed, or if a key has another type than a lock. In the second case the keys of other slots
// may still be freed.
func (c *Claim) hopeless(err error) bool {
	var server *rueidis.RedisError
	return errors.Is(err, rueidis.ErrClosing) ||
		!c.SpansSlots() && errors.As(err, &server) && strings.HasPrefix(server.Error(), "WRONGTYPE")
}
