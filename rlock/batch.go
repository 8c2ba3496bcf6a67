package rlock

import (
	"cmp"
	"context"
	"fmt"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/lease"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// AcquireResult is what became of one key of TryAcquireEach: a Lock, or the error that
// TryAcquire would have returned.
type AcquireResult struct {
	Lock *Lock
	Err  error
}

// TryAcquireEach is TryAcquire for many keys in one round trip. The locks are independent:
// each has its own token (or that of WithToken), fence and lease, and a key that is held or
// refused does not affect the others. To take all keys or none, use TryAcquireAll.
//
// There is one result for each key, in the order of keys. If an argument is refused before
// anything is sent, such as an empty key or a key that is named twice, TryAcquireEach returns
// an error and no results.
//
// Every lease counts from when the whole batch was sent, so use a longer TTL for a batch that
// takes the server long. On a Redis Cluster the keys may be in any slots.
func (l *Locker) TryAcquireEach(ctx context.Context, keys []string, opts ...Option) ([]AcquireResult, error) {
	set, err := l.begin(ctx, opts)
	if err != nil {
		return nil, err
	}
	full, err := set.distinctKeys(keys)
	if err != nil {
		return nil, err
	}
	b := batch{locker: l, ctx: ctx, set: set, start: clock.Now(), takings: make([]taking, len(full))}
	returned := false
	defer func() {
		if !returned {
			b.interrupted()
		}
	}()
	for i, key := range full {
		b.takings[i].prepare(ctx, l.lockOf(key), set, b.start)
	}
	b.run()
	results := make([]AcquireResult, len(full))
	for i := range b.takings {
		if a := &b.takings[i]; a.failure == nil {
			results[i].Lock = a.lock
		} else {
			results[i].Err = a.failure
		}
	}
	b.told = true
	deliverEach(b.takings)
	returned = true
	return results, nil
}

// batch is one call of TryAcquireEach.
type batch struct {
	locker  *Locker
	ctx     context.Context
	set     *settings
	start   clock.Instant
	takings []taking
	told    bool // their events are told
}

// taking is one key's part in TryAcquireEach.
type taking struct {
	lock     *Lock
	counters []string
	seen     taken
	answer   taken
	err      error
	failure  error // what the caller gets
}

func (a *taking) prepare(ctx context.Context, l *Lock, set *settings, start clock.Instant) {
	a.lock, a.seen = l, taken{key: l.key[0]}
	l.prepare(ctx, set, wanted{})
	l.observe(set, start)
	a.counters = l.counters()
}

// run takes all keys that can be had.
func (b *batch) run() {
	asked := make([]*taking, 0, len(b.takings)) // of the server
	for i := range b.takings {
		a := &b.takings[i]
		_, held := b.locker.heldIn(b.ctx, a.lock.keys())
		switch {
		case held:
			b.fail(a, ErrAlreadyHeld, nil)
		case b.locker.isClosed():
			b.fail(a, ErrClosed, nil)
		case b.ctx.Err() != nil:
			b.fail(a, ErrGaveUp, clock.ContextError(b.ctx, nil))
		default:
			asked = append(asked, a)
		}
	}
	asked = b.askAboutHolders(asked)
	b.locker.takeEach(b.ctx, asked)
	for _, a := range asked {
		if err, cause := a.lock.settleAttempt(b.ctx, a.answer, a.err, b.start, &a.seen); err != nil {
			b.fail(a, err, cause)
		}
	}
}

// askAboutHolders is Lock.askAboutHolder for a batch, in one round trip. It returns those
// whose keys may be free.
func (b *batch) askAboutHolders(asked []*taking) []*taking {
	var (
		rest, contested []*taking
		holders         []*Lock
		versions        []lease.Version
		params          []gen.InspectParams
	)
	for _, a := range asked {
		holder := b.locker.holder(a.lock.key[0])
		if a.lock.ownToken || holder == nil || !holder.Valid() {
			rest = append(rest, a)
			continue
		}
		v := holder.version()
		contested, holders, versions = append(contested, a), append(holders, holder), append(versions, v)
		params = append(params, gen.InspectParams{Locks: a.lock.keys()})
	}
	if len(contested) == 0 {
		return asked
	}
	var replies []gen.Reply[gen.InspectResult]
	_ = remote.RetryTimes(b.ctx, remote.Attempts, func(ctx context.Context) error {
		replies = b.locker.scripts.InspectBatch(ctx, b.locker.client, params)
		for _, reply := range replies {
			if remote.OutcomeOf(reply.Err) == remote.Indeterminate {
				return reply.Err
			}
		}
		return nil
	})
	for i, a := range contested {
		states, err := statesOf(a.lock.keys(), replies[i].Value, replies[i].Err)
		switch {
		case err != nil && b.ctx.Err() != nil:
			b.fail(a, ErrGaveUp, clock.ContextError(b.ctx, err))
		case err != nil:
			b.fail(a, err, nil)
		default:
			if held := a.lock.heldAs(holders[i], versions[i], states[0], &a.seen); held != nil {
				b.fail(a, held, nil)
			} else {
				rest = append(rest, a)
			}
		}
	}
	return rest
}

func (b *batch) fail(a *taking, err, cause error) {
	a.lock.cleanUp()
	a.failure = a.lock.failed(single, b.start, a.seen, err, cause)
}

// interrupted does for all keys what acquisition.interrupted does for one.
func (b *batch) interrupted() {
	var held []*Lock
	for i := range b.takings {
		switch a := &b.takings[i]; {
		case a.lock == nil || a.lock.stateNow() == stateFailed:
		case a.lock.stateNow() >= stateHeld:
			held = append(held, a.lock)
		default:
			if a.lock.lease.Token() != "" {
				a.lock.late++ // a command may be under way
			}
			b.fail(a, errInterrupted, nil)
		}
	}
	b.locker.ReleaseEach(context.Background(), held)
	if !b.told {
		deliverEach(b.takings)
	}
}

// deliverEach calls deliverFirst for each lock of a batch. If an observer panics for one lock,
// the events of the other locks are still told.
func deliverEach(takings []taking) {
	for i := range takings {
		if takings[i].lock == nil || takings[i].lock.observed() == nil {
			continue
		}
		returned := false
		func() {
			defer func() {
				if !returned {
					deliverEach(takings[i+1:])
				}
			}()
			takings[i].lock.deliverFirst(false)
			returned = true
		}()
	}
}

func (l *Locker) takeEach(ctx context.Context, asked []*taking) {
	remote.RetryTimes(ctx, remote.Attempts, remote.Remaining(asked, func(ctx context.Context, asked []*taking) []error {
		params := make([]gen.AcquireParams, len(asked))
		for i, a := range asked {
			a.lock.identify()
			l.counters.attempts.Add(1)
			params[i] = a.lock.acquireParams(a.counters)
		}
		errs := make([]error, len(asked))
		sent := clock.Now()
		for i, reply := range l.scripts.AcquireBatch(ctx, l.client, params) {
			a := asked[i]
			a.answer, a.err = a.lock.takenOne(reply.Value), remote.Redact(reply.Err, a.lock.lease.Token())
			a.answer.sent = sent
			if remote.OutcomeOf(a.err) == remote.Indeterminate {
				a.lock.late++
			}
			errs[i] = a.err
		}
		return errs
	}))
}

// ReleaseEach is Release for many locks of this Locker in one round trip. There is one error
// for each lock, in the order of locks: what Release would have returned, nil if the keys are
// free. A lock that fails does not affect the others. Like Release, it does its work even if
// ctx has ended.
//
// A nil Lock, a lock of another Locker, and a lock that was named before get an
// *ArgumentError.
func (l *Locker) ReleaseEach(ctx context.Context, locks []*Lock) []error {
	errs := l.ownLocks(ctx, locks)
	defer deliverAll(locks)
	var asked []*releasing
	defer func() {
		for _, r := range asked { // only if user code has panicked
			r.settle()
		}
	}()
	var alone []int // positions in locks
	for i, lock := range locks {
		switch {
		case errs[i] != nil:
		case lock.groups() != nil || !lock.tryFreeing():
			// The lock needs several calls, or another goroutine is releasing it. Waiting for
			// that goroutine now could last for ever, because it may wait for a lock that this
			// call is releasing.
			alone = append(alone, i)
		default:
			e, err := lock.startRelease()
			if err != nil {
				errs[i] = err
				lock.endFreeing()
				continue
			}
			errs[i] = errInterrupted
			asked = append(asked, &releasing{lock: lock, ending: e, err: &errs[i]})
		}
	}
	if len(asked) > 0 {
		l.releaseEach(ctx, asked)
	}
	for ; len(asked) > 0; asked = asked[1:] {
		asked[0].settle()
	}
	for _, i := range alone {
		errs[i] = locks[i].Release(ctx)
	}
	return errs
}

// releasing is one lock's part in ReleaseEach.
type releasing struct {
	lock *Lock
	ending
	freed int64
	err   *error
}

func (r *releasing) settle() {
	*r.err = r.lock.settleRelease(r.ending, r.freed, *r.err)
	r.lock.endFreeing()
}

func (l *Locker) releaseEach(ctx context.Context, asked []*releasing) {
	remote.RetryDetached(ctx, remote.Patience, remote.Remaining(asked, func(ctx context.Context, asked []*releasing) []error {
		params := make([]gen.ReleaseParams, len(asked))
		errs := make([]error, len(asked))
		for i, r := range asked {
			params[i] = r.lock.releaseParams()
			r.freed, errs[i] = r.lock.freeFormer(ctx)
		}
		for i, reply := range l.scripts.ReleaseBatch(ctx, l.client, params) {
			r := asked[i]
			r.freed += reply.Value
			if remote.OutcomeOf(reply.Err) == remote.Indeterminate {
				r.lock.unsure = true
			}
			errs[i] = cmp.Or(errs[i], reply.Err)
			*r.err = errs[i]
		}
		return errs
	}))
}

// ownLocks returns, in the order of locks, an error for each lock that a batch refuses.
func (l *Locker) ownLocks(ctx context.Context, locks []*Lock) []error {
	errs := make([]error, len(locks))
	wrong := l.usable()
	if wrong == nil {
		wrong = checkContext(ctx)
	}
	seen := make(map[*Lock]struct{}, len(locks))
	for i, lock := range locks {
		_, twice := seen[lock]
		switch {
		case wrong != nil:
			errs[i] = wrong
		case lock.usable() != nil:
			errs[i] = &ArgumentError{"locks", fmt.Sprintf("number %d is nil or the zero Lock; leave it out", i+1)}
		case lock.locker != l:
			errs[i] = &ArgumentError{"locks", fmt.Sprintf("number %d is of another Locker; give it to that one", i+1)}
		case twice:
			errs[i] = &ArgumentError{"locks", fmt.Sprintf("number %d stands in the list before; name every lock once", i+1)}
		}
		seen[lock] = struct{}{}
	}
	return errs
}
