package rlock

import (
	"context"
	"time"

	"github.com/rlock-go/toolkit/gen"
)

// Extend gives the lock a new lease of ttl, counted from now; ttl may be shorter
// than what is left, or NoExpiry. Later automatic extensions use it too.
//
// An error that is ErrNotHeld means that the lock has ended; Extend never takes
// it again. With any other error it is held until the Deadline, which a failed
// Extend may bring nearer if ttl is shorter than what was left, but never moves
// farther.
func (l *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	if ctx == nil {
		return &ArgumentError{"ctx", "it is nil; use context.Background()"}
	}
	if err := checkTTL(ttl); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return &LockError{"extend", l.keys[0], err}
	}
	var failed error
	err := repeat(ctx, tries, func(ctx context.Context) error {
		before, err := l.startExtension(ttl)
		if err != nil {
			failed = err
			return err
		}
		position, err := l.locker.scripts.Extend(ctx, l.locker.client, l.extension(ttl))
		failed = l.settle(before, ttl, position, err)
		return err
	})
	if err == nil && failed == nil {
		l.locker.keeper.reschedule(l)
	}
	return failed
}

func (l *Lock) extension(ttl time.Duration) gen.ExtendParams {
	return gen.ExtendParams{Locks: l.keys, Token: l.token, TTL: lease(ttl)}
}

// startExtension begins an extension of a lock that is still held.
func (l *Lock) startExtension(ttl time.Duration) (before instant, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	if cause := l.end.Load(); cause != nil {
		return 0, &LockError{"extend", l.keys[0], cause}
	}
	return l.beginExtension(ttl), nil
}

// settle takes the answer of an extension: the position of the first key that is
// not ours, or 0. It returns nil if the lock is held with the new lease.
func (l *Lock) settle(before instant, ttl time.Duration, position int64, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endExtension(before, answerOf(err))
	if err != nil {
		return &LockError{"extend", l.keys[0], err}
	}
	if position > 0 {
		key := l.keys[min(position, int64(len(l.keys)))-1]
		return &LockError{"extend", key, l.finish(lost)}
	}
	l.ttl = ttl
	if cause := l.end.Load(); cause != nil {
		if cause == expired {
			// The answer came too late for this handle, but the keys now have a
			// whole lease that nobody uses.
			l.locker.abandon(l.keys, l.token, ttl)
		}
		return &LockError{"extend", l.keys[0], cause}
	}
	return nil
}

// nextExtension returns when the keeper should extend the lock again.
func (l *Lock) nextExtension() instant {
	if !l.extends || l.ttl == NoExpiry {
		return never
	}
	return now().after(l.ttl / renewals)
}

// extendAll extends locks in one pipeline. One that gets no answer is tried
// again soon, until its lease ends: a first error is not a loss.
func (l *Locker) extendAll(locks []*Lock) {
	limit := 5 * time.Second
	for _, lock := range locks {
		limit = min(limit, instant(lock.deadline.Load()).until()/2)
	}
	l.detach(max(limit, 50*time.Millisecond), func(ctx context.Context) {
		var (
			params []gen.ExtendParams
			sent   []extension
		)
		for _, lock := range locks {
			lock.mu.Lock()
			ttl := lock.ttl
			lock.mu.Unlock()
			if before, err := lock.startExtension(ttl); err == nil {
				params = append(params, lock.extension(ttl))
				sent = append(sent, extension{lock, before, ttl})
			}
		}
		for i, reply := range l.scripts.ExtendBatch(ctx, l.client, params) {
			e := sent[i]
			if e.lock.settle(e.before, e.ttl, reply.Value, reply.Err) == nil {
				l.keeper.reschedule(e.lock)
			} else {
				l.keeper.retry(e.lock, min(max(e.ttl/20, 10*time.Millisecond), time.Second))
			}
		}
	})
}

// extension is one that is under way.
type extension struct {
	lock   *Lock
	before instant
	ttl    time.Duration
}
