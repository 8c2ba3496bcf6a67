package rlock

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// State is what the server says, or said, about a lock. Package rlockadmin tells more: all who share it, and
// who waits for it.
type State struct {
	Key    string // Redis key
	Held   bool   // somebody holds it
	Shared bool   // readers share it, or holders of permits
	Owner  string // what its only holder says about itself, see WithOwner; "" when it says nothing
	Cached bool   // answered from the client-side cache

	token       string
	until       clock.Instant // end of the holder's lease, of which the server said how much is left
	cachedUntil time.Time     // the same, of which the cache says when it is; zero: until is set
}

// Token returns the value that the key has: the token of the holder, "" if the lock is free. Packages fmt,
// log/slog and encoding/json do not show it, but for fmt if the State is an unexported field of a struct.
func (s State) Token() string { return s.token }

// Remaining returns what is left of the holder's lease by now: NoExpiry when it never expires, 0 when
// it is over or the lock is free. From the cache it is never more than WithCacheTTL, so never NoExpiry.
func (s State) Remaining() time.Duration {
	switch {
	case !s.Held:
		return 0
	case s.cachedUntil.IsZero():
		return max(s.until.Until(), 0)
	default:
		return max(time.Until(s.cachedUntil), 0)
	}
}

// MarshalJSON returns the fields, and Remaining in nanoseconds.
func (s State) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Key, Owner           string
		Held, Shared, Cached bool
		Remaining            time.Duration
	}{s.Key, s.Owner, s.Held, s.Shared, s.Cached, s.Remaining()})
}

// stateOf is what the server says of a key.
func stateOf(h wire.Holder) State {
	s := State{Key: h.Key, Held: h.Held, until: h.End}
	if h.Held {
		s.Owner, s.token = wire.OwnerIn(h.Token), h.Token
		_, _, s.Shared = wire.SharedValue(h.Token)
	}
	return s
}

// Check tells who holds the lock of key and for how long, from the client-side cache: without a round trip
// when the key is in it. It is a hint, as old as the server's message about a change takes, or up to
// WithCacheTTL if a connection is dead and nobody has noticed yet, or the user may not CLIENT CACHING. Where
// the client has no cache, or not all its commands (MULTI), Check asks the server, until ctx ends.
func (l *Locker) Check(ctx context.Context, key string) (State, error) {
	full, err := l.asking(ctx, "check", key)
	if err != nil {
		return State{}, err
	}
	peeked, err := l.wire.Peek(ctx, full, l.defaults.cacheTTL)
	if err == nil && peeked.Cached {
		l.counters.hits.Add(1)
	} else {
		l.counters.misses.Add(1)
	}
	switch {
	case errors.Is(err, wire.ErrUncached):
		claim := wire.One(full)
		holders, err := l.wire.Inspect(ctx, &claim)
		if err != nil {
			return State{}, unanswered(ctx, "check", full, err)
		}
		return stateOf(holders[0]), nil
	case err != nil:
		return State{}, unanswered(ctx, "check", full, err)
	}
	s := stateOf(wire.Holder{Key: full, Held: peeked.Held, Token: peeked.Token})
	s.Cached = peeked.Cached
	if s.Held {
		s.cachedUntil = peeked.Until
	}
	return s, nil
}

// Verify asks the server whether the lock is still this one's. Nil says that all its keys are. If one is
// not, the lock ends, and the error matches ErrLost. If the lock has ended when the answer is here, the
// error says why. After any other error nobody knows.
func (l *Lock) Verify(ctx context.Context) error {
	if err := checkCall(ctx, l); err != nil {
		return err
	}
	defer l.deliver()
	l.mu.Lock()
	l.endIfOver()
	cause, version, tokens := l.cause(), l.terms.Version(), l.terms.Tokens()
	l.unlock()
	if cause != nil {
		return &LockError{"verify", l.claim.Key(), cause}
	}
	if ctx.Err() != nil {
		return &LockError{"verify", l.claim.Key(), clock.ContextError(ctx, nil)}
	}
	holders, err := l.locker.wire.Confirm(ctx, &l.claim, tokens)
	if err != nil {
		return unanswered(ctx, "verify", l.claim.Key(), err)
	}
	for _, h := range holders {
		switch is, again := l.lease.endIfLost(h.Token, version); {
		case again: // the lock has got another token meanwhile
			return l.Verify(ctx)
		case is:
			return &LockError{"verify", h.Key, l.cause()}
		}
	}
	if cause := l.Err(); cause != nil { // the answer came too late
		return &LockError{"verify", l.claim.Key(), cause}
	}
	return nil
}
