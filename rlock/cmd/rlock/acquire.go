package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockadmin"
)

// answerTimeout bounds a call that waits for nothing but the server's answer.
const answerTimeout = 10 * time.Second

// waiting is what the flags of run, acquire and wait say about a lock that somebody holds.
type waiting struct {
	patience time.Duration // 0: without an end
	none     bool          // do not wait
	conflict int           // exit code

	end    time.Time   // of the patience, from when it begins
	settle func() bool // keeps that end from ending rlock; false: it has
}

// atOnce is how a command waits that has no such flags.
var atOnce = waiting{none: true}

func (w *waiting) define(a *arguments) {
	w.patience = -1
	a.duration(&w.patience, "wait")
	a.alias("w", "wait")
	a.flags.BoolVar(&w.none, "no-wait", false, "")
	a.alias("n", "no-wait")
	w.conflict = exitNotGot
	a.flags.Func("conflict-exit-code", "", func(text string) (err error) {
		if w.conflict, err = strconv.Atoi(text); err != nil || w.conflict < 0 || w.conflict > 255 {
			return errors.New("want a number from 0 to 255")
		}
		return nil
	})
	a.alias("E", "conflict-exit-code")
}

func (w *waiting) check(a *arguments) error {
	switch {
	case w.none && w.patience >= 0:
		return a.usage("-w and -n contradict each other")
	case w.patience == 0:
		w.none = true
	case w.patience < 0:
		w.patience = 0
	}
	return nil
}

// begin begins to count the patience. Its end ends rlock, should the server be silent.
func (w *waiting) begin(p *program, c *connection) {
	w.settle = func() bool { return true }
	if w.patience > 0 {
		w.end = time.Now().Add(w.patience)
		w.settle = p.within(time.Until(w.end.Add(grace)), failure(exitFailed,
			"gave up waiting after %v: %s has not answered; %s", w.patience, c.addresses(), lookThere))
	}
}

// left is what is left of the patience; it is above 0.
func (w *waiting) left() time.Duration { return max(time.Until(w.end), 1) }

// retry is how a call waits.
func (w *waiting) retry() rlock.Retry {
	switch {
	case w.none:
		return rlock.DefaultRetry().MaxAttempts(1)
	case w.patience > 0:
		return rlock.DefaultRetry().MaxTime(w.left())
	}
	return rlock.DefaultRetry()
}

// bound ends a call that gets no answer although its time is over, early enough in the grace that the call
// tells who was in the way.
func (w *waiting) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	switch {
	case w.none:
		return context.WithTimeout(ctx, answerTimeout)
	case w.patience > 0:
		return context.WithDeadline(ctx, w.end.Add(grace/2))
	}
	return context.WithCancel(ctx)
}

// failed returns the error of a call that did not get what it waited for, and has rlock end with it although
// the server may be silent by now. ctx is that of the command.
func (w *waiting) failed(ctx context.Context, p *program, locker *rlock.Locker, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var refused *rlock.AcquireError
	held := errors.As(err, &refused) && errors.Is(err, rlock.ErrHeld)
	known := &exit{exitFailed, err}
	switch {
	case held && w.conflict == 0: // the caller says that this is no failure, and cron sends mail of what is said
		known = &exit{code: 0}
	case held:
		known.code = w.conflict
	}
	rest := time.Second
	if w.settle(); w.patience > 0 {
		rest = time.Until(w.end.Add(grace))
	}
	p.within(rest, known)
	if known.code == 0 || !held {
		return known
	}
	admin, unknown := rlockadmin.New(locker.Client())
	if unknown != nil {
		return known
	}
	switch state, unknown := admin.Inspect(ctx, refused.Key); {
	case unknown != nil, state.Mode == rlockadmin.Free:
		return known
	case state.Mode != rlockadmin.Exclusive:
		return failure(w.conflict, "%w; in use: %s", err, sharers(state))
	case state.Holders[0].Owner != "":
		return failure(w.conflict, "%w; the holder is %s", err, state.Holders[0].Owner)
	}
	return known
}

// acquisition is what the flags of run and acquire say about the lock.
type acquisition struct {
	waiting
	sharing
	ttl     time.Duration
	minHold time.Duration // for which others are kept out, however early CMD ends
	owner   string
}

func (q *acquisition) define(a *arguments) {
	q.waiting.define(a)
	q.sharing.define(a)
	a.defineTTL(&q.ttl)
	a.flags.StringVar(&q.owner, "owner", "", "")
}

