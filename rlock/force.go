package rlock

import (
	"context"
	"slices"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// ForceRelease frees the lock of key if its holder's token is token, as Inspect shows it: for one share,
// the Token of its Sharer. It is for repair. The next who waits gets the lock. The error matches ErrLost if
// the token is not the holder's; after any other error the lock may or may not be free. The Token of the
// State of a shared key frees all shares, and their holders learn of it as of a key that somebody has
// deleted.
//
// The holder learns of its loss from the server (see Invalidations) or, as one of several shares always, when
// it next extends, verifies or releases. Until then it may be at work, so let it use the fence. A holder of
// this Locker has lost its lock, share or permits when ForceRelease returns, and a caller to whom they are on
// their way then when its call returns. If a holder has handed over what it had within its process, the next
// one may have the same token and loses it; WithUniqueToken prevents that.
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
	freed, err := l.wire.ReleaseWhile(ctx, full, token)
	switch {
	case err != nil:
		return unanswered(ctx, "force release", full, err)
	case freed == wire.Missing:
		return &LockError{"force release", full, ErrLost}
	}
	l.forced.Add(token) // before it looks: what comes after that finds it
	meant := func(lock *Lock) bool {
		return slices.Contains(lock.claim.Keys(), full) && slices.Contains(lock.terms.Tokens(), token)
	}
	l.eachLock(meant, func(lock *Lock) {
		lock.endIfOver() // what was over before was not lost
		lock.finish(stateLost)
	})
	return nil
}
