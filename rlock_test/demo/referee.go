package main

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rlock-go/toolkit/rlock"
)

// referee watches the workers and counts. It can do so because they all are in
// one process; it is not part of the locking.
type referee struct {
	handOvers atomic.Int64
	overlaps  atomic.Int64
	done      atomic.Int64
	fromCache int64

	mu        sync.Mutex
	waits     int
	checked   int               // fences
	fallen    int               // fences that are not above the one before
	firstFall string            // and the first of them
	fences    map[string]uint64 // the largest of each lock key
	verdicts  []verdict
}

func newReferee() *referee { return &referee{fences: map[string]uint64{}} }

// acquired notes a lock that the caller holds. As long as it holds it, nobody else
// can report the same key, so the fences come in here in their order.
func (r *referee) acquired(lock *rlock.Lock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if lock.Attempts() > 1 {
		r.waits++
	}
	for _, key := range lock.Keys() {
		r.fence(key, lock.Fence())
	}
}

// fence compares a fence with the one before. The caller holds mu.
func (r *referee) fence(key string, fence uint64) {
	r.checked++
	if fence <= r.fences[key] {
		r.fallen++
		if r.fallen == 1 {
			r.firstFall = fmt.Sprintf("%d after %d of %s", fence, r.fences[key], key)
		}
	}
	r.fences[key] = max(fence, r.fences[key])
}

// enter notes that a worker is at the accounts, and counts whoever is there
// already. The caller holds their locks, and calls leave before it gives them up.
func (r *referee) enter(worker int, accounts ...*account) (leave func()) {
	me := int32(worker)
	for _, a := range accounts {
		if !a.inside.CompareAndSwap(0, me) {
			r.overlaps.Add(1)
		}
		if last := a.last.Swap(me); last != 0 && last != me {
			r.handOvers.Add(1)
		}
	}
	return func() {
		for _, a := range accounts {
			a.inside.CompareAndSwap(me, 0) // not if another one was there first
		}
	}
}

// transferred counts a transfer and returns how many there were.
func (r *referee) transferred() int64 { return r.done.Add(1) }

// lockKeys returns the keys of all locks that were ever held.
func (r *referee) lockKeys() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.fences))
}

// verdict is something that must be true, and what is wrong with it.
type verdict struct {
	claim string
	wrong error // nil: it is true
}

// judge keeps a verdict for the end.
func (r *referee) judge(claim string, wrong error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verdicts = append(r.verdicts, verdict{claim, wrong})
}