// check refuses what cannot be for so many keys.
func (q *acquisition) check(a *arguments, keys int) error {
	if err := a.checkTTL(q.ttl); err != nil {
		return err
	}
	switch {
	case q.owner != "" && !validOwner(q.owner):
		return a.usage("--owner must have at most %d bytes of printable UTF-8", longestOwner)
	case q.minHold > 0 && q.shares():
		return a.usage("--min-hold excludes all others, but %s lets others in; use only one of them",
			q.flag())
	case q.minHold > q.ttl:
		return a.usage("--min-hold %v is longer than --ttl %v; if this machine dies, only the lease excludes "+
			"others; use --ttl %[1]v or more", q.minHold, q.ttl)
	}
	if err := q.sharing.check(a, keys); err != nil {
		return err
	}
	return q.waiting.check(a)
}

// take acquires the lock of the keys.
func (q *acquisition) take(
	ctx context.Context, p *program, locker *rlock.Locker, keys []string, opts ...rlock.Option,
) (*rlock.Lock, error) {
	bounded, cancel := q.bound(ctx)
	defer cancel()
	opts = append(opts, rlock.WithTTL(q.ttl))
	if q.owner != "" {
		opts = append(opts, rlock.WithOwner(q.owner))
	}
	if q.minHold > 0 {
		opts = append(opts, rlock.WithMinHold(q.minHold))
	}
	lock, err := q.call(bounded, locker, keys, opts)
	if err != nil {
		return nil, q.failed(ctx, p, locker, err)
	}
	if !q.settle() || ctx.Err() != nil { // rlock is about to end, since the moment of the grant
		q.giveBack(locker, lock)
		return nil, context.Cause(ctx)
	}
	return lock, nil
}

// giveBack releases a lock under which nothing was done: at once, whatever --min-hold says.
func (q *acquisition) giveBack(locker *rlock.Locker, lock *rlock.Lock) error {
	if q.minHold == 0 {
		return release(lock)
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	admin, err := rlockadmin.New(locker.Client())
	errs, token := []error{err}, lock.Token()
	for _, key := range lock.Keys() {
		errs = append(errs, admin.ForceRelease(ctx, key, token))
	}
	return errors.Join(errs...)
}

func (q *acquisition) call(ctx context.Context, locker *rlock.Locker, keys []string,
	opts []rlock.Option) (*rlock.Lock, error) {
	opts = append(opts, rlock.WithRetry(q.retry()))
	switch one := len(keys) == 1; {
	case q.readers && q.none:
		return locker.TryAcquireShared(ctx, keys[0], opts...)
	case q.readers:
		return locker.AcquireShared(ctx, keys[0], opts...)
	case q.limit > 0 && q.none:
		return locker.TryAcquirePermits(ctx, keys[0], max(q.permits, 1), q.limit, opts...)
	case q.limit > 0:
		return locker.AcquirePermits(ctx, keys[0], max(q.permits, 1), q.limit, opts...)
	case one && q.none:
		return locker.TryAcquire(ctx, keys[0], opts...)
	case one:
		return locker.Acquire(ctx, keys[0], opts...)
	case q.none:
		return locker.TryAcquireAll(ctx, keys, append(opts, rlock.WithCrossSlot(true))...)
	}
	return locker.AcquireAll(ctx, keys, append(opts, rlock.WithCrossSlot(true))...)
}

// releaseTimeout bounds what nobody waits for after the work is done. The lease ends anyhow.
const releaseTimeout = 2 * time.Second

func release(lock *rlock.Lock) error {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	return lock.Release(ctx)
}

// acquireCommand is rlock acquire.
func (p *program) acquireCommand(args []string) error {
	a := p.arguments("acquire")
	var q acquisition
	q.define(a)
	keys, err := a.keys(args, 1, 1, "one KEY")
	if err != nil {
		return err
	}
	if err := q.check(a, len(keys)); err != nil {
		return err
	}
	ctx, locker, done, err := p.locker(&q.waiting)
	if err != nil {
		return err
	}
	defer done()
	start := time.Now()
	stop := p.watch(ctx, locker, &q.waiting, q.want, keys, q.owner)
	lock, err := q.take(ctx, p, locker, keys)
	stop()
	if err != nil {
		return err
	}
	token := lock.Token()
	err = p.result(token+"\n", fields{
		"token": token, "fence": lock.Fence(), "ttl_ms": q.ttl.Milliseconds(),
		"waited_ms": time.Since(start).Milliseconds(),
	}.withKey(keys[0]))
	if err != nil { // nobody knows the token
		release(lock)
	}
	return err
}
