package rlock

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// State is the answer of the server about a lock. Package rlockadmin tells more: all sharers, and all
// waiters.
type State struct {
	Key    string // Redis key
	Held   bool   // a token holds the lock
	Shared bool   // readers or holders of permits share the lock
	Owner  string // the WithOwner text of the only holder; "" if there is none
	Cached bool   // answered from the client-side cache

	token       string
	until       clock.Instant // end of the holder's lease, by the time left that the server reported
	cachedUntil time.Time     // the same, from the cache; zero: until is set
}

// Token returns the value of the key: the token of the holder, or "" if the lock is free. Packages fmt,
// log/slog and encoding/json do not show it. The exception is fmt for a State in an unexported field of a
// struct.
func (s State) Token() string { return s.token }

// Remaining returns the time left of the holder's lease now. It is NoExpiry if the lease never ends, and 0 if
// the lease is over or the lock is free. From the cache it is at most WithCacheTTL, so never NoExpiry.
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

// stateOf returns the State for the server's answer about a key.
func stateOf(h wire.Holder) State {
	s := State{Key: h.Key, Held: h.Held, until: h.End}
	if h.Held {
		s.Owner, s.token = wire.OwnerIn(h.Token), h.Token
		_, _, s.Shared = wire.SharedValue(h.Token)
	}
	return s
}

// Check returns who holds the lock of key, and for how long. If the client-side cache has the key, Check
// needs no round trip. The answer is a hint: Check sees a change of the lock when the invalidation of the key
// arrives. In two cases Check sees the change only when WithCacheTTL is over: the connection is dead and the
// client has not noticed, or the user may not call CLIENT CACHING. If the client has no cache, or the
// server lacks a command for the cache (MULTI), Check asks the server. It waits for the answer until ctx
// ends.
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

// Verify asks the server whether this lock still has its keys. Nil means that it has all of them. If a key
// has another token, or is gone, the lock ends and the error matches ErrLost. If the lock has ended before
// the answer comes, the error says why. After any other error the state of the keys is unknown.
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
	if cause := l.Err(); cause != nil { // the answer came after the end of the lock
		return &LockError{"verify", l.claim.Key(), cause}
	}
	return nil
}
