package rlock

import (
	"context"

	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// Acquire takes the lock of key, and waits for it until ctx ends or the retry policy gives up: with DefaultRetry
// and a context that never ends, for ever. The lease is WithTTL long; nothing but WithAutoExtend extends it.
//
// On success, Release the lock: also if ctx has ended meanwhile. On an error the caller holds nothing, and
// what the server may have granted without an answer is released in the background (see WithToken for the
// exception). The error is an *AcquireError, which says who stood in the way. It matches ErrGaveUp and what
// ended the waiting, ErrNoAnswer if the server has not answered, ErrAlreadyHeld if ctx is that of a holder of
// the key, ErrExpired if the grant came after its lease, ErrClosed, or the error of the server. A wrong
// argument is an *ArgumentError. Look for ErrNoAnswer before ErrGaveUp: a call that gave up may match both.
//
// It also waits for a server that does not answer, or cannot yet (LOADING, CLUSTERDOWN, MASTERDOWN, TRYAGAIN).
func (l *Locker) Acquire(ctx context.Context, key string, opts ...Option) (*Lock, error) {
	return l.acquire(ctx, key, opts, wanted{wait: true})
}

// TryAcquire is Acquire without waiting: its error matches ErrHeld if somebody holds the lock, or if
// others have waited for it before, of whom the first then gets it. Give ctx a deadline: in a network that has
// gone silent, the call otherwise lasts as long as the client's own time-outs, some 20 seconds.
func (l *Locker) TryAcquire(ctx context.Context, key string, opts ...Option) (*Lock, error) {
	return l.acquire(ctx, key, opts, wanted{})
}

// AcquireAll takes the locks of all keys or none, and waits like Acquire. Overlapping sets cannot
// deadlock, in whatever order they name their keys. The set is one Lock with one token, one fence and
// one lease.
//
// A set that has to wait takes its keys one by one, so that locks of single keys cannot keep it waiting
// for ever. Others may then find a key held although the set is not; see GUARANTEES.md.
//
// On a Redis Cluster all keys must be in one slot: give them one {hash tag}, or see WithCrossSlot.
func (l *Locker) AcquireAll(ctx context.Context, keys []string, opts ...Option) (*Lock, error) {
	return l.acquireAll(ctx, keys, opts, wanted{wait: true})
}

// TryAcquireAll is AcquireAll without waiting. Like TryAcquire it overtakes nobody who waits for a key.
func (l *Locker) TryAcquireAll(ctx context.Context, keys []string, opts ...Option) (*Lock, error) {
	return l.acquireAll(ctx, keys, opts, wanted{})
}

// wanted is how the methods that acquire differ.
type wanted struct {
	wait bool // for a held lock to become free
	do   bool // for Do: extended by default, and bound to the caller's context
	lead bool // for Lead
}

func (l *Locker) acquire(ctx context.Context, key string, opts []Option, want wanted) (*Lock, error) {
	set, full, err := beginKey(ctx, l, key, opts)
	if err != nil {
		return nil, err
	}
	return l.acquireClaim(ctx, remote.One(full), set, want)
}

func (l *Locker) acquireAll(ctx context.Context, keys []string, opts []Option, want wanted) (*Lock, error) {
	set, err := l.begin(ctx, opts)
	if err != nil {
		return nil, err
	}
	full, err := l.redisKeys(set, keys)
	if err != nil {
		return nil, err
	}
	claim := l.remote.All(full, set.crossSlot)
	if claim.SpansSlots() && set.token != "" {
		return nil, invalid("WithToken", "a set of several slots cannot have it; leave it out, or give the keys the same {hash tag}")
	}
	return l.acquireClaim(ctx, claim, set, want)
}
