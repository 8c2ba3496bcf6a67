package rlock

import (
	"context"
	"hash/maphash"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
)

// setWillDo tells whether acquire.lua is the one of which takeFree knows the beginning.
// When the script is changed, it is the script that runs, until somebody has made sure
// that this still holds.
const setWillDo = gen.AcquireSHA1 == "69f7e0a528b5caf7f459998be72a5761ce8b369a"

// takeFree takes a lock that is expected to be free, and reports whether it was.
//
// SET NX is what acquire.lua begins with, and all that it does for a free lock without
// a fence; sent by itself it is half the work for the server. Any answer but OK is for
// the script to explain: who holds the lock and for how long, or what stands in the way.
func (l *Lock) takeFree(ctx context.Context) (bool, error) {
	client := l.locker.client
	set := client.B().Set().Key(l.key[0]).Value(l.lease.Token()).Nx()
	var command rueidis.Completed
	if l.lease.TTL() == NoExpiry {
		command = set.Build()
	} else {
		command = set.PxMilliseconds(l.lease.TTL().Milliseconds()).Build()
	}
	reply := client.Do(ctx, command)
	if err := reply.NonRedisError(); err != nil {
		return false, err
	}
	text, err := reply.ToString()
	return err == nil && text == "OK", nil
}

// expectations tell which locks are likely free, so that those who find one held again
// and again ask for it once each time. Where locks share an entry, they may be wrong.
//
// No lock is expected to be free before the server has run a script for this Locker: what
// is taken must be released by one, for which the user may lack the right.
type expectations struct {
	seed     maphash.Seed
	of       [1 << 10]expectation
	scripted atomic.Bool
}

// scripts notes whether the server runs them. It is asked of every lock, so that a write
// that changes nothing would cost all processors their copy.
func (e *expectations) scripts(run bool) {
	if e.scripted.Load() != run {
		e.scripted.Store(run)
	}
}

// freeAfterHeld is how often a lock must be found free after it was found held.
const freeAfterHeld = 4

func (e *expectations) about(key string) *expectation {
	return &e.of[maphash.String(e.seed, key)%uint64(len(e.of))]
}

// expectation is how often a lock must still be found free before SET takes it.
type expectation struct{ needed atomic.Int32 }

func (e *expectation) free() bool { return e.needed.Load() <= 0 }

func (e *expectation) found(free bool) {
	if !free {
		e.needed.Store(freeAfterHeld)
	} else if !e.free() {
		e.needed.Add(-1)
	}
}
