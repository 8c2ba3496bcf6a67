package rlock

import (
	"context"
	"slices"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/events"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// newLock returns a Lock of the keys of a claim, not held yet, for a call that began at start.
func (l *Locker) newLock(
	ctx context.Context, claim wire.Claim, set *settings, by method, start clock.Instant,
) *Lock {
	lock := &Lock{set: set, by: by, parent: ctx, since: start, own: lease{claim: claim, locker: l}}
	lock.lease = &lock.own
	if set.token != "" {
		lock.claim.Choose()
	}
	lock.terms.Prepare(set.ttl, set.token)
	lock.events = observe(ctx, set.observer, start)
	return lock
}

// Key returns the Redis key, prefix included; of a set, the first one.
func (l *Lock) Key() string {
	if l.usable() != nil {
		return ""
	}
	return l.claim.Key()
}

// Keys returns the Redis keys, prefix included, in the order they were asked for.
func (l *Lock) Keys() []string {
	if l.usable() != nil {
		return nil
	}
	return slices.Clone(l.claim.Keys())
}

// Token returns the value that the keys have on the server while the lock is held. Whoever has it can extend
// and release the lock. Ask for it each time it is needed: it changes when Extend shortens the lease, and a
// command with the former token fails as if somebody else held the lock.
//
// Once Token has returned a token, no other holder gets it. Before that, Release may hand it over to the
// next holder of this process together with the lease; Token then returns "". Readers of this process may
// have one token in common. WithUniqueToken prevents both.
func (l *Lock) Token() string {
	if l.usable() != nil {
		return ""
	}
	l.mu.Lock()
	defer l.unlock()
	if l.leaseGone && (l.claim.IsShare() || !l.hasToken && !l.set.uniqueToken) {
		return ""
	}
	l.tokenShown, l.hasToken = true, true
	l.lease.handle().Seal()
	l.locker.leftover.Drop(l.claim.Keys(), l.terms.Token()) // its caller may take the keys with it again
	return l.terms.Token()
}

// Fence returns a number that is larger than that of every earlier holder of any of the keys, or 0 if the
// lock was taken WithFence(false). A resource that refuses numbers smaller than the largest it has seen is
// safe from a holder that has lost the lock and does not know it yet. All who share a key at a time have one
// fence, so it does not refuse one of them whose share is over. docs/GUARANTEES.md says what fences rest on.
func (l *Lock) Fence() uint64 {
	if l == nil {
		return 0
	}
	return l.fence
}

// Attempts returns how often the acquisition tried to get the lock from the server: 1 for a lock that was
// free, 0 for one that another holder of the same Locker has handed over. Repeated commands and heartbeats
// do not count; Stats.Attempts has them.
func (l *Lock) Attempts() int {
	if l == nil {
		return 0
	}
	return int(l.attempts)
}

// Deadline returns when the lease ends unless it is extended, by this process's clock: counted from when it
// sent the last command that the server confirmed, less a margin for clock drift. It is the zero time for a
// lock that never expires. It says nothing about a lock that was lost; see Err.
func (l *Lock) Deadline() time.Time {
	if l.usable() != nil {
		return time.Time{}
	}
	end := l.deadline()
	if end == clock.Never {
		return time.Time{}
	}
	return end.Time()
}

// Err returns nil while the lock is held as far as this process can know without asking: nobody has released
// it, the server has not said that it is lost, and its lease has not ended by the local clock. After that it
// returns why the lock ended: ErrReleased, ErrLost, ErrExpired, ErrMaxHold, ErrDetached or ErrClosed, each
// of which matches ErrNotHeld. It costs nanoseconds. If nobody has told the observer of the end yet, Err
// does.
//
// A process that is paused after it has called Err acts on an old answer, and the clock may stand still
// while the machine is suspended. Use the Fence where that must do no harm, and Verify to ask the server.
func (l *Lock) Err() error {
	if wrong := l.usable(); wrong != nil {
		return wrong
	}
	if l.valid() {
		return nil
	}
	defer l.deliver()
	l.mu.Lock()
	defer l.unlock()
	l.endIfOver()
	if cause := l.cause(); cause != nil {
		return cause
	}
	return nil
}

// valid reports whether Err is nil.
func (l *Lock) valid() bool {
	return l.stateNow() == stateHeld && clock.Now() < l.deadline() && !l.locker.isClosed()
}

// Context returns a context that ends when the lock does; context.Cause then says why, as Err does. It ends
// at the deadline whatever the network does, and if the lock is lost, at once where the server tells (see
// Invalidations) and elsewhere at the next extension. It ends before the lock does WithStopBefore
// (ErrLeaseEnding), and when Shutdown begins (ErrShutdown).
//
// It has the values of the context that the lock was acquired with. It ends with that context only in the
// function of Do, or of one like it: elsewhere that context may be meant for the waiting alone.
func (l *Lock) Context() context.Context {
	if wrong := l.usable(); wrong != nil {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(wrong)
		return ctx
	}
	if ctx := l.keepContext(nil); ctx != nil {
		return ctx
	}
	parent := l.parent
	if !l.by.do {
		parent = context.WithoutCancel(parent)
	}
	ctx, end := context.WithCancelCause(holderContext{parent, l}) // calls methods of the caller's context
	kept := l.keepContext(&lockContext{Context: ctx, end: end})
	if kept != ctx {
		end(nil) // another call was first
	}
	return kept
}

// keepContext returns what Context has made before, or else keeps what it makes now, if that is not nil.
func (l *Lock) keepContext(made *lockContext) context.Context {
	defer l.deliver()
	var over *reason
	defer func() {
		if over != nil {
			made.end(over)
		}
	}()
	l.mu.Lock()
	defer l.unlock()
	if l.extras != nil && l.ctx != nil {
		return l.ctx.Context
	}
	if made == nil {
		return nil
	}
	l.endIfOver()
	l.needExtras()
	l.ctx = made
	if over = l.cause(); over == nil {
		l.watchOrEnd()
		over = l.cause() // if the Locker is closed
	}
	switch {
	case over != nil:
	case l.locker.isStopping():
		over = shuttingDown
	case l.stopsAt() <= clock.Now():
		over = leaseEnding
	}
	made.over = over
	return made.Context
}

// holderContext marks a context as that of a holder. rlock refuses an acquisition with it of a key
// that the holder has, because the acquisition would wait for ever.
type holderContext struct {
	context.Context
	lock *Lock
}

type holderKey struct{}

// Value returns the holder for holderKey, and the parent's value for any other key.
func (c holderContext) Value(key any) any {
	if key == (holderKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// heldIn looks whether ctx is the Context of a holder, or derived from one, that holds one of the keys
// on the same server. If so, it returns that key.
func (l *Locker) heldIn(ctx context.Context, keys []string) (string, bool) {
	for {
		holder, ok := ctx.Value(holderKey{}).(holderContext)
		if !ok {
			return "", false
		}
		if holder.lock.locker.server == l.server && holder.lock.valid() {
			for _, key := range keys {
				if slices.Contains(holder.lock.claim.Keys(), key) {
					return key, true
				}
			}
		}
		ctx = holder.Context
	}
}

// Locks returns the locks of this Locker that are held now, in no particular order. A call that is acquiring
// may get its lock right after.
func (l *Locker) Locks() []*Lock {
	if l.usable() != nil {
		return nil
	}
	var held []*Lock
	for _, h := range l.registry.All() {
		if lock := (*Lock)(h); lock.valid() {
			held = append(held, lock)
		}
	}
	return held
}

// eachLock calls do for the locks of a Locker, with mu held. Their observers are told after that, because one
// of them may take long or end the goroutine.
func (l *Locker) eachLock(do func(*Lock)) {
	var done []*Lock
	defer func() { events.Each(done, (*Lock).deliver) }()
	events.Each(l.registry.All(), func(item *holder) {
		lock := (*Lock)(item)
		lock.mu.Lock()
		defer lock.unlock()
		done = append(done, lock) // first, because do may panic
		do(lock)
	})
}

// tokensOver ends locks that nobody has released, and whose leases have ended without anybody noticing.
func tokensOver(locks []*holder) {
	events.Each(locks, func(h *holder) {
		l := (*Lock)(h)
		defer l.deliver()
		l.mu.Lock()
		defer l.unlock()
		l.endIfOver()
	})
}
