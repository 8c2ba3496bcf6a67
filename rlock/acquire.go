package rlock

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/rlock-go/toolkit/gen"
)

// Acquire takes the lock of key, waiting while another token holds it until ctx
// ends or the retry policy gives up. The lease is WithTTL long and is not
// extended by itself unless WithAutoExtend says so.
//
// On success the caller holds the lock and should Release it. On an error it
// holds nothing: an *AcquireError tells what stood in the way and for how long;
// errors.Is tells ErrGaveUp with the context's error, or the server's error,
// which is never waited out. Where a reply was lost with the context, the lock
// that the server may have granted is released in the background.
func (l *Locker) Acquire(ctx context.Context, key string, opts ...Option) (*Lock, error) {
	return l.acquire(ctx, key, opts, wanted{wait: true})
}

// TryAcquire is Acquire without waiting: one attempt, and ErrHeld if another
// token holds the lock.
func (l *Locker) TryAcquire(ctx context.Context, key string, opts ...Option) (*Lock, error) {
	return l.acquire(ctx, key, opts, wanted{})
}

// AcquireAll takes the locks of all keys at one instant, or waits for that while
// any of them is held, like Acquire; it never holds some of them. So callers may
// name overlapping sets in any order and cannot deadlock. The set is one Lock
// with one token, one fence and one lease.
//
// A Redis Cluster needs all keys in one slot: name them with one {hash tag}.
func (l *Locker) AcquireAll(ctx context.Context, keys []string, opts ...Option) (*Lock, error) {
	return l.acquireAll(ctx, keys, opts, wanted{wait: true})
}

// TryAcquireAll is AcquireAll without waiting.
func (l *Locker) TryAcquireAll(ctx context.Context, keys []string, opts ...Option) (*Lock, error) {
	return l.acquireAll(ctx, keys, opts, wanted{})
}

// wanted is how the methods that acquire differ.
type wanted struct {
	wait bool // for a held lock to become free
	do   bool // for Do: extended by default, and bound to the caller's context
}

func (l *Locker) acquire(ctx context.Context, key string, opts []Option, want wanted) (*Lock, error) {
	set, err := l.begin(ctx, opts)
	if err != nil {
		return nil, err
	}
	lock := &Lock{locker: l}
	if lock.single[0], err = set.redisKey(key); err != nil {
		return nil, err
	}
	lock.keys = lock.single[:]
	return lock.acquire(ctx, set, want)
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
	return (&Lock{locker: l, keys: full}).acquire(ctx, set, want)
}

// begin checks what every call has and returns its settings.
func (l *Locker) begin(ctx context.Context, opts []Option) (*settings, error) {
	if ctx == nil {
		return nil, &ArgumentError{"ctx", "it is nil; use context.Background()"}
	}
	return l.defaults.with(opts)
}

// acquire turns a Lock that has keys into a held one.
func (l *Lock) acquire(ctx context.Context, set *settings, want wanted) (*Lock, error) {
	start := now()
	fail := func(key string, left time.Duration, err, cause error) (*Lock, error) {
		return nil, &AcquireError{
			Key: key, Left: left, Attempts: l.attempts, Waited: time.Duration(now() - start),
			Err: err, Cause: cause,
		}
	}
	if l.locker.isClosed() {
		return fail(l.keys[0], 0, ErrClosed, nil)
	}
	if key, held := l.locker.heldIn(ctx, l.keys); held {
		return fail(key, 0, ErrAlreadyHeld, nil)
	}
	if err := ctx.Err(); err != nil {
		return fail(l.keys[0], 0, err, nil)
	}
	l.prepare(ctx, set, want)

	var pause time.Duration
	for {
		t, err := l.take(ctx, set)
		if err != nil {
			return fail(l.keys[0], 0, err, nil)
		}
		l.attempts++
		if t.acquired {
			if !l.hold(t) {
				return fail(l.keys[0], 0, ErrExpired, fmt.Errorf("the reply took %v, the lease is %v; use a longer TTL", time.Duration(now()-t.sent), l.ttl))
			}
			return l, nil
		}
		if !want.wait {
			return fail(t.key, t.left, ErrHeld, nil)
		}
		var more bool
		pause, more = set.retry.next(Attempt{Number: l.attempts, Elapsed: time.Duration(now() - start), Previous: pause, Left: t.left})
		if !more {
			return fail(t.key, t.left, ErrGaveUp, nil)
		}
		switch err := sleep(ctx, pause, l.locker.closed); err {
		case nil:
		case ErrClosed:
			return fail(t.key, t.left, ErrClosed, nil)
		default:
			return fail(t.key, t.left, ErrGaveUp, err)
		}
	}
}

