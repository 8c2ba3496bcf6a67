package rlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// Attach continues a lock that its former owner, most often another process, has ended with
// Lock.Detach. It takes the Handoff that Detach returned. It does not put the Locker's prefix
// before the keys, because the Handoff has the whole Redis keys.
//
// The server gives all keys a new token in one step; for a set that was taken WithCrossSlot,
// in one step for each slot. From then on no command of the former process has an effect, and
// the Handoff is spent. If another token has a key, because the lock was lost or the Handoff
// was used before, the error is ErrLost and nothing is changed. Of a set of several slots, the
// slots before that key's may have the new token: the Locker frees their keys in the background
// or, with WithToken, leaves them to their leases. After any other error the keys may have the
// new token: call Attach again with the same Handoff value (not one that was read from the text
// once more), or with the same WithToken, also in another process.
//
// The lock keeps its fence, because it was held all the time, and what is left of its lease; a
// share (see AcquireShared) gets a new one.
// These options have an effect: WithTTL, for later automatic extensions, WithAutoExtend,
// WithToken, WithOwner and WithObserver.
func (l *Locker) Attach(ctx context.Context, handoff Handoff, opts ...Option) (*Lock, error) {
	given, err := l.begin(ctx, opts)
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
	// If the keys are of several slots, the former holder took them WithCrossSlot.
	set.prefix, set.crossSlot = "", true
	full, err := l.redisKeys(&set, h.Keys)
	switch {
	case err != nil:
		return nil, err
	case l.isClosed():
		return nil, &LockError{"attach", full[0], ErrClosed}
	case ctx.Err() != nil:
		return nil, &LockError{"attach", full[0], clock.ContextError(ctx, nil)}
	}
	claim := l.remote.All(full, true)
	if share, _, is := remote.ShareOf(h.Tokens()[0]); is {
		if set.token != "" {
			return nil, invalid("WithToken", "a share has a token of its own kind; leave the option out")
		}
		claim.Wants(share)
	}
	lock := l.newLock(ctx, claim, &set, wanted{}, clock.Now())
	lock.fence, lock.attempts = h.Fence, 1
	if set.token == "" {
		lock.lease.SetToken(h.Begin(set.owner))
	}
	spent := false
	defer func() { h.End(lock.lease.Token(), spent) }()
	if err := lock.takeOver(ctx, h); err != nil {
		spent = errors.Is(err, ErrNotHeld) && !errors.Is(err, ErrClosed)
		return nil, err
	}
	defer func() {
		if !spent { // the observer has panicked: the caller has no handle but the Handoff
			_, _ = lock.Detach()
		}
	}()
	lock.events.tell(false)
	spent = true
	return lock, nil
}

// takeOver gives the keys the lock's token in place of the tokens of a Handoff, and begins the
// lease with what is left of theirs.
func (l *Lock) takeOver(ctx context.Context, h *remote.Handoff) error {
	a, err := l.locker.remote.Attach(ctx, &l.claim, l.lease.Token(), h.Tokens(), l.lease.TTL())
	switch {
	case err != nil:
		return &LockError{"attach", a.Key, err}
	case a.Lost:
		return &LockError{"attach", a.Key, ErrLost}
	}
	l.lease.Resume(a.Remaining, a.End)
	if cause := l.hold(a.End, l.fence, arrival{kind: EventAttached, start: clock.Now(), atLeast: min(h.AtLeast, a.Remaining)}); cause != nil {
		return &LockError{"attach", l.claim.Key(), cause}
	}
	return nil
}

// Detach ends the handle without releasing the lock, so that another process can continue
// it: give the Handoff to Attach. The handle ends with ErrDetached, automatic extensions stop,
// and the lease runs on. Detach fails if the lock has already ended in another way. A command
// that is under way at that moment, such as an extension, may still change the lease until
// somebody attaches the lock, and has no effect after that.
//
// Called again, Detach returns an equal Handoff. If fn of Do detaches the lock, Do returns
// ErrDetached.
func (l *Lock) Detach() (Handoff, error) {
	if err := l.usable(); err != nil {
		return Handoff{}, err
	}
	defer l.deliver()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endIfOver()
	if cause := l.finish(stateDetached); cause != detached {
		return Handoff{}, &LockError{"detach", l.claim.Key(), cause}
	}
	h := remote.NewHandoff(slices.Clone(l.claim.Keys()), l.lease.Tokens(), l.fence)
	if until := keptUntil(l); until != clock.Past {
		h.AtLeast = max(until.Until(), 0)
	}
	return Handoff{h}, nil
}

