package rlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// Acquire takes the lock of key, waiting while another token holds it until ctx
// ends or the retry policy gives up. The lease is WithTTL long and is not
// extended by itself unless WithAutoExtend says so.
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

// TryAcquire is Acquire without waiting: one attempt, and ErrHeld if another
// token holds the lock. A lost reply is asked for again, twice, as after a refused
// connection. Where the network has gone silent, that takes the client's own time-outs,
// some 20 seconds by default: give ctx a deadline.
func (l *Locker) TryAcquire(ctx context.Context, key string, opts ...Option) (*Lock, error) {
	return l.acquire(ctx, key, opts, wanted{})
}

// AcquireAll takes the locks of all keys at one instant, or waits for that while
// any of them is held, like Acquire. Callers may name overlapping sets in any order
// and cannot deadlock. The set is one Lock with one token, one fence and one lease.
//
// So that locks of single keys cannot keep a set waiting for ever, one that has
// waited for 2 seconds collects its keys: in the order of their names it keeps what
// it gets, for 2 seconds, and if that is not all, frees it for 2 seconds, and so on.
// Others then find a key held although its set is not; the caller has all or none.
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
func (l *Locker) lockOf(key string) *Lock { return &Lock{locker: l, key: [1]string{key}} }

// setOf returns a Lock of a set of keys, not held yet.
func (l *Locker) setOf(keys []string) *Lock {
	lock := l.lockOf(keys[0])
	if len(keys) > 1 {
		lock.more().keys = keys
	}
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
	lock := l.setOf(full)
	if set.slotGroups {
		lock.split()
	}
	if lock.groups() != nil && set.token != "" {
		return nil, &ArgumentError{"WithToken", "a set of several slots cannot have it; leave it out, or give the keys the same {hash tag}"}
	}
	return lock.acquire(ctx, set, want)
}

// begin checks what every call has and returns its settings.
func (l *Locker) begin(ctx context.Context, opts []Option) (*settings, error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	set, err := l.defaults.with(opts)
	if err == nil && set != l.defaults && set.given.ofLocker != "" {
		return nil, &ArgumentError{set.given.ofLocker, "it is for a whole Locker; give it to New or Open"}
	}
	return set, err
}

// acquisition is one call that turns a Lock with keys into a held one.
type acquisition struct {
	lock    *Lock
	ctx     context.Context
	set     *settings
	want    wanted
	start   clock.Instant
	told    bool          // its events: whatever comes now is not its own to tell
	seen    taken         // what the last look saw
	pause   time.Duration // the last one that the policy asked for
	collect *collector    // of a set that waits
	waiter  *waiter
	down    outage
}

// acquire turns a Lock that has keys into a held one.
func (l *Lock) acquire(ctx context.Context, set *settings, want wanted) (*Lock, error) {
	a := acquisition{lock: l, ctx: ctx, set: set, want: want, start: clock.Now(), seen: taken{key: l.key[0]}, down: outage{locker: l.locker}}
	l.prepare(ctx, set, want)
	l.observe(set, a.start)
	returned := false
	defer func() {
		a.waiter.leave()
		if !returned {
			a.interrupted()
		}
	}()
	err := a.run()
	a.told = true
	l.deliverFirst(false)
	returned = true
	if err != nil {
		return nil, err
	}
	return l, nil
}

// errInterrupted is what an operation has failed with that user code has ended by a panic
// or with runtime.Goexit. Only observers see it, and the statistics count it.
var errInterrupted = errors.New("rlock: a panic or runtime.Goexit in a RetryFunc, an Observer, a hook of the client or the context ended the call")

// interrupted leaves nothing behind of an acquisition that does not return, since user
// code panicked or ended the goroutine. It uses no context of the caller's: that may be
// what panicked.
func (a *acquisition) interrupted() {
	l := a.lock
	if l.stateNow() < stateHeld {
		_, _ = a.quit(nil)
	}
	switch {
	case l.stateNow() < stateHeld:
		if l.lease.Token() != "" {
			l.late++ // a command may be under way
		}
		_ = a.fail(errInterrupted, nil)
	case l.stateNow() != stateFailed:
		_ = l.Release(context.Background())
	}
	if !a.told {
		l.deliverFirst(false)
	}
}

// fail cleans up and reports why the acquisition failed.
func (a *acquisition) fail(err, cause error) error {
	if a.collect != nil && a.collect.keys != nil {
		a.lock.late++ // what was collected must be freed
	}
	a.lock.cleanUp()
	return a.failed(err, a.down.explain(cause))
}

// failed reports why the acquisition failed.
func (a *acquisition) failed(err, cause error) error {
	kind := single
	if a.want.wait {
		kind = waiting
	}
	return a.lock.failed(kind, a.start, a.seen, err, cause)
}

// next asks the policy for the pause before the next attempt. It reports false if the
// policy gives up.
func (a *acquisition) next(left time.Duration) (more bool) {
	a.pause, more = a.set.retry.next(Attempt{
		Number: a.lock.Attempts(), Elapsed: time.Duration(clock.Now() - a.start), Previous: a.pause, Left: left,
	})
	return more
}

