package rlock

import (
	"context"
	"errors"
	"time"

	"github.com/rlock-go/toolkit/gen"
)

// Attach carries on with a lock that was taken elsewhere: by another process, which
// handed over the keys as Lock.Keys gives them, the token and the fence, and let go
// of its own handle with Detach. The prefix is not put in front of the keys again.
//
// It asks the server whether the token holds all keys; if not, the error is
// ErrLost and nothing is changed. The lease goes on as it was; extend it, or give
// WithAutoExtend as a default of the Locker. Nobody can check the fence.
func (l *Locker) Attach(ctx context.Context, token string, fence uint64, keys ...string) (*Lock, error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	set := *l.defaults
	set.prefix = ""
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	if token == "" {
		return nil, &ArgumentError{"token", "it is empty"}
	}
	full, err := l.redisKeys(&set, keys)
	if err != nil {
		return nil, err
	}
	lock := l.setOf(full)
	lock.token, lock.ownToken, lock.fence, lock.attempts = token, true, fence, 1
	lock.parent, lock.ttl, lock.extends = ctx, set.ttl, set.extends(false)
	if set.slotGroups {
		lock.split()
	}
	sent := now()
	lock.observe(&set, sent)
	states, err := lock.inspect(ctx)
	if err != nil {
		return nil, err
	}
	left := NoExpiry
	for _, s := range states {
		if !s.HeldBy(token) {
			return nil, &LockError{"attach", s.Key, ErrLost}
		}
		left = min(left, s.Left)
	}
	if err := lock.carryOn(leaseEnd(sent, left)); err != nil {
		return nil, err
	}
	returned := false
	defer func() {
		if !returned { // the observer has panicked: the caller has no handle but the token
			_ = lock.Detach()
		}
	}()
	lock.deliverFirst(false)
	returned = true
	return lock, nil
}

// carryOn begins the lock that another handle has taken.
func (l *Lock) carryOn(deadline instant) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline.Store(int64(deadline))
	l.expire()
	if l.end.Load() == nil && (l.extends || l.observed() != nil) {
		l.watch()
	}
	if cause := l.end.Load(); cause != nil {
		return &LockError{"attach", l.key[0], cause}
	}
	l.locker.roll.add(l)
	l.held.Store(true)
	l.noteHeld(EventAttached, false)
	return nil
}

// Detach lets go of the lock without releasing it, so that another process can
// carry on with it: see Attach. The handle ends with ErrDetached, and automatic
// extensions with it; the lease runs on. It fails if the lock had
// ended before, unless by Detach.
func (l *Lock) Detach() error {
	if err := l.usable(); err != nil {
		return err
	}
	defer l.deliver()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	if cause := l.finish(detached); cause != detached {
		return &LockError{"detach", l.key[0], cause}
	}
	return nil
}

// ForceRelease frees the lock of key if its holder's token is token, as Check or
// Inspect showed it: what somebody else has acquired since is left alone, but for
// another holder of the same process to whom it was handed over, unless they are
// WithUniqueToken. The error matches ErrLost if the token is not the holder's; with
// any other error, the lock may or may not be free.
//
// A server that does not answer is asked again for 2 seconds, while ctx lasts. Unlike
// Release, it does nothing on a context that has ended: nobody defers a repair.
//
// It is for repair. The holder learns of it from the server (see Hook), or when it
// extends, checks or releases; until then it believes that it holds the lock, so let
// it use the fence.
func (l *Locker) ForceRelease(ctx context.Context, key, token string) error {
	full, err := l.begun(ctx, key)
	if err != nil {
		return err
	}
	if token == "" {
		return &ArgumentError{"token", "it is empty"}
	}
	if ctx.Err() != nil {
		return &LockError{"force release", full, contextError(ctx, nil)}
	}
	var freed int64
	unsure := false // a try that got no answer may have freed it
	err = insist(ctx, func(ctx context.Context) (err error) {
		freed, err = l.scripts.Release(ctx, l.client, gen.ReleaseParams{Locks: []string{full}, Token: token})
		unsure = unsure || answerOf(err) == unknown
		return err
	})
	switch {
	case err != nil:
		return &LockError{"force release", full, redact(err, token)}
	case freed != 1 && !unsure:
		return &LockError{"force release", full, ErrLost}
	}
	if holder := l.queues.holder(full); holder != nil {
		defer holder.deliver()
		holder.mu.Lock()
		defer holder.mu.Unlock()
		if holder.token == token {
			holder.finish(lost)
		}
	}
	return nil
}

// WaitFree returns when nobody holds the lock of key. By the time the caller acts
// on it, somebody may: to be sure, acquire it. It waits as Acquire does, for a server that
// does not answer too, until ctx ends or the retry policy gives up; then the error
// is an *AcquireError with ErrGaveUp, or ErrAlreadyHeld if ctx is that of the key's holder.
// Of the options, WithRetry and WithPrefix matter.
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
		return &LockError{"check", full, ErrClosed}
	}
	start := now()
	if _, held := l.heldIn(ctx, []string{full}); held {
		return &AcquireError{Key: full, Err: ErrAlreadyHeld}
	}
	var pause time.Duration
	w := &waiter{locker: l, patient: set.retry.unlimited()}
	defer w.leave()
	var s State // as last seen
	down := outage{locker: l}
	for number := 1; ; number++ {
		seen, err := l.inspect(ctx, full)
		if err == nil && !seen.Held {
			return nil
		}
		if err == nil {
			s = seen
		} else {
			s.Left = 0 // nobody knows any more
		}
		fail := func(err, cause error) error {
			return &AcquireError{
				Key: full, Left: s.Left, Attempts: number, Waited: time.Duration(now() - start),
				Err: err, Cause: down.explain(cause), held: s.Held,
			}
		}
		if ctx.Err() != nil {
			return fail(ErrGaveUp, contextError(ctx, err))
		}
		if passes := down.passes(errors.Unwrap(err)); err != nil && !passes {
			return err
		}
		var more bool
		pause, more = set.retry.next(Attempt{Number: number, Elapsed: time.Duration(now() - start), Previous: pause, Left: s.Left})
		if !more {
			return fail(ErrGaveUp, nil)
		}
		if err := w.await(ctx, full, down.pace(pause), never); err != nil {
			return fail(waitEnded(err))
		}
	}
}
