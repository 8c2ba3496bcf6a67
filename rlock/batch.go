package rlock

import (
	"context"
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/gen"
)

// Result is what became of one key of TryAcquireEach: a Lock, or the error that
// TryAcquire would have returned.
type Result struct {
	Lock *Lock
	Err  error
}

// TryAcquireEach is TryAcquire for many keys in one round trip. The locks have
// nothing to do with each other: each has its own token (or that of WithToken), fence
// and lease, and one that is held or refused leaves the others alone. For all keys or none there is
// TryAcquireAll.
//
// The results are in the order of keys, as many as there are. The error is of
// what is refused before anything is sent, such as an empty key or one that stands
// twice; then there are no results.
//
// Every lease counts from when the whole batch was sent, so give a batch that the
// server works on for long a longer TTL. On a Redis Cluster any slots are fine.
func (l *Locker) TryAcquireEach(ctx context.Context, keys []string, opts ...Option) ([]Result, error) {
	set, err := l.begin(ctx, opts)
	if err != nil {
		return nil, err
	}
	full, err := set.distinctKeys(keys)
	if err != nil {
		return nil, err
	}
	results := make([]Result, len(full))
	asked := make([]*taking, 0, len(full)) // of the server
	start := now()
	for i, key := range full {
		a := &taking{lock: l.lockOf(key), seen: taken{key: key}, result: &results[i]}
		if err, cause := a.begin(ctx, set, start); err != nil {
			a.lock.cleanUp()
			results[i].Err = a.lock.failed(start, a.seen, err, cause)
			continue
		}
		asked = append(asked, a)
	}
	l.takeEach(ctx, asked)
	var held []*Lock
	for _, a := range asked {
		if err, cause := a.lock.settleAttempt(ctx, start, a.answer, a.err, &a.seen); err != nil {
			a.lock.cleanUp()
			a.result.Err = a.lock.failed(start, a.seen, err, cause)
			continue
		}
		a.result.Lock = a.lock
		held = append(held, a.lock)
	}
	l.note(ctx, held...)
	return results, nil
}

// taking is one key's part in TryAcquireEach.
type taking struct {
	lock     *Lock
	counters []string
	seen     taken
	answer   taken
	err      error
	result   *Result
}

// begin does what needs no server. It returns why the acquisition has failed already.
func (a *taking) begin(ctx context.Context, set *settings, start instant) (failure, cause error) {
	l := a.lock
	l.prepare(ctx, set, wanted{})
	l.observe(set, start)
	if _, held := l.locker.heldIn(ctx, l.keys()); held {
		return ErrAlreadyHeld, nil
	}
	a.counters = l.counters()
	switch {
	case l.locker.isClosed():
		return ErrClosed, nil
	case ctx.Err() != nil:
		return ErrGaveUp, contextError(ctx, nil)
	case l.ownToken:
		return nil, nil
	}
	_, err := l.stand(ctx, set, wanted{}, start, &a.seen)
	return err, nil
}

func (l *Locker) takeEach(ctx context.Context, asked []*taking) {
	repeat(ctx, narrowing(asked, func(ctx context.Context, asked []*taking) []error {
		params := make([]gen.AcquireParams, len(asked))
		for i, a := range asked {
			a.lock.identify()
			l.counters.attempts.Add(1)
			params[i] = a.lock.acquireParams(a.counters)
		}
		errs := make([]error, len(asked))
		sent := now()
		for i, reply := range l.scripts.AcquireBatch(ctx, l.client, params) {
			a := asked[i]
			a.answer, a.err = a.lock.takenOne(reply.Value), reply.Err
			a.answer.sent = sent
			if answerOf(a.err) == unknown {
				a.lock.late++
			}
			errs[i] = a.err
		}
		return errs
	}))
}

// ExtendEach is Extend for many locks of this Locker in one round trip. The errors
// are in the order of locks, each as Extend would have returned it: nil where the
// lock has its new lease. One that fails leaves the others alone.
//
// A nil, a lock of another Locker and the second mention of a lock get an
// *ArgumentError.
func (l *Locker) ExtendEach(ctx context.Context, locks []*Lock, ttl time.Duration) []error {
	errs := l.ownLocks(ctx, locks)
	var asked []*extending
	for i, lock := range locks {
		switch {
		case errs[i] != nil:
		case lock.groups() != nil:
			errs[i] = lock.Extend(ctx, ttl)
		default:
			if errs[i] = lock.mayExtend(ctx, ttl); errs[i] == nil {
				asked = append(asked, &extending{lock: lock, err: &errs[i]})
			}
		}
	}
	if len(asked) > 0 {
		l.extendAsked(ctx, asked, ttl)
	}
	var extended []*Lock
	for _, e := range asked {
		if *e.err = e.lock.finishExtend(*e.err); *e.err == nil {
			extended = append(extended, e.lock)
		}
	}
	l.note(ctx, extended...)
	return errs
}