// prepare fills in what does not depend on the server.
func (l *Lock) prepare(ctx context.Context, set *settings, want wanted) {
	l.ttl = set.ttl
	l.extends = set.extends(want.do)
	l.parent, l.bound = ctx, want.do
	l.token = set.token
	if l.token == "" {
		l.token = newToken()
	}
}

// newToken returns a version 4 UUID: 122 random bits. It is uuid.NewString but
// for one allocation.
func newToken() string {
	var id uuid.UUID
	rand.Read(id[:]) // never fails
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// taken is the server's answer to an attempt.
type taken struct {
	sent     instant
	acquired bool
	fence    int64
	key      string        // first key that another token holds
	left     time.Duration // and its holder's remaining time
}

// take makes one attempt. A lost reply is asked for again, which is safe because
// the script knows the token; if it stays lost, whatever the server granted is
// released behind the caller's back.
func (l *Lock) take(ctx context.Context, set *settings) (taken, error) {
	var t taken
	err := repeat(ctx, tries, func(ctx context.Context) (err error) {
		sent := now()
		if len(l.keys) == 1 {
			t, err = l.takeOne(ctx, set)
		} else {
			t, err = l.takeAll(ctx, set)
		}
		t.sent = sent
		return err
	})
	if answerOf(err) == unknown {
		l.locker.abandon(l.keys, l.token, set.ttl)
	}
	return t, err
}

func (l *Lock) takeOne(ctx context.Context, set *settings) (taken, error) {
	p := gen.AcquireParams{Lock: l.keys[0], Token: l.token, TTL: lease(set.ttl)}
	if !set.unfenced {
		p.Counter = fenceCounter(l.keys[0])
	}
	r, err := l.locker.scripts.Acquire(ctx, l.locker.client, p)
	return taken{acquired: r.Acquired, fence: r.Fence, key: l.keys[0], left: remaining(r.Left)}, err
}

func (l *Lock) takeAll(ctx context.Context, set *settings) (taken, error) {
	p := gen.AcquireAllParams{Keys: l.keys, Token: l.token, TTL: lease(set.ttl), Locks: int64(len(l.keys))}
	if !set.unfenced {
		p.Keys = append(l.keys[:len(l.keys):len(l.keys)], countersOf(l.keys)...)
	}
	r, err := l.locker.scripts.AcquireAll(ctx, l.locker.client, p)
	t := taken{acquired: r.Acquired, fence: r.Fence, key: l.keys[0], left: remaining(r.Left)}
	if held := r.Held; held > 0 && held <= int64(len(l.keys)) {
		t.key = l.keys[held-1]
	}
	return t, err
}

// remaining reads what PTTL answers: -1 stands for a key that never expires.
func remaining(left time.Duration) time.Duration {
	if left == -time.Millisecond {
		return NoExpiry
	}
	return max(left, 0)
}

// hold starts the lease. It fails, and gives the lock back, when the reply came
// after the lease must count as over.
func (l *Lock) hold(t taken) bool {
	l.fence = uint64(t.fence)
	end := leaseEnd(t.sent, l.ttl)
	if end <= now() {
		l.locker.abandon(l.keys, l.token, l.ttl)
		return false
	}
	l.deadline.Store(int64(end))
	if l.extends {
		l.mu.Lock()
		l.watch()
		l.mu.Unlock()
	}
	return true
}