// run returns nil when the lock is held.
func (a *acquisition) run() error {
	l, ctx := a.lock, a.ctx
	if key, held := l.locker.heldIn(ctx, l.keys()); held {
		a.seen.key = key
		return a.fail(ErrAlreadyHeld, nil)
	}
	if l.locker.isClosed() {
		return a.fail(ErrClosed, nil)
	}
	counters := l.counters()
	single := len(l.keys()) == 1 && !l.ownToken
	if single && !a.want.wait {
		if err, cause := l.askAboutHolder(ctx, &a.seen); err != nil {
			return a.fail(err, cause)
		}
	}
	if single && a.want.wait {
		handed, err := a.stand()
		switch {
		case handed && err == nil:
			return nil
		case handed:
			l.late++ // it is ours on the server, and must be freed
			return a.fail(err, nil)
		case err != nil:
			return a.fail(waitEnded(err))
		}
	}
	for {
		switch {
		case l.locker.isClosed():
			return a.fail(ErrClosed, nil)
		case ctx.Err() != nil:
			return a.fail(ErrGaveUp, clock.ContextError(ctx, nil))
		}
		t, err := l.attempt(ctx, counters, a.collect)
		if a.want.wait && a.down.passes(err) {
			if ctx.Err() != nil {
				return a.fail(ErrGaveUp, clock.ContextError(ctx, nil))
			}
			l.attempts++
			a.seen.left = 0 // nobody knows any more
			if !a.next(0) {
				return a.fail(ErrGaveUp, nil)
			}
			if err := clock.Sleep(ctx, a.down.pace(a.pause), l.locker.closed); err != nil {
				return a.fail(waitEnded(err))
			}
			continue
		}
		switch err, cause := l.settleAttempt(ctx, t, err, a.start, &a.seen); {
		case err == nil:
			return nil
		case err != ErrHeld || !a.want.wait:
			return a.fail(err, cause)
		}
		l.deliverFirst(true)
		if !a.next(t.left) {
			return a.fail(ErrGaveUp, nil)
		}
		if a.waiter == nil {
			a.waiter = newWaiter(l, a.set.retry)
		}
		if len(l.keys()) > 1 && !l.ownToken && l.groups() == nil {
			if a.collect == nil {
				a.collect = &collector{lock: l, turning: a.start.After(collectAfter)}
			}
			if a.collect.next(ctx) {
				continue
			}
		}
		if err := a.waiter.await(ctx, t.key, a.pause, a.collect.end()); err != nil {
			return a.fail(waitEnded(err))
		}
	}
}

// waitEnded makes of what ended the waiting the error and the cause of a failure.
func waitEnded(err error) (failure, cause error) {
	switch err {
	case clock.ErrStopped:
		return ErrClosed, nil
	case ErrHeld, ErrGaveUp:
		return err, nil
	}
	return ErrGaveUp, err
}

// settleAttempt makes of an attempt's answer a held lock, or the error and the
// cause with which the acquisition fails unless it waits out ErrHeld.
func (l *Lock) settleAttempt(ctx context.Context, t taken, err error, start clock.Instant, seen *taken) (failure, cause error) {
	switch {
	case err != nil && answerOf(err) == unknown && ctx.Err() != nil:
		return ErrGaveUp, clock.ContextError(ctx, err)
	case err != nil:
		return err, nil
	}
	l.attempts++
	if !t.acquired {
		*seen = t
		seen.at = clock.Now()
		l.emitContended(t, false)
		if t.sent != 0 {
			l.locker.lastTrip.Store(int64(clock.Now() - t.sent))
		}
		l.ticket.Contended(t.left)
		return ErrHeld, nil
	}
	if ended := l.start(t, start); ended != nil {
		l.late++ // it is ours on the server, and must be freed
		return ended, nil
	}
	return nil, nil
}

// cleanUp leaves nothing behind of an acquisition that has failed.
func (l *Lock) cleanUp() {
	if l.late > 0 {
		l.abandon(l.lease.TTL(), int(l.late))
	}
	l.ticket.Leave()
}

// failed reports why an acquisition failed.
func (l *Lock) failed(kind call, start clock.Instant, seen taken, err, cause error) error {
	if l.stateNow() == stateWaiting {
		l.locker.counters.waited.Add(int64(clock.Now() - start))
	}
	l.become(stateFailed)
	failed := &AcquireError{
		Key: seen.key, Left: seen.remains(), Attempts: l.Attempts(), Waited: time.Duration(clock.Now() - start),
		Err: err, Cause: cause, call: kind, held: seen.held,
	}
	l.emitFailed(failed)
	return failed
}

// prepare fills in what does not depend on the server.
func (l *Lock) prepare(ctx context.Context, set *settings, want wanted) {
	l.extends = set.extends(want.do)
	l.parent, l.bound = ctx, want.do
	l.shares = !set.uniqueToken
	l.fenced = !set.unfenced
	l.lease.Prepare(set.ttl, set.token)
	l.ownToken = set.token != ""
	if set.owner != "" && !l.ownToken {
		l.more().owner = set.owner
	}
}

// counters returns the fence counters that the acquisition counts with.
func (l *Lock) counters() []string {
	if !l.fenced {
		return nil
	}
	return slot.FenceCounters(l.keys())
}

// start starts the lease that the server has granted to an acquisition that began at start.
func (l *Lock) start(t taken, start clock.Instant) error {
	err := l.hold(clock.LeaseEnd(t.sent, l.lease.TTL()), uint64(t.fence), arrival{EventAcquired, start, false})
	if err == expired {
		return fmt.Errorf("%w: the reply took %v, the lease is %v; use a longer TTL", ErrExpired, time.Duration(clock.Now()-t.sent), l.lease.TTL())
	}
	return err
}
