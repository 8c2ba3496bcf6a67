package rlock

import (
	"context"
	"fmt"

	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// AcquireShared takes a share of the lock of key, for a reader, and waits like Acquire. Any number of
// readers hold the lock together, each with a Lock of its own, and all with the same fence. While one does,
// nobody holds the whole lock, nor permits of it.
//
// One who waits for the whole lock stops readers who come later, and when it has released the lock, all who
// wait by then get in together. There is no way from a share to the whole lock, or back: release the one,
// acquire the other, and look again at what was read.
//
// WithToken and WithMinHold are refused, and there is a fence whatever WithFence says. To other lock
// libraries the key is that of a held lock.
//
// Readers of one Locker with the same TTL and owner share what one of them has at the server: those who come
// within a turn (WithTurn) get the lock without a command, with the deadline and the Token of the first, and
// the last Release gives it up. If it is lost, it is for all of them. WithUniqueToken has a reader share
// nothing.
func (l *Locker) AcquireShared(ctx context.Context, key string, opts ...Option) (*Lock, error) {
	return l.acquireShare(ctx, key, reader, opts, method{wait: true})
}

// Readers are those who share a lock, for a script that is to write only while they do: it compares the
// value of the lock's key with their Token, as it would compare that of one who has the whole lock. The
// Readers of a nil Lock, of a whole lock and of permits have no Token.
type Readers struct{ key, token string }

// Readers returns those who share the lock with this reader, from when the lock was granted: as long as one
// of them keeps it, also if this one has released its own share, nobody has had the whole lock, or permits.
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

// Key returns the Redis key, prefix included.
func (r Readers) Key() string { return r.key }

// Token returns the value that the key has on the server while they share it.
func (r Readers) Token() string { return r.token }

// TryAcquireShared is AcquireShared without waiting. ErrHeld says that somebody holds the whole lock,
// or that others wait for the key.
func (l *Locker) TryAcquireShared(ctx context.Context, key string, opts ...Option) (*Lock, error) {
	return l.acquireShare(ctx, key, reader, opts, method{})
}

// AcquirePermits takes n of the permits of key in one step, of which there are as many as limit, or waits
// for them: a semaphore whose permits have leases, so that a holder that dies keeps its own until its lease
// ends. n is from 1 to 1000 and no more than limit; the permits are one Lock. Options are those of
// AcquireShared.
//
// Who waits gets permits first come, first served: one who wants several waits until so many are free, and
// those behind it wait too. For a turn (WithTurn) Release hands permits to the first of its own process who
// wants as many with the same options. That one has their token, fence and deadline, and notices later than
// others if they were lost. One WithUniqueToken, or that was asked for its Token, hands nothing over.
//
// The limit is the caller's own: it gets permits when those in use and its own are no more than that. So
// callers with another limit can work beside it, as they do while a new version of a program is deployed;
// one with a higher limit may come later, and then more are in use than the lower one says.
func (l *Locker) AcquirePermits(
	ctx context.Context, key string, n, limit int, opts ...Option,
) (*Lock, error) {
	return l.acquirePermits(ctx, key, n, limit, opts, method{wait: true})
}

// TryAcquirePermits is AcquirePermits without waiting. ErrHeld says that there are not enough permits
// free, that somebody holds the whole lock, or that others wait.
func (l *Locker) TryAcquirePermits(
	ctx context.Context, key string, n, limit int, opts ...Option,
) (*Lock, error) {
	return l.acquirePermits(ctx, key, n, limit, opts, method{})
}

// DoShared is Do with a share of the lock of key, as AcquireShared takes it.
func (l *Locker) DoShared(
	ctx context.Context, key string, fn func(ctx context.Context, lock *Lock) error, opts ...Option,
) error {
	_, err := l.do(ctx, fn, func(by method) (*Lock, error) {
		return l.acquireShare(ctx, key, reader, opts, by)
	}, true)
	return err
}

// TryDoShared is TryDo with a share of the lock of key, as TryAcquireShared takes it.
func (l *Locker) TryDoShared(
	ctx context.Context, key string, fn func(ctx context.Context, lock *Lock) error, opts ...Option,
) (ran bool, err error) {
	return l.do(ctx, fn, func(by method) (*Lock, error) {
		return l.acquireShare(ctx, key, reader, opts, by)
	}, false)
}

// DoPermits is Do with n permits of key, as AcquirePermits takes them.
func (l *Locker) DoPermits(
	ctx context.Context, key string, n, limit int,
	fn func(ctx context.Context, lock *Lock) error, opts ...Option,
) error {
	_, err := l.do(ctx, fn, func(by method) (*Lock, error) {
		return l.acquirePermits(ctx, key, n, limit, opts, by)
	}, true)
	return err
}

// TryDoPermits is TryDo with n permits of key, as TryAcquirePermits takes them.
func (l *Locker) TryDoPermits(
	ctx context.Context, key string, n, limit int,
	fn func(ctx context.Context, lock *Lock) error, opts ...Option,
) (ran bool, err error) {
	return l.do(ctx, fn, func(by method) (*Lock, error) {
		return l.acquirePermits(ctx, key, n, limit, opts, by)
	}, false)
}

// reader is the share of one who reads.
var reader = wire.Share{Permits: 1}

// mostPermits is how many permits one Lock has at most.
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
			fmt.Sprintf("%d is not from 1 to %d; it comes before the limit", n, mostPermits))
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
			"a share keeps no other share out; leave it out, or undo the Locker's with WithMinHold(0)")
	}
	claim := wire.One(full)
	claim.Wants(share)
	return l.acquireClaim(ctx, claim, set, by)
}