// extending is one lock's part in ExtendEach.
type extending struct {
	lock *Lock
	sent extension
	err  *error
}

func (l *Locker) extendAsked(ctx context.Context, asked []*extending, ttl time.Duration) {
	insist(ctx, narrowing(asked, func(ctx context.Context, asked []*extending) []error {
		errs := make([]error, len(asked))
		var params []gen.ExtendParams
		var sent []int // positions in asked
		for i, e := range asked {
			if e.sent, errs[i] = e.lock.startExtension(ttl); errs[i] == nil {
				params = append(params, e.lock.extendParams(ttl))
				sent = append(sent, i)
			}
		}
		for n, reply := range l.scripts.ExtendBatch(ctx, l.client, params) {
			i := sent[n]
			errs[i] = asked[i].lock.settleAsked(asked[i].sent, reply.Value, reply.Err)
		}
		for i, e := range asked {
			*e.err = errs[i]
		}
		return errs
	}))
}

// ReleaseEach is Release for many locks of this Locker in one round trip. The
// errors are in the order of locks, each as Release would have returned it: nil
// where the keys are free. One that fails leaves the others alone. Like Release,
// it does its work even if ctx has ended.
//
// A nil, a lock of another Locker and the second mention of a lock get an
// *ArgumentError.
func (l *Locker) ReleaseEach(ctx context.Context, locks []*Lock) []error {
	errs := l.ownLocks(ctx, locks)
	var asked []*releasing
	var alone []int // positions in locks
	for i, lock := range locks {
		switch {
		case errs[i] != nil:
		case lock.groups() != nil || !lock.freeing.TryLock():
			// It has several calls to make; or somebody else is releasing it: waiting for
			// them now could be for ever, if they wait for one that is ours by then.
			alone = append(alone, i)
		default:
			e, err := lock.startRelease()
			if err != nil {
				errs[i] = err
				lock.freeing.Unlock()
				continue
			}
			asked = append(asked, &releasing{lock: lock, ending: e, err: &errs[i]})
		}
	}
	if len(asked) > 0 {
		l.releaseEach(ctx, asked)
	}
	var freed []*Lock
	for _, r := range asked {
		*r.err = r.lock.settleRelease(r.ending, r.freed, *r.err)
		r.lock.freeing.Unlock()
		freed = append(freed, r.lock)
	}
	l.unnote(ctx, freed...)
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

func (l *Locker) releaseEach(ctx context.Context, asked []*releasing) {
	persist(ctx, narrowing(asked, func(ctx context.Context, asked []*releasing) []error {
		params := make([]gen.ReleaseParams, len(asked))
		for i, r := range asked {
			params[i] = r.lock.releaseParams()
		}
		errs := make([]error, len(asked))
		for i, reply := range l.scripts.ReleaseBatch(ctx, l.client, params) {
			r := asked[i]
			r.freed, *r.err = reply.Value, reply.Err
			if answerOf(reply.Err) == unknown {
				r.lock.unsure = true
			}
			errs[i] = reply.Err
		}
		return errs
	}))
}

// ownLocks refuses what a batch cannot take: an error for each such lock.
func (l *Locker) ownLocks(ctx context.Context, locks []*Lock) []error {
	errs := make([]error, len(locks))
	seen := make(map[*Lock]struct{}, len(locks))
	for i, lock := range locks {
		_, twice := seen[lock]
		switch {
		case ctx == nil:
			errs[i] = &ArgumentError{"ctx", "it is nil; use context.Background()"}
		case lock == nil:
			errs[i] = &ArgumentError{"locks", fmt.Sprintf("number %d is nil; leave it out", i+1)}
		case lock.locker != l:
			errs[i] = &ArgumentError{"locks", fmt.Sprintf("number %d is of another Locker; give it to that one", i+1)}
		case twice:
			errs[i] = &ArgumentError{"locks", fmt.Sprintf("number %d stands in the list before; name every lock once", i+1)}
		}
		seen[lock] = struct{}{}
	}
	return errs
}

// narrowing returns a try for repeat and persist: of all items at first, and then
// only of those that got no answer. It returns an error for each item.
func narrowing[T any](items []T, try func(ctx context.Context, items []T) []error) func(context.Context) error {
	return func(ctx context.Context) error {
		var (
			rest []T
			lost error
		)
		for i, err := range try(ctx, items) {
			if answerOf(err) == unknown {
				rest, lost = append(rest, items[i]), err
			}
		}
		items = rest
		return lost
	}
}
