package rlock

import (
	"context"
	"slices"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/events"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// newLock returns a Lock for the keys of a claim. The Lock is not held yet. The call began at start.
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

// Key returns the Redis key with the prefix. For a set it returns the first key.
func (l *Lock) Key() string {
	if l.usable() != nil {
		return ""
	}
	return l.claim.Key()
}

// Keys returns the Redis keys with the prefix, in the order of the call.
func (l *Lock) Keys() []string {
	if l.usable() != nil {
		return nil
	}
	return slices.Clone(l.claim.Keys())
}

// Token returns the value of the keys on the server while the lock is held. A program with the token can
// extend and release the lock. Ask for the token before each use: it changes when Extend shortens the lease.
// A command with the old token fails as if another token held the lock.
//
// After a caller has asked for the token, no other holder gets it. Before that, Release may hand the token
// over to the next holder of this process together with the lease. Token of the released lock then returns
// "". Readers of this
// process may share one token. WithUniqueToken prevents both.
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
	l.locker.leftover.Drop(l.claim.Keys(), l.terms.Token()) // the caller may use the token again
	return l.terms.Token()
}

// Fence returns a number that is larger than the fence of every earlier holder of any of the keys. It returns
// 0 for a lock WithFence(false). A holder may lose the lock and not know it yet. A resource is safe from that
// holder if it refuses every fence below the largest that it has seen. All who share a key at one time have
// one fence. So a resource cannot tell a reader whose share is over from the other readers.
// docs/GUARANTEES.md says what fences rely on.
func (l *Lock) Fence() uint64 {
	if l == nil {
		return 0
	}
	return l.fence
}

// Attempts returns how often the acquisition asked the server for the lock: 1 if the lock was free, 0 after a
// hand-over by another holder of the same Locker. It does not count repeated commands and heartbeats.
// Stats.Attempts counts them.
func (l *Lock) Attempts() int {
	if l == nil {
		return 0
	}
	return int(l.attempts)
}

// Deadline returns the end of the lease by the clock of this process. The lease counts from the moment when
// the process sent the last command that the server confirmed. Deadline is a little earlier than the end of
// the lease at the server, because the two clocks may differ in speed. Deadline returns the zero time for a
// lock that never expires. It does not say whether the lock was lost: ask Err.
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

// Err returns nil while the lock is held as far as this process knows without asking the server. That means:
// no caller has released the lock, the server has not reported a loss, and the lease has not ended by the
// local clock. After that Err returns why the lock ended: ErrReleased, ErrLost, ErrExpired, ErrMaxHold,
// ErrDetached or ErrClosed. Each of them matches ErrNotHeld. Err costs nanoseconds. If the observer does not
// know of the end yet, Err tells the observer.
//
// If the process pauses after Err, it acts on an old answer. The local clock may stand still while the
// machine is suspended. Use Fence where an old answer must do no harm, and Verify to ask the server.
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

// Context returns a context that ends when the lock ends. context.Cause returns why, like Err:
//
//   - At the deadline the context ends, whatever the network does.
//   - If the lock is lost, the context ends at once if the server sends invalidations (see Invalidations),
//     and otherwise at the next extension.
//   - The context ends before the lock with WithStopBefore (ErrLeaseEnding) and when Shutdown begins
//     (ErrShutdown).
//
// The context has the values of the context of the acquisition. In the function of Do and its variants it
// also ends with that context. Elsewhere it does not, because that context may only limit the wait.
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

// keepContext returns the context that Context has made before. If there is none, it keeps made, unless made
// is nil.
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

// holderContext marks the context of a holder. rlock refuses an acquisition with this context for a key that
// the holder has, because the acquisition would wait for ever.
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

// heldIn looks for a holder of one of the keys, on the same server, among the holders that ctx derives from.
// It returns that key.
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

// Locks returns the locks that this Locker holds now, in no particular order. An acquisition under way may
// get its lock right after.
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

// eachLock calls do for the locks of a Locker, with mu held. It tells the observers after that, because an
// observer may take long or end the goroutine.
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

// tokensOver ends locks whose leases have ended, if no caller has released them and no goroutine has noticed.
func tokensOver(locks []*holder) {
	events.Each(locks, func(h *holder) {
		l := (*Lock)(h)
		defer l.deliver()
		l.mu.Lock()
		defer l.unlock()
		l.endIfOver()
	})
}
