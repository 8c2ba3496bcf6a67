package rlock

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// State is what the server says, or said, about a lock.
type State struct {
	Key    string // Redis key
	Held   bool   // somebody holds it
	Token  string // the holder's; JSON, fmt and slog leave it out, but fmt not in an unexported field of a struct
	Cached bool   // answered from the client-side cache
	Owner  string // what the holder says about itself, see WithOwner; "" when it says nothing

	// Shared says who shares the lock, see AcquireShared; nil: somebody holds the whole lock, or nobody
	// does. From the cache it has the Limit only, as the key says no more; Inspect tells the rest.
	Shared *SharedState

	until       clock.Instant // end of the holder's lease, of which the server said how much is left
	cachedUntil time.Time     // the same, of which the cache says when it is; zero: until is set
}

// Remaining returns what is left of the holder's lease by now: NoExpiry when it never expires, 0 when
// it is over or the lock was free. It counts down from what the server said, from when it was asked, and
// asks nobody now. Where Check has read the cache of the client, it counts from when the answer came, and
// is never more than WithCacheTTL, so never NoExpiry.
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

// MarshalJSON returns the fields but for the token, and Remaining, in nanoseconds.
func (s State) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Key, Owner   string
		Held, Cached bool
		Remaining    time.Duration
		Shared       *SharedState `json:",omitempty"`
	}{s.Key, s.Owner, s.Held, s.Cached, s.Remaining(), s.Shared})
}

// HeldBy reports whether the holder's token is token.
func (s State) HeldBy(token string) bool { return s.Held && s.Token == token }

// Check tells who holds the lock of key and for how long, from the client-side cache: without a round
// trip when the key is in it. It is a hint. The server tells the client when the key changes, so the
// answer is as old as that message takes. If the connection is dead and nobody has noticed yet, or the
// user may not CLIENT CACHING, it may be older, up to WithCacheTTL. Remaining is never more than that
// either.
//
// Where the client has no cache, Check is Inspect. A server that does not answer is asked until ctx
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
		return l.inspect(ctx, "check", full)
	case err != nil:
		return State{}, unanswered(ctx, "check", full, err)
	}
	s := State{Key: full, Held: peeked.Held, Token: peeked.Token, Cached: peeked.Cached}
	if s.Held {
		s.Owner, s.cachedUntil = wire.OwnerIn(s.Token), peeked.Until
		if _, reads, shared := wire.SharedValue(s.Token); shared {
			s.Shared = &SharedState{Readers: reads}
		}
	}
	return s, nil
}

// Inspect asks the server who holds the lock of key and for how long.
func (l *Locker) Inspect(ctx context.Context, key string) (State, error) {
	full, err := l.asking(ctx, "inspect", key)
	if err != nil {
		return State{}, err
	}
	return l.inspect(ctx, "inspect", full)
}

// Verify asks the server whether the lock is still this one's. If it is, the State is that of the key
// with the least time left. If not, the lock ends, the error matches ErrLost, and the State is that of
// the first key that is another's or free. If the lock has ended when the answer is here, the error says
// why. After any other error nobody knows.
func (l *Lock) Verify(ctx context.Context) (State, error) {
	if err := checkCall(ctx, l); err != nil {
		return State{}, err
	}
	defer l.deliver()
	l.mu.Lock()
	l.endIfOver()
	cause, version, tokens := l.cause(), l.terms.Version(), l.terms.Tokens()
	l.unlock()
	if cause != nil {
		return State{}, &LockError{"verify", l.claim.Key(), cause}
	}
	if ctx.Err() != nil {
		return State{}, &LockError{"verify", l.claim.Key(), clock.ContextError(ctx, nil)}
	}
	holders, err := l.locker.wire.Confirm(ctx, &l.claim, tokens)
	if err != nil {
		return State{}, unanswered(ctx, "verify", l.claim.Key(), err)
	}
	least := stateOf(holders[0])
	for _, h := range holders {
		is, again := l.lease.endIfLost(h.Token, version)
		s := stateOf(h)
		switch {
		case again: // the lock has got another token meanwhile
			return l.Verify(ctx)
		case is:
			return s, &LockError{"verify", s.Key, l.cause()}
		}
		if s.until < least.until {
			least = s
		}
	}
	if cause := l.Err(); cause != nil { // the answer came too late
		return State{}, &LockError{"verify", l.claim.Key(), cause}
	}
	return least, nil
}

