package rlock

import (
	"context"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/backend"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Backend keeps locks in another place than Redis: in another database, or in memory. NewWithBackend makes a
// Locker of a Backend. Package backendtest tests whether a Backend keeps these rules:
//
//   - A key has at most one token at a time, with a lease. Keys and tokens are not empty.
//   - A lease runs by the clock of the Backend. When the lease is over, the key is free, even if something is
//     still stored. If the Backend knows the clock only within bounds, a lease may last a little longer,
//     never shorter.
//   - A TTL, and the time left of a lease, is positive and in whole milliseconds, or NoExpiry.
//   - Many goroutines call a Backend at the same time.
//   - A Locker may repeat a call after an error. A call that the Locker gave up may arrive late, after other
//     calls. Repeated and late calls must be harmless, as the methods say.
//   - A method returns when ctx ends, with an error that matches the error of ctx. ctx ends after 10 seconds
//     at the latest.
//   - An error means that the outcome is unknown: the Locker repeats the call, and later frees what the call
//     may have taken. Refused means that the call has done nothing and never will.
//
// A Locker also uses the methods of Fencer and of Notifier if the Backend has them.
type Backend interface {
	// Acquire gives the key to token for ttl, counted from the grant, if no token has the key. If token has
	// the key already, Acquire confirms that: the lease keeps its end or ends after ttl, whichever is later.
	// If another token has the key, Acquire changes nothing. Then it returns false and the time left of the
	// other lease, or 0 if that time is unknown.
	Acquire(
		ctx context.Context, key, token string, ttl time.Duration,
	) (acquired bool, left time.Duration, err error)
	// Extend moves the end of the lease to ttl from now, unless the lease already ends later. It never takes
	// a key: if token does not have the key, Extend changes nothing and returns false.
	Extend(ctx context.Context, key, token string, ttl time.Duration) (held bool, err error)
	// Release frees the key. If token does not have the key, Release changes nothing and returns false.
	Release(ctx context.Context, key, token string) (released bool, err error)
	// Holder returns the token of the key and the time left of its lease, or "" if no token has the key.
	Holder(ctx context.Context, key string) (token string, left time.Duration, err error)
}

// Fencer is a Backend that gives the numbers for Lock.Fence. If a Backend is no Fencer, all fences are 0.
type Fencer interface {
	// Fence returns a number that is larger than every number before, for any key and any process, also after
	// a restart. The number is at most math.MaxInt64. A Locker calls Fence while it has the key.
	Fence(ctx context.Context, key string) (uint64, error)
}

// Notifier is a Backend that reports changes of keys. So waiters hear at once that a key is free, and holders
// hear at once that they have lost a key. If a Backend is no Notifier, a waiter asks up to four times a
// second, and a process that wants a
// key all the time may get it much more often than others.
type Notifier interface {
	// Notify calls changed with each key that any process may have changed, until ctx ends. Notify itself
	// returns at once. The Backend may begin to hear of changes later. When it begins, it calls changed
	// with "", which means all keys. It does so again when it may have missed changes. Until the first call of
	// changed, waiters poll. changed does not block.
	Notify(ctx context.Context, changed func(key string))
}

// Refused marks an error of a Backend: the call has done nothing, and never will.
func Refused(err error) error {
	if err == nil {
		return nil
	}
	return &wire.BackendError{Err: err, Refused: true}
}

// NewWithBackend returns a Locker with its locks in a Backend. Close of the Locker leaves the Backend open.
// The options are the defaults of every lock.
//
// The Locker refuses calls and options that need Redis, with an error that matches ErrInvalid and names the
// call or the option. The page docs/BACKENDS.md of this module lists them.
//
// Extend never shortens a lease. The callers of one process wait in order. Processes wait without an order.
// Check always asks the Backend, and Client returns nil.
func NewWithBackend(b Backend, opts ...LockerOption) (*Locker, error) {
	if b == nil {
		return nil, invalid("backend", "it is nil")
	}
	set, err := lockerSettings(opts)
	if err != nil {
		return nil, err
	}
	switch {
	case set.queue == wire.Queued:
		return nil, needsRedis("WithQueue")
	case set.barging > 0:
		return nil, needsRedis("WithBarging")
	case set.invalidations != nil:
		return nil, needsRedis("WithInvalidations")
	case set.minHold > 0:
		return nil, needsRedis("WithMinHold")
	}
	locks := &backend.Locks{Keys: b}
	locks.Fences, _ = b.(Fencer)
	notifier, notifies := b.(Notifier)
	if notifies {
		changed := *set
		changed.invalidations, set = NewInvalidations(), &changed
	}
	l := newLocker(b, served{server: wire.NewBacked(locks), reader: locks}, set)
	l.look, locks.Closed = l.lookAt, l.background
	if notifies {
		notifier.Notify(l.background, func(key string) {
			l.listener.SetHeard(true)
			set.invalidations.hub.Changed(key)
		})
	}
	return l, nil
}

// lookAt asks the Backend who has a key, for waiters.
func (l *Locker) lookAt(ctx context.Context, key string) (notify.Seen, error) {
	claim := wire.One(key)
	holders, err := l.wire.Inspect(ctx, &claim)
	if err != nil {
		return notify.Seen{}, err
	}
	h := holders[0]
	return notify.Seen{Held: h.Held, Token: h.Token, Left: max(h.End.Until(), 0)}, nil
}
