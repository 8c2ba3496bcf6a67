package rlock

import (
	"context"
	"fmt"

	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// AcquireShared takes a share of the lock of key for a reader, and waits like Acquire. Any number of readers
// hold the lock together. Each has a Lock of its own, and all have the same fence. Meanwhile no other token
// holds the whole lock or permits of the key.
//
// A waiter for the whole lock stops later readers. When it has released the lock, all readers that wait by
// then get in together. A share cannot become the whole lock, nor the whole lock a share. Release the lock,
// acquire it in the other way, and read the data again.
//
// AcquireShared refuses WithToken and WithMinHold, and ignores WithFence(false). Other lock libraries see the
// key as a held lock.
//
// Readers of one Locker with the same TTL and owner have one share at the server. A reader that comes within
// a turn (WithTurn) joins without a command, with the deadline and the Token of the first reader. The last
// Release gives the share up. A loss is a loss for all of them. WithUniqueToken gives a reader a share of its
// own.
func (l *Locker) AcquireShared(ctx context.Context, key string, opts ...Option) (*Lock, error) {
	return l.acquireShare(ctx, key, reader, opts, method{wait: true})
}

// Readers stands for all readers who share a lock. It is for a script that may write only while these readers
// share the lock. The script compares
// the value of the lock's key with Token, as it would compare the token of a whole lock. A nil Lock, a whole
// lock and permits have Readers without a Token.
type Readers struct{ key, token string }

// Readers returns the readers that share the lock with this reader. Since the grant of this reader, and as
// long as one of these readers keeps its share, no other token gets the whole lock or permits. This holds
// even if this reader has released its own share.
func (l *Lock) Readers() Readers {
	if l.usable() != nil {
		return Readers{}
	}
	r := Readers{key: l.claim.Key()}
	if share, is := l.claim.Share(); is && share.Limit == 0 {
		r.token = wire.ReadersValue(l.fence)
	}
	return r
}

// Key returns the Redis key with the prefix.
func (r Readers) Key() string { return r.key }

// Token returns the value of the key on the server while the readers share it.
func (r Readers) Token() string { return r.token }

// TryAcquireShared is AcquireShared without waiting. ErrHeld means that another token holds the whole lock or
// permits, or that others wait for the key.
func (l *Locker) TryAcquireShared(ctx context.Context, key string, opts ...Option) (*Lock, error) {
	return l.acquireShare(ctx, key, reader, opts, method{})
}

// AcquirePermits takes n permits of key in one step, or waits for them. The parameter limit is the number of
// all permits. The key is a semaphore whose permits have leases: a holder that dies keeps its permits only
// until its lease ends. n is
// from 1 to 1000 and at most limit. The permits are one Lock. AcquirePermits takes the options of
// AcquireShared.
//
// Waiters get permits first come, first served. A waiter for several permits waits until all of them are
// free, and later waiters wait too. During a turn (WithTurn), Release hands permits to the first caller of
// its own process that wants the same number with the same options. That caller gets their token, fence and
// deadline, and learns of a loss as the former holder would have. There is no hand-over WithUniqueToken, or after a call of
// Token.
//
// Each caller has its own limit. It gets n permits if the permits in use and n together are at most its
// limit. So callers with different limits can work together, as during a deployment. If a caller with a
// higher limit comes later, more permits may be in use than the lower limit allows.
func (l *Locker) AcquirePermits(
	ctx context.Context, key string, n, limit int, opts ...Option,
) (*Lock, error) {
	return l.acquirePermits(ctx, key, n, limit, opts, method{wait: true})
}

// TryAcquirePermits is AcquirePermits without waiting. ErrHeld means that too few permits are free, that
// another token holds the whole lock, or that others wait.
func (l *Locker) TryAcquirePermits(
	ctx context.Context, key string, n, limit int, opts ...Option,
) (*Lock, error) {
	return l.acquirePermits(ctx, key, n, limit, opts, method{})
}

// DoShared is Do with a share of the lock of key, which it takes like AcquireShared.
func (l *Locker) DoShared(
	ctx context.Context, key string, fn func(ctx context.Context, lock *Lock) error, opts ...Option,
) error {
	_, err := l.do(ctx, fn, func(by method) (*Lock, error) {
		return l.acquireShare(ctx, key, reader, opts, by)
	}, true)
	return err
}

// TryDoShared is TryDo with a share of the lock of key, which it takes like TryAcquireShared.
func (l *Locker) TryDoShared(
	ctx context.Context, key string, fn func(ctx context.Context, lock *Lock) error, opts ...Option,
) (ran bool, err error) {
	return l.do(ctx, fn, func(by method) (*Lock, error) {
		return l.acquireShare(ctx, key, reader, opts, by)
	}, false)
}

// DoPermits is Do with n permits of key, which it takes like AcquirePermits.
func (l *Locker) DoPermits(
	ctx context.Context, key string, n, limit int,
	fn func(ctx context.Context, lock *Lock) error, opts ...Option,
) error {
	_, err := l.do(ctx, fn, func(by method) (*Lock, error) {
		return l.acquirePermits(ctx, key, n, limit, opts, by)
	}, true)
	return err
}

// TryDoPermits is TryDo with n permits of key, which it takes like TryAcquirePermits.
func (l *Locker) TryDoPermits(
	ctx context.Context, key string, n, limit int,
	fn func(ctx context.Context, lock *Lock) error, opts ...Option,
) (ran bool, err error) {
	return l.do(ctx, fn, func(by method) (*Lock, error) {
		return l.acquirePermits(ctx, key, n, limit, opts, by)
	}, false)
}

// reader is the share of a reader.
var reader = wire.Share{Permits: 1}

// mostPermits is the largest number of permits of one Lock.
const mostPermits = 1000

func (l *Locker) acquirePermits(
	ctx context.Context, key string, n, limit int, opts []Option, by method,
) (*Lock, error) {
	switch {
	case limit < 1:
		return nil, invalid("limit",
			fmt.Sprintf("%d is below 1; for any number of holders, use AcquireShared", limit))
	case n < 1 || n > mostPermits:
		return nil, invalid("n",
			fmt.Sprintf("%d is not from 1 to %d; the arguments are first n, then the limit", n, mostPermits))
	case n > limit:
		return nil, invalid("n", fmt.Sprintf(
			"%d permits of a limit of %d: there will never be so many; ask for less, or raise the limit",
			n, limit))
	}
	return l.acquireShare(ctx, key, wire.Share{Limit: limit, Permits: n}, opts, by)
}

// acquireShare acquires a share of a key.
func (l *Locker) acquireShare(
	ctx context.Context, key string, share wire.Share, opts []Option, by method,
) (*Lock, error) {
	set, full, err := l.beginKey(ctx, key, opts)
	if err == nil {
		err = l.onRedis("shared lock")
	}
	if err != nil {
		return nil, err
	}
	if set.token != "" {
		return nil, invalid("WithToken", "a share has a token of its own kind; leave the option out")
	}
	if set.minHold > 0 {
		return nil, invalid("WithMinHold",
			"a share keeps no other share out; leave the option out, or pass WithMinHold(0) to undo it")
	}
	claim := wire.One(full)
	claim.Wants(share)
	return l.acquireClaim(ctx, claim, set, by)
}
