package rlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/text"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Attach continues a lock that Lock.Detach has ended, in this process or another. The lock keeps its keys,
// its fence and the rest of its lease. A share gets a new lease. WithTTL (for later extensions),
// WithAutoExtend, WithToken, WithOwner and WithObserver have an effect.
//
// The keys get a new token, so no command of the former process has an effect, and the Handoff is used up.
// The error matches ErrLost if the lock was lost, or if a caller has used the Handoff before. If one key of a
// set was lost, the server frees the others. After any other error, call Attach again with the same Handoff
// value, or in any process with the same WithToken.
func (l *Locker) Attach(ctx context.Context, handoff Handoff, opts ...Option) (*Lock, error) {
	// The Handoff says how long others are kept out.
	given, err := l.begin(ctx, append(slices.Clip(opts), WithMinHold(0)))
	if err == nil {
		err = l.onRedis("Attach")
	}
	if err != nil {
		return nil, err
	}
	set := *given
	h := handoff.shared
	switch {
	case h == nil:
		return nil, invalid("handoff", "it is of no lock; use the one that Detach returned, or UnmarshalText")
	case slices.Contains(h.Tokens(), set.token):
		return nil, invalid("WithToken", "it is the token of the former owner; choose another, or leave it out")
	}
	// If the keys span several slots, the former holder took them WithCrossSlot.
	set.prefix, set.crossSlot = "", true
	full, err := l.redisKeys(&set, h.Keys)
	switch {
	case err != nil:
		return nil, err
	case l.isStopping():
		return nil, &LockError{"attach", full[0], ErrClosed}
	case ctx.Err() != nil:
		return nil, &LockError{"attach", full[0], clock.ContextError(ctx, nil)}
	}
	if l.underway.Enter() {
		defer l.underway.Leave()
	}
	claim := l.wire.All(full, true)
	if share, _, is := wire.ShareOf(h.Tokens()[0]); is {
		if set.token != "" {
			return nil, invalid("WithToken", "a share has a token of its own kind; leave the option out")
		}
		claim.Wants(share)
	}
	lock := l.newLock(ctx, claim, &set, method{}, clock.Now())
	lock.fence, lock.attempts = h.Fence, 1
	if set.token == "" {
		lock.terms.SetToken(h.Begin(set.owner))
	}
	spent := false
	defer func() { h.End(lock.terms.Token(), spent) }()
	if err := lock.takeOver(ctx, h); err != nil {
		spent = errors.Is(err, ErrNotHeld) && !errors.Is(err, ErrClosed)
		return nil, err
	}
	defer func() {
		if !spent { // the observer has panicked: the caller has only the Handoff
			_, _ = lock.Detach()
		}
	}()
	lock.events.tell(false)
	spent = true
	return lock, nil
}

// takeOver replaces the tokens of a Handoff by the token of the lock, and begins the lease with the rest of
// theirs.
func (l *Lock) takeOver(ctx context.Context, h *wire.Handoff) error {
	a, err := l.locker.wire.Attach(ctx, &l.claim, l.terms.Token(), h, l.terms.TTL())
	switch {
	case err != nil:
		return unanswered(ctx, "attach", a.Key, err)
	case a.Lost:
		return &LockError{"attach", a.Key, ErrLost}
	}
	l.terms.Resume(a.Remaining, a.End)
	how := arrival{kind: EventAttached, start: l.since, minHold: min(h.MinHold, a.Remaining)}
	if cause := l.hold(a.End, l.fence, how); cause != nil {
		return &LockError{"attach", l.claim.Key(), cause}
	}
	return nil
}

// Detach ends the handle and keeps the lock, so another process can continue with Attach. The handle ends
// with ErrDetached. The lease runs on without extensions. A second Detach returns the same Handoff. Detach
// fails if the lock has ended in another way. It also fails for a share that several readers of the process
// have together (see WithUniqueToken).
func (l *Lock) Detach() (Handoff, error) {
	err := l.usable()
	if err == nil {
		err = l.locker.onRedis("Detach")
	}
	if err != nil {
		return Handoff{}, err
	}
	defer l.deliver()
	l.mu.Lock()
	defer l.unlock()
	l.endIfOver()
	if l.cause() == nil && !l.alone() {
		return Handoff{}, invalid("WithUniqueToken",
			"other readers of this process have the same share; acquire the share WithUniqueToken(true)")
	}
	if cause := l.finish(stateDetached); cause != detached {
		return Handoff{}, &LockError{"detach", l.claim.Key(), cause}
	}
	l.needExtras()
	if l.handoff == nil {
		l.handoff = l.locker.wire.HandoffOf(&l.claim, l.terms.Tokens(), l.fence)
		if until := l.keptUntil(); until != clock.Past {
			l.handoff.MinHold = max(until.Until(), 0)
		}
	}
	return Handoff{l.handoff}, nil
}

// Handoff has the keys, the token and the fence of a lock after Lock.Detach, for Locker.Attach. Store it or
// send it to another process as text: encoding/json and other encoders convert it by themselves. It is good
// for one Attach. A program with the text can take the lock over, so keep the text like a password. Packages
// fmt and log/slog do not show the token.
type Handoff struct{ shared *wire.Handoff }

// Keys returns the Redis keys with the prefix.
func (h Handoff) Keys() []string {
	if h.shared == nil {
		return nil
	}
	return slices.Clone(h.shared.Keys)
}

// Fence returns the fence of the lock.
func (h Handoff) Fence() uint64 {
	if h.shared == nil {
		return 0
	}
	return h.shared.Fence
}

// String returns the first key, the number of other keys, and the fence.
func (h Handoff) String() string {
	if h.shared == nil {
		return "handoff of no lock"
	}
	return "handoff of " + text.Keys(h.shared.Keys[0], len(h.shared.Keys), h.shared.Fence)
}

// Format writes String for every verb of package fmt.
func (h Handoff) Format(f fmt.State, _ rune) { io.WriteString(f, h.String()) }

// LogValue returns the content of String for slog.
func (h Handoff) LogValue() slog.Value {
	if h.shared == nil {
		return slog.StringValue(h.String())
	}
	return slog.GroupValue(text.KeysAttrs(h.shared.Keys[0], len(h.shared.Keys), h.shared.Fence)...)
}

// MarshalText returns the Handoff, with the token, as one line of letters, digits and "-_:".
func (h Handoff) MarshalText() ([]byte, error) {
	if h.shared == nil {
		return nil, invalid("handoff", "it is of no lock; use the one that Detach returns")
	}
	return h.shared.Text(), nil
}

// UnmarshalText reads the text of MarshalText. An error matches ErrInvalid, shows nothing of the text, and
// leaves h unchanged.
func (h *Handoff) UnmarshalText(text []byte) error {
	shared, err := wire.ParseHandoff(text)
	if err != nil {
		return invalid("handoff", err.Error())
	}
	h.shared = shared
	return nil
}
