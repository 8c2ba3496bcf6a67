package rlock

import (
	"context"
	"slices"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// ForceRelease frees the lock of key if its holder's token is token, as Inspect shows it: for one share, the
// Token of its Sharer. It is for repair. The next who waits gets the lock. The error matches ErrLost if the
// token is not the holder's; after any other error the lock may or may not be free. The Token of the State of a
// shared key frees all shares, and their holders learn of it as of a key that somebody has deleted.
//
// The holder learns of its loss from the server (see Invalidations) or, as one of several shares always, when
// it next extends, verifies or releases. Until then it may be at work, so let it use the fence. A holder of
// this Locker has lost its lock, share or permits when ForceRelease returns. A caller to whom they are on
// their way then has lost them when its call returns, if the server answers in time, and otherwise soon. If a
// holder has handed over what it had within its process, the next one may have the same token and loses it;
// WithUniqueToken prevents that.
//
// If the server does not answer, ForceRelease asks again for 2 seconds, while ctx lasts.
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
		return unanswered(ctx, "force release", full, err)
	case freed == remote.Missing:
		return &LockError{"force release", full, ErrLost}
	}
	l.forces.Begin(full)
	l.endForced(full, func(lock *Lock) bool { return slices.Contains(lock.terms.Tokens(), token) })
	return nil
}

// endForced ends the locks of this Locker that have a key of which the server has just robbed them. Nobody
// takes keys by force often, so it looks at all locks. The caller has counted that it begins: what Acquire
// gets until it is done asks the server, and what others get learns of a robbery as of any loss.
func (l *Locker) endForced(key string, robbed func(*Lock) bool) {
	defer l.forces.End(key)
	meant := func(lock *Lock) bool { return slices.Contains(lock.claim.Keys(), key) && robbed(lock) }
	l.eachLock(meant, func(lock *Lock) {
		lock.endIfOver() // what was over before was not lost
		lock.finish(stateLost)
	})
}

// confirm asks the server about a lock that has come while ForceRelease freed its key. That
// may have been this one, on its way from another caller of this process, where they do not see it. If ctx
// ends before there is an answer, or there is none for lookTimeout, it is asked in the background until there
// is one.
func (l *Lock) confirm(ctx context.Context) {
	if l.asks(ctx) {
		return
	}
	go func() {
		for !l.asks(l.locker.background) && clock.Sleep(l.locker.background, confirmPause, nil) == nil {
		}
	}()
}

// confirmPause is the pause after a question that got no answer: a client that cannot connect says so at
// once.
const confirmPause = time.Second / 2

// asks asks the server about a lock, and reports whether there is nothing left to ask.
func (l *Lock) asks(ctx context.Context) (done bool) {
	limited, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	_, err := l.Verify(limited)
	return err == nil || !remote.Transient(err) || !l.Valid()
}
