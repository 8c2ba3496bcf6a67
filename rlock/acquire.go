package rlock

import (
	"context"

	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// Acquire takes the lock of key, waiting while another token holds it until ctx
// ends or the retry policy gives up ("Waiting" above says in which order). The
// lease is WithTTL long and is not extended by itself unless WithAutoExtend says so.
//
// On success the caller holds the lock and should Release it. On an error it
// holds nothing: an *AcquireError tells what stood in the way and for how long;
// errors.Is tells ErrAlreadyHeld, if ctx is that of a holder of the key, ErrGaveUp
// with the context's error, or the server's error.
//
// A server that does not answer, or says that it cannot yet (LOADING, CLUSTERDOWN,
// MASTERDOWN, TRYAGAIN), is waited for like a holder: an acquisition outlives a restart
// or a failover, and ends with its context or its retry policy, with the last error in
// reach. The lock that a server may have granted without an answer
// is then released in the background (see WithToken for the exception). A lock that is
// granted in the moment in which ctx ends is returned: the error is then nil, and Release it.
func (l *Locker) Acquire(ctx context.Context, key string, opts ...Option) (*Lock, error) {
	return l.acquire(ctx, key, opts, wanted{wait: true})
}

// TryAcquire is Acquire without waiting: one attempt, and ErrHeld if another token holds the
// lock, or if the lock is free and others have waited for it before: the first of them then gets
// it. A lost reply is asked for again, twice, as after a refused connection. Where the network
// has gone silent, that takes the client's own time-outs, some 20 seconds by default: give ctx a
// deadline.
func (l *Locker) TryAcquire(ctx context.Context, key string, opts ...Option) (*Lock, error) {
	return l.acquire(ctx, key, opts, wanted{})
}

// AcquireAll takes the locks of all keys at one instant, or waits for that while
// any of them is held, like Acquire. Callers may name overlapping sets in any order
// and cannot deadlock. The set is one Lock with one token, one fence and one lease.
//
// A set stands in no queue at first, and tries whenever the key that it was refused may be free.
// So that locks of single keys cannot keep a set waiting for ever, one that has waited for 2
// seconds collects its keys: in the order of their names it waits for each in the queue of that
// key and keeps what it gets, for 2 seconds. If that is not all, it frees what it has for 2
// seconds, and so on. Others then find a key held although its set is not; the caller has all or
// none.
//
// A Redis Cluster needs all keys in one slot: name them with one {hash tag}. What
// to do without, and what that gives up, is told at WithCrossSlot.
func (l *Locker) AcquireAll(ctx context.Context, keys []string, opts ...Option) (*Lock, error) {
	return l.acquireAll(ctx, keys, opts, wanted{wait: true})
}

// TryAcquireAll is AcquireAll without waiting.
func (l *Locker) TryAcquireAll(ctx context.Context, keys []string, opts ...Option) (*Lock, error) {
	return l.acquireAll(ctx, keys, opts, wanted{})
}

// ForceAcquire takes the lock of key from whoever holds it, in one step, so that nobody else gets in
// between. Those who wait for the lock keep their places, and the first of them gets it from the
// Release of the new lock. It is for repair, and for an operator's decision that a holder has had
// its time.
//
// The former holder learns of its loss as after a ForceRelease. The fence of the new lock is larger
// than that of the former holder.
//
// One command is sent, once. Its error is that of TryAcquire, but never ErrHeld. After an error
// without an answer of the server, the former holder may have lost the lock all the same. What the
// server may have granted is then released in the background, except with WithToken, as after Acquire.
func (l *Locker) ForceAcquire(ctx context.Context, key string, opts ...Option) (*Lock, error) {
	return l.acquire(ctx, key, opts, wanted{force: true})
}

// wanted is how the methods that acquire differ.
type wanted struct {
	wait  bool // for a held lock to become free
	do    bool // for Do: extended by default, and bound to the caller's context
	force bool // the lock, whoever holds it
}

func (l *Locker) acquire(ctx context.Context, key string, opts []Option, want wanted) (*Lock, error) {
	set, err := l.begin(ctx, opts)
	if err != nil {
		return nil, err
	}
	full, err := set.redisKey(key)
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