// ForceRelease frees the lock of key if its holder's token is token, as Check or Inspect
// showed it. If somebody waits for the lock, the first in the queue gets it. ForceRelease leaves
// alone a lock that somebody else has acquired since, with one exception: if the holder has
// handed the lock over to another caller of its process, that one may have the same token, and
// loses the lock. WithUniqueToken prevents that. The error matches ErrLost if the token is not
// the holder's. After any other error the lock may or may not be free.
//
// If the server does not answer, ForceRelease asks again for 2 seconds, while ctx lasts.
// Unlike Release, it does nothing if ctx has ended, because nobody defers a repair.
//
// It is for repair. The holder learns of it from the server (see Invalidations), or when it
// next extends, verifies or releases. Until then Valid is true for the holder, so let it use the
// fence.
func (l *Locker) ForceRelease(ctx context.Context, key, token string) error {
	full, err := l.begun(ctx, "force release", key)
	if err != nil {
		return err
	}
	if token == "" {
		return invalid("token", "it is empty")
	}
	if ctx.Err() != nil {
		return &LockError{"force release", full, clock.ContextError(ctx, nil)}
	}
	freed, err := l.remote.ReleaseWhile(ctx, full, token)
	switch {
	case err != nil:
		return &LockError{"force release", full, err}
	case freed == remote.Missing:
		return &LockError{"force release", full, ErrLost}
	}
	if holder := l.holder(full); holder != nil {
		defer holder.deliver()
		holder.mu.Lock()
		defer holder.mu.Unlock()
		if slices.Contains(holder.lease.Tokens(), token) {
			holder.finish(stateLost)
		}
	}
	return nil
}

// WaitFree returns nil when nobody holds the lock of key. Somebody may hold it again by the time
// the caller acts: to be sure, acquire it. A lock that is passed on is never free in between, so
// WaitFree also waits for those who wait for the lock. It stands in no queue: it waits until the
// server tells that the key has changed, or polls (see Invalidations). It waits also for a
// server that does not answer, until ctx ends or the retry policy gives up. The error is then an
// *AcquireError that matches ErrGaveUp. If ctx is that of the key's holder, WaitFree does not
// wait, and the error is an *AcquireError that matches ErrAlreadyHeld. Of the options, WithRetry
// has an effect.
func (l *Locker) WaitFree(ctx context.Context, key string, opts ...Option) error {
	set, err := l.begin(ctx, opts)
	if err != nil {
		return err
	}
	full, err := set.redisKey(key)
	if err != nil {
		return err
	}
	if l.isClosed() {
		return &LockError{"wait for", full, ErrClosed}
	}
	start := clock.Now()
	if _, held := l.heldIn(ctx, []string{full}); held {
		return &AcquireError{Key: full, Err: ErrAlreadyHeld, call: callWaitFree}
	}
	var pause time.Duration
	w := l.newWait()
	defer w.Leave()
	var s State // as last seen
	claim, outage := remote.One(full), l.remote.Outage()
	for number := 1; ; number++ {
		holders, err := l.remote.Inspect(ctx, &claim)
		switch {
		case err != nil:
			s.until = clock.Now() // nobody knows any more
		case !holders[0].Held:
			return nil
		default:
			s = stateOf(holders[0])
		}
		fail := func(err, cause error) error {
			return &AcquireError{
				Key: full, Remaining: s.Remaining(), Attempts: number, Waited: time.Duration(clock.Now() - start),
				Err: failure(callWaitFree, s.Held, err, outage.Explain(cause)), call: callWaitFree,
			}
		}
		if ctx.Err() != nil {
			return fail(ErrGaveUp, clock.ContextError(ctx, err))
		}
		if passes := outage.Record(err); err != nil && !passes {
			return &LockError{"wait for", full, err}
		}
		var more bool
		pause, more = set.retry.next(Attempt{Number: number, Elapsed: time.Duration(clock.Now() - start), Previous: pause, Remaining: s.Remaining()})
		if !more {
			return fail(ErrGaveUp, nil)
		}
		if err := w.Await(ctx, full, outage.Pace(pause), s.Remaining(), set.retry.end(start)); err != nil {
			why := waitEnded(err)
			return fail(why.err, why.cause)
		}
	}
}
