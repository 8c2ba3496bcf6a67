package rlock

import (
	"context"
	"slices"
	"time"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/lease"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
	"github.com/rlock-go/toolkit/rlock/internal/renew"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// scheduled is a Lock as the schedule of renewals sees it.
type scheduled Lock

// Entry returns the lock's place on the schedule.
func (l *scheduled) Entry() *renew.Entry { return &l.renewal }

// nextRenewal returns when to extend a lock whose lease began at from. The caller holds mu.
func (l *Lock) nextRenewal(from clock.Instant) clock.Instant {
	if !l.extends {
		return clock.Never
	}
	return l.lease.NextRenewal(from)
}

// planRenewal plans the next renewal after a confirmed extension. The caller holds mu.
func (l *Lock) planRenewal(e lease.Extension) {
	if l.lifetime != nil {
		l.locker.renewals.Set((*scheduled)(l), l.nextRenewal(e.Sent), l.lease.Deadline())
	}
}

// advanceRenewal tells the schedule that the deadline has changed. The schedule then extends
// the lock at that instant, or earlier if that is planned. The caller holds mu.
func (l *Lock) advanceRenewal(at clock.Instant) {
	if !l.extends {
		at = clock.Never
	}
	if l.lifetime != nil {
		l.locker.renewals.Advance((*scheduled)(l), at, l.lease.Deadline())
	}
}

// expireAll ends locks whose lease is over.
func (l *Locker) expireAll(over []*scheduled) {
	for _, s := range over {
		lock := (*Lock)(s)
		lock.mu.Lock()
		lock.expire()
		if lock.cause() == nil { // it was extended in between
			lock.watch()
		}
		lock.mu.Unlock()
	}
	deliverAll(locksOn(over))
}

// closeAll ends the locks that are on the schedule, and returns them.
func (l *Locker) closeAll() []*Lock {
	locks := locksOn(l.renewals.Close())
	for _, lock := range locks {
		lock.mu.Lock()
		lock.finish(stateClosed)
		lock.mu.Unlock()
	}
	return locks
}

func locksOn(schedule []*scheduled) []*Lock {
	locks := make([]*Lock, len(schedule))
	for i, s := range schedule {
		locks[i] = (*Lock)(s)
	}
	return locks
}

// renewal is an automatic extension that is under way.
type renewal struct {
	lock *Lock
	lease.Extension
}

// batchKey is equal for locks that one script can extend. The script gives all of them the
// same TTL, and on a cluster its keys must be in one slot.
type batchKey struct {
	ttl  time.Duration
	slot uint16
}

// extendAll extends locks, many with one script. If an extension gets an error or no answer,
// it is tried again soon, until the lease ends, because an error does not mean that the lock
// is lost.
func (l *Locker) extendAll(due []*scheduled) {
	locks := locksOn(due)
	defer deliverAll(locks) // of those that have ended
	var (
		alike = map[batchKey][]renewal{}
		sets  []renewal // locks of several keys or tokens, or without an end of their lease: each needs its own call
		limit = 50 * time.Millisecond
	)
	for _, lock := range locks {
		if lock.groups() != nil {
			l.renewGroups(lock)
			continue
		}
		e, err := lock.startRenewal()
		if err != nil {
			continue
		}
		limit = max(limit, lock.lease.Deadline().Until())
		r := renewal{lock, e}
		if len(lock.keys()) > 1 || len(e.Former) > 0 || e.TTL == NoExpiry {
			sets = append(sets, r)
			continue
		}
		k := batchKey{ttl: e.TTL}
		if l.cluster {
			k.slot = slot.Of(lock.key[0])
		}
		alike[k] = append(alike[k], r)
	}
	// The client of a cluster returns from a pipeline when every node has answered. A node
	// that is silent must not cost the locks on the others their leases, so each slot has a
	// call of its own there.
	if !l.cluster {
		l.renewAlike(limit, alike)
		l.renewEach(limit, sets)
		return
	}
	for k, renewals := range alike {
		l.renewAlike(limit, map[batchKey][]renewal{k: renewals})
	}
	for _, r := range sets {
		l.renewEach(limit, []renewal{r})
	}
}

// renewAlike extends in the background locks of which one script extends many.
func (l *Locker) renewAlike(limit time.Duration, alike map[batchKey][]renewal) {
	if len(alike) == 0 {
		return
	}
	l.detach(limit, func(ctx context.Context) {
		l.renew(ctx, alike)
		for _, renewals := range alike {
			defer deliverAll(locksOf(renewals))
		}
	})
}

// renewEach extends in the background locks with a call for each.
func (l *Locker) renewEach(limit time.Duration, renewals []renewal) {
	if len(renewals) == 0 {
		return
	}
	l.detach(limit, func(ctx context.Context) {
		l.extendEach(ctx, renewals)
		deliverAll(locksOf(renewals))
	})
}

func locksOf(renewals []renewal) []*Lock {
	locks := make([]*Lock, len(renewals))
	for i, r := range renewals {
		locks[i] = r.lock
	}
	return locks
}

// renew extends locks of one key, up to renew.Batch with a script, in one pipeline.
func (l *Locker) renew(ctx context.Context, alike map[batchKey][]renewal) {
	var (
		batches [][]renewal
		params  []gen.ExtendManyParams
	)
	for k, renewals := range alike {
		for batch := range slices.Chunk(renewals, renew.Batch) {
			p := gen.ExtendManyParams{TTL: k.ttl}
			for _, r := range batch {
				p.Locks = append(p.Locks, r.lock.key[0])
				p.Tokens = append(p.Tokens, r.Token)
			}
			batches, params = append(batches, batch), append(params, p)
		}
	}
	var apart []renewal
	for i, reply := range l.scripts.ExtendManyBatch(ctx, l.client, params) {
		if remote.OutcomeOf(reply.Err) == remote.Refused && len(batches[i]) > 1 {
			// One key may be the reason: the user may have lost the right to it, or a cluster
			// is moving it. Each lock gets its own call, so that the others keep their lease.
			apart = append(apart, batches[i]...)
			continue
		}
		for n, r := range batches[i] {
			if slices.Contains(reply.Value, int64(n+1)) {
				r.settle(1, reply.Err)
			} else {
				r.settle(0, reply.Err)
			}
		}
	}
	if len(apart) > 0 {
		l.extendEach(ctx, apart)
	}
}

// extendEach extends locks with a call for each, in one pipeline.
func (l *Locker) extendEach(ctx context.Context, renewals []renewal) {
	params := make([]gen.ExtendParams, len(renewals))
	for i, r := range renewals {
		params[i] = r.lock.extendParams(r.Extension)
	}
	for i, reply := range l.scripts.ExtendBatch(ctx, l.client, params) {
		renewals[i].settle(reply.Value, reply.Err)
	}
}

// settle takes the answer as Lock.settle does, and plans the next extension.
func (r renewal) settle(position int64, err error) {
	r.lock.mu.Lock()
	defer r.lock.mu.Unlock()
	if r.lock.settle(r.Extension, position, err) != nil {
		pause := min(max(r.TTL/20, 10*time.Millisecond), time.Second)
		r.lock.advanceRenewal(clock.Now().After(pause))
		return
	}
	r.lock.planRenewal(r.Extension)
}
