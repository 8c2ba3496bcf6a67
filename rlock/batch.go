package rlock

import (
	"context"

	"github.com/rlock-go/toolkit/rlock/internal/argument"
	"github.com/rlock-go/toolkit/rlock/internal/attempt"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/events"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// AcquireResult is the result for one key of TryAcquireEach: a Lock, or the error that TryAcquire would
// return.
type AcquireResult struct {
	Lock *Lock
	Err  error
}

// TryAcquireEach is TryAcquire for many keys, in any slots, in one round trip. Each lock has its own token,
// fence and lease. To take all keys or none, use TryAcquireAll.
//
// There is one result for each key, in the order of keys. A wrong argument, such as a duplicate key, is an
// error without results. All leases count from when the Locker sent the batch, so use a longer TTL for a
// large batch.
func (l *Locker) TryAcquireEach(ctx context.Context, keys []string, opts ...Option) ([]AcquireResult, error) {
	set, err := l.begin(ctx, opts)
	if err != nil {
		return nil, err
	}
	full, wrong := argument.Distinct(set.prefix, keys)
	if wrong != nil {
		return nil, refused(wrong)
	}
	if l.underway.Enter() {
		defer l.underway.Leave()
	}
	b := batch{locker: l, all: make([]acquisition, len(full)), results: make([]AcquireResult, len(full))}
	defer b.interrupted()
	start := clock.Now()
	for i, key := range full {
		b.all[i].begin(l, ctx, wire.One(key), set, method{}, start)
	}
	b.run(ctx)
	b.deliver()
	b.returned = true
	return b.results, nil
}

// batch is one call of TryAcquireEach.
type batch struct {
	locker   *Locker
	all      []acquisition
	results  []AcquireResult // of each, in the same order
	returned bool
}

// run takes the keys that are free.
func (b *batch) run(ctx context.Context) {
	var asked []int // of the server
	for i := range b.all {
		a := &b.all[i]
		why := a.precheck()
		if why.none() && ctx.Err() != nil {
			why = noLock{ErrGaveUp, clock.ContextError(ctx, nil)}
		}
		if !b.fails(i, why) {
			asked = append(asked, i)
		}
	}
	asked = b.askAboutHolders(ctx, asked)
	tries := make([]wire.Try, len(asked))
	each := make([]*wire.Try, len(asked))
	for n, i := range asked {
		b.all[i].lock.attempts++
		b.all[i].tries.Outage.Ask()
		tries[n].Claim, tries[n].Request = &b.all[i].lock.claim, b.all[i].tries.Request()
		each[n] = &tries[n]
	}
	b.locker.wire.AcquireEach(ctx, each)
	for n, i := range asked {
		a := &b.all[i]
		a.tries.Outage.Record(tries[n].Err)
		if !b.fails(i, a.take(a.afterExpired(a.tries.Take(ctx, tries[n].Answer, tries[n].Err)))) {
			b.results[i].Lock = a.lock
		}
	}
}

// fails reports whether an acquisition ends without the lock, and then ends it.
func (b *batch) fails(i int, why noLock) bool {
	if why.none() {
		return false
	}
	b.results[i].Err = b.all[i].fail(why)
	return true
}

// askAboutHolders is acquisition.askAboutHolder for a batch, in one round trip. It returns the acquisitions
// whose keys may be free.
func (b *batch) askAboutHolders(ctx context.Context, asked []int) (rest []int) {
	var (
		contested []int
		holders   []*lease
		versions  []terms.Version
		keys      []string
	)
	for _, i := range asked {
		if h := b.all[i].localHolder(); h != nil {
			contested, keys = append(contested, i), append(keys, h.claim.Key())
			holders, versions = append(holders, h), append(versions, h.version())
		} else {
			rest = append(rest, i)
		}
	}
	if len(contested) == 0 {
		return asked
	}
	seen, errs := b.locker.wire.InspectEach(ctx, keys)
	for n, i := range contested {
		a := &b.all[i]
		why := noLockOf(&a.lock.claim, attempt.FailedCall(ctx, errs[n]))
		if errs[n] == nil {
			lost, _ := holders[n].endIfLost(seen[n].Token, versions[n])
			why = a.learn(seen[n], lost)
		}
		if !b.fails(i, why) {
			rest = append(rest, i)
		}
	}
	return rest
}

// interrupted is acquisition.interrupted for all keys, after user code has panicked or ended the goroutine.
func (b *batch) interrupted() {
	if b.returned {
		return
	}
	var held []*Lock
	for i := range b.all {
		switch a := &b.all[i]; {
		case a.lock == nil || a.lock.stateNow() == stateFailed:
		case a.lock.stateNow() >= stateHeld:
			a.lock.keepNobodyOut()
			held = append(held, a.lock)
		default:
			a.tries.Interrupted() // a command may be under way
			b.fails(i, noLock{err: wire.ErrInterrupted})
		}
	}
	b.locker.ReleaseEach(endedContext, held)
	b.deliver()
}

// deliver tells what has happened to each lock. If an observer panics for one lock, the events
// of the other locks are still told.
func (b *batch) deliver() {
	var locks []*Lock
	for i := range b.all {
		if a := &b.all[i]; a.lock != nil && !a.delivered {
			a.delivered = true
			locks = append(locks, a.lock)
		}
	}
	events.Each(locks, func(l *Lock) { l.events.tell(false) })
}

// ReleaseEach is Release for many locks of this Locker, in one round trip for each 8,192 keys. It returns one
// error for each lock, in the order of locks: the error that Release would return. An error of one lock does
// not affect the others. A nil Lock, a Lock of another Locker, and a second entry of a Lock get an
// *ArgumentError.
func (l *Locker) ReleaseEach(ctx context.Context, locks []*Lock) []error {
	errs := l.checkLocks(ctx, locks)
	defer events.Each(locks, (*Lock).deliver)
	var (
		asked []*releasing
		later []int // positions of locks with another Release under way
	)
	settle := func() {
		for ; len(asked) > 0; asked = asked[1:] {
			r := asked[0]
			if !r.settled { // user code has ended its part
				r.interrupted()
			}
			errs[r.at] = r.err
		}
	}
	defer settle()
	for i, lock := range locks {
		if errs[i] != nil {
			continue
		}
		busy, err := lock.releases.TryEnter()
		r := &releasing{lock: lock, at: i}
		switch {
		case busy != nil:
			// It must not wait for that Release before it releases the other locks: that Release may wait for
			// one of them.
			later = append(later, i)
		case err != nil:
			errs[i] = notEntered(lock.claim.Key(), err)
		default:
			asked = append(asked, r) // begin may call a method of a context, which may panic
			if !r.begin(clock.Now()) {
				errs[i] = r.err
				asked = asked[:len(asked)-1]
			}
		}
	}
	if len(asked) > 0 { // otherwise the Locker may be nil
		claim := func(r *releasing) *wire.Claim { return &r.lock.claim }
		wire.Apart(l.wire, asked, claim, func(some []*releasing) { l.releaseTogether(ctx, some) })
		settle()
	}
	for _, i := range later {
		errs[i] = locks[i].Release(ctx)
	}
	return errs
}

// releaseTogether makes the calls of several releases, and takes their outcomes.
func (l *Locker) releaseTogether(ctx context.Context, some []*releasing) {
	var (
		freeing    []*wire.Freeing
		shortening []*wire.Shortening // of locks that keep others out; see WithMinHold
	)
	for _, r := range some {
		f, until := r.freeing()
		if r.shortens() {
			s := &wire.Shortening{Freeing: f, Until: until}
			r.call, shortening = &s.Freeing, append(shortening, s)
		} else {
			r.call, freeing = &f, append(freeing, &f)
		}
	}
	if len(freeing) > 0 {
		l.wire.ReleaseEach(ctx, freeing)
	}
	if len(shortening) > 0 {
		l.wire.ShortenEach(ctx, shortening)
	}
	for _, r := range some {
		r.freed, r.err = r.call.Freed, r.call.Err
		r.settle()
	}
}