// inspect asks the server about a key. The call is told of as op.
func (l *Locker) inspect(ctx context.Context, op, key string) (State, error) {
	claim := wire.One(key)
	holders, err := l.wire.Inspect(ctx, &claim)
	if err != nil {
		return State{}, unanswered(ctx, op, key, err)
	}
	if _, _, shared := wire.SharedValue(holders[0].Token); shared {
		return l.inspectShared(ctx, op, key)
	}
	return stateOf(holders[0]), nil
}

// stateOf is what the server says of a key.
func stateOf(h wire.Holder) State {
	return State{Key: h.Key, Held: h.Held, Token: h.Token, Owner: wire.OwnerIn(h.Token), until: h.End}
}

// Waiter is a process that waits for a lock.
type Waiter struct {
	Owner   string    // what it says about itself, see WithOwner; "" when it says nothing
	Since   time.Time // when it began to wait, by the clock of the server
	Permits int       // that it wants; 0: the whole lock
	Limit   int       // of the permits that it wants; 0: none, it is a reader or wants the whole lock
}

// Waiters asks the server who waits for the lock of key, in the order in which they get it, the first thousand
// at most. A process with several callers who wait is one Waiter, and so is a set that waits for this key. A
// process that has died stays in the list until the lock would be passed on to it. Who stands in no queue is not
// in the list: callers of other libraries, and those whose user lacks the right to it.
func (l *Locker) Waiters(ctx context.Context, key string) ([]Waiter, error) {
	full, err := l.asking(ctx, "list waiters", key)
	if err != nil {
		return nil, err
	}
	found, err := l.wire.Waiters(ctx, full)
	if err != nil {
		return nil, unanswered(ctx, "list waiters", full, err)
	}
	all := make([]Waiter, len(found))
	for i, w := range found {
		all[i] = Waiter{Owner: wire.OwnerIn(w.Token), Since: w.Since}
		if share, _, is := wire.ShareOf(w.Token); is {
			all[i].Permits, all[i].Limit = share.Permits, share.Limit
		}
	}
	return all, nil
}

// inspectShared asks the server who shares a key.
func (l *Locker) inspectShared(ctx context.Context, op, key string) (State, error) {
	found, err := l.wire.InspectShared(ctx, key)
	if err != nil {
		return State{}, unanswered(ctx, op, key, err)
	}
	s := stateOf(found.Holder)
	if found.Phase == 0 {
		return s, nil
	}
	s.Shared = &SharedState{Readers: found.Reads}
	for i := range found.Sharers {
		h := &found.Sharers[i]
		s.Shared.Permits += h.Permits
		share, _, _ := wire.ShareOf(h.Token)
		s.Shared.Limit = max(s.Shared.Limit, share.Limit)
		s.Shared.Holders = append(s.Shared.Holders, Sharer{
			wire.OwnerIn(h.Token), h.Permits, share.Limit, &h.Token, h.End,
		})
	}
	return s, nil
}

// SharedState says who shares a lock.
type SharedState struct {
	Readers bool     // readers share it; false: they have permits
	Limit   int      // the highest that a holder of permits has named; 0: not known, or there is none
	Permits int      // how many are in use; of readers, how many holders: several of a process may be one
	Holders []Sharer // in the order in which their leases end
}

// Sharer is one of those who share a lock.
type Sharer struct {
	Owner   string // what the holder says about itself, see WithOwner; "" when it says nothing
	Permits int    // that it has
	Limit   int    // that it has named; 0: it is a reader

	token *string // a pointer, because package fmt would show a string
	until clock.Instant
}

// Token returns the token of the holder, for ForceRelease.
func (s Sharer) Token() string {
	if s.token == nil {
		return ""
	}
	return *s.token
}

// Remaining returns what is left of the holder's lease by now: NoExpiry when it never expires.
func (s Sharer) Remaining() time.Duration { return max(s.until.Until(), 0) }
