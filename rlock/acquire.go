package rlock

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
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
// which is never waited out. A lost reply is asked for again, twice; if none
// comes, or the context ends first, the lock that the server may have granted is
// released in the background (see WithToken for the exception).
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
// A Redis Cluster needs all keys in one slot: name them with one {hash tag}. What
// to do without, and what that gives up, is told at WithSlotGroups.
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
	full, err := set.redisKey(key)
	if err != nil {
		return nil, err
	}
	return l.lockOf(full).acquire(ctx, set, want)
}

// lockOf returns a Lock of one key, not held yet.
func (l *Locker) lockOf(key string) *Lock {
	lock := &Lock{locker: l, single: [1]string{key}}
	lock.keys = lock.single[:]
	return lock
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
	lock := &Lock{locker: l, keys: full}
	if set.slotGroups {
		lock.setGroups(l.groupsOf(full))
	}
	if lock.groups() != nil && set.token != "" {
		return nil, &ArgumentError{"WithToken", "a set of several slots cannot have it; leave it out, or give the keys the same {hash tag}"}
	}
	return lock.acquire(ctx, set, want)
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
	seen := taken{key: l.keys[0]} // what the last attempt saw
	fail := func(err, cause error) (*Lock, error) { return nil, l.failed(start, seen, err, cause) }
	if key, held := l.locker.heldIn(ctx, l.keys); held {
		seen.key = key
		return fail(ErrAlreadyHeld, nil)
	}
	if l.locker.isClosed() {
		return fail(ErrClosed, nil)
	}
	l.prepare(ctx, set, want)
	counters := l.counters(set)
	if len(l.keys) == 1 && !l.ownToken {
		if err := l.stand(ctx, set, want, start, &seen); err != nil {
			var cause error
			if err != ErrClosed && err != ErrHeld && err != ErrGaveUp {
				err, cause = ErrGaveUp, err
			}
			return fail(err, cause)
		}
	}

	var pause time.Duration
	for {
		switch {
		case l.locker.isClosed():
			return fail(ErrClosed, nil)
		case ctx.Err() != nil:
			return fail(ErrGaveUp, contextError(ctx, nil))
		}
		t, err := l.attempt(ctx, counters)
		if tryAgain(err) && want.wait {
			t, err = taken{key: l.keys[0]}, nil
		}
		switch err, cause := l.settleAttempt(ctx, t, err, &seen); {
		case err == nil:
			l.locker.note(ctx, l)
			return l, nil
		case err != ErrHeld || !want.wait:
			return fail(err, cause)
		}
		var more bool
		pause, more = set.retry.next(Attempt{Number: l.attempts, Elapsed: time.Duration(now() - start), Previous: pause, Left: t.left})
		if !more {
			return fail(ErrGaveUp, nil)
		}
		end := now().after(pause)
		if set.retry.unlimited() {
			end = never
		}
		switch err := l.locker.await(ctx, t.key, pause, end); err {
		case nil:
		case ErrClosed:
			return fail(ErrClosed, nil)
		default:
			return fail(ErrGaveUp, err)
		}
	}
}

// settleAttempt makes of an attempt's answer a held lock, or the error and the
// cause with which the acquisition fails unless it waits out ErrHeld.
func (l *Lock) settleAttempt(ctx context.Context, t taken, err error, seen *taken) (failure, cause error) {
	switch {
	case err != nil && answerOf(err) == unknown && ctx.Err() != nil:
		return ErrGaveUp, contextError(ctx, err)
	case err != nil:
		return err, nil
	}
	l.attempts++
	if !t.acquired {
		*seen = t
		return ErrHeld, nil
	}
	if ended := l.hold(t); ended != nil {
		l.late++ // it is ours on the server, and must be freed
		return ended, nil
	}
	return nil, nil
}

// failed leaves nothing behind of an acquisition and reports why it failed.
func (l *Lock) failed(start instant, seen taken, err, cause error) error {
	if l.late > 0 {
		l.abandon(l.ttl, l.late)
	}
	if l.queued {
		l.locker.queues.leave(l)
	}
	return &AcquireError{
		Key: seen.key, Left: seen.left, Attempts: l.attempts, Waited: time.Duration(now() - start),
		Err: err, Cause: cause, held: seen.left > 0,
	}
}

// prepare fills in what does not depend on the server.
func (l *Lock) prepare(ctx context.Context, set *settings, want wanted) {
	l.ttl = set.ttl
	l.extends = set.extends(want.do)
	l.parent, l.bound = ctx, want.do
	l.token, l.ownToken = set.token, set.token != ""
	if !l.ownToken {
		l.token = newToken()
	}
	l.say(set.owner)
}

// counters returns the fence counters that the acquisition counts with.
func (l *Lock) counters(set *settings) []string {
	switch {
	case set.unfenced:
		return nil
	case len(l.keys) == 1:
		return fenceCounter(l.keys[0])
	}
	return countersOf(l.keys)
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

// attempt tries once to take all keys.
func (l *Lock) attempt(ctx context.Context, counters []string) (taken, error) {
	if l.groups() != nil {
		return l.takeGroups(ctx, counters != nil)
	}
	return l.take(ctx, l.keys, counters)
}

// take takes keys of one slot. A lost reply is asked for again, which is safe
// because the script knows the token.
func (l *Lock) take(ctx context.Context, keys, counters []string) (taken, error) {
	var t taken
	err := repeat(ctx, tries, func(ctx context.Context) (err error) {
		sent := now()
		if len(l.keys) == 1 {
			t, err = l.takeOne(ctx, counters)
		} else {
			t, err = l.takeAll(ctx, keys, counters)
		}
		t.sent = sent
		if answerOf(err) == unknown {
			l.late++
		}
		return err
	})
	return t, err
}

func (l *Lock) takeOne(ctx context.Context, counters []string) (taken, error) {
	r, err := l.locker.scripts.Acquire(ctx, l.locker.client, l.acquireParams(counters))
	return l.takenOne(r), err
}

func (l *Lock) acquireParams(counters []string) gen.AcquireParams {
	return gen.AcquireParams{Lock: l.keys[0], Counter: counters, Token: l.token, TTL: lease(l.ttl)}
}

func (l *Lock) takenOne(r gen.AcquireResult) taken {
	return taken{acquired: r.Acquired, fence: r.Fence, key: l.keys[0], left: remaining(r.Left)}
}

func (l *Lock) takeAll(ctx context.Context, keys, counters []string) (taken, error) {
	r, err := l.locker.scripts.AcquireAll(ctx, l.locker.client, gen.AcquireAllParams{
		Keys: slices.Concat(keys, counters), Token: l.token, TTL: lease(l.ttl), Locks: int64(len(keys)),
	})
	t := taken{acquired: r.Acquired, fence: r.Fence, key: keys[0], left: remaining(r.Left)}
	if held := r.Held; held > 0 && held <= int64(len(keys)) {
		t.key = keys[held-1]
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

// hold starts the lease. It returns why not when the Locker was closed meanwhile,
// or the reply came after the lease must count as over.
func (l *Lock) hold(t taken) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fence = uint64(t.fence)
	l.deadline.Store(int64(leaseEnd(t.sent, l.ttl)))
	l.expire()
	if l.end.Load() == nil {
		l.held.Store(true)
		if l.extends || l.queued && l.locker.queues.lined(l) {
			l.watch()
		}
	}
	switch cause := l.end.Load(); cause {
	case nil:
		return nil
	case expired:
		return fmt.Errorf("%w: the reply took %v, the lease is %v; use a longer TTL", ErrExpired, time.Duration(now()-t.sent), l.ttl)
	default:
		return cause
	}
}
