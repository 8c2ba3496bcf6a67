package rlock

import (
	"context"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/backend"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Backend keeps locks somewhere else than in Redis: in another database, or in memory. NewWithBackend makes a
// Locker of it. Package backendtest tests that a Backend does what is said here.
//
// For each key there is at most one token at a time, with a lease. A lease runs by the clock of the Backend:
// when it is over, the key is free, whether or not anything is still stored. A Backend that knows that clock
// only within bounds lets a lease last a little longer, never shorter. A TTL, and what is left of a lease, is
// positive and in whole milliseconds, or NoExpiry. Keys and tokens are not empty.
//
// Many goroutines call a Backend at the same time. A call may be made again after an error, and one that was
// given up may still arrive, after others: each of them must be harmless then, as is said at each method.
// A method returns when ctx ends, with an error that matches that of ctx, which is after 10 seconds at the
// latest. Its error says that nobody knows whether it was done, and will be, so it is repeated, and what it
// may have taken is freed later. Refused says that it was not done and never will be.
//
// A Backend that is a Fencer or a Notifier too is used as such.
type Backend interface {
	// Acquire gives the key to token for ttl, counted from when it is done, if nobody has the key. If token has
	// it already, Acquire confirms that: the lease ends as it did or after ttl, whichever is later. If another
	// token has it, Acquire changes nothing, and returns false and what is left of that one's lease, 0 if it
	// does not know.
	Acquire(
		ctx context.Context, key, token string, ttl time.Duration,
	) (acquired bool, left time.Duration, err error)
	// Extend lets the lease end after ttl, counted from when it is done, unless it ends later already. It
	// returns false, and changes nothing, if token does not have the key: it never takes a key.
	Extend(ctx context.Context, key, token string, ttl time.Duration) (held bool, err error)
	// Release frees the key. It returns false, and changes nothing, if token does not have it.
	Release(ctx context.Context, key, token string) (released bool, err error)
	// Holder returns the token that has the key and what is left of its lease, "" if nobody has it.
	Holder(ctx context.Context, key string) (token string, left time.Duration, err error)
}

// Fencer is a Backend that counts, for Lock.Fence. Without it, all fences are 0.
type Fencer interface {
	// Fence returns a number that is larger than each that it has returned before, for whichever key, also to
	// other processes and after a restart, and no larger than math.MaxInt64. A Locker calls it while it has
	// the key.
	Fence(ctx context.Context, key string) (uint64, error)
}

// Notifier is a Backend that tells of changes, so that those who wait hear at once that a key is free, and
// holders that they have lost it. Without it, who waits for a key asks up to four times a second, and a
// process that wants it all the time may get it much more often than others.
type Notifier interface {
	// Notify has changed called with each key that may have changed, by whichever process, until ctx ends.
	// When it begins to hear of changes, and after each gap in which it has not, it calls changed with "",
	// which stands for all keys. It returns at once, and need not hear yet: until the first call of changed,
	// who waits asks. changed does not block.
	Notify(ctx context.Context, changed func(key string))
}

// Refused is for a Backend: the error says that a call has done nothing, and will not.
func Refused(err error) error {
	if err == nil {
		return nil
	}
	return &wire.BackendError{Err: err, Refused: true}
}

// NewWithBackend returns a Locker whose locks are in a Backend, which stays as it is when the Locker is
// closed. The options are the defaults of every lock.
//
// What needs Redis is refused, with an error that is ErrInvalid and names it: readers and permits, Detach and
// Attach, Probe, sets WithToken, WithMinHold, WithQueue(true), WithBarging and WithInvalidations. Extend
// never shortens a lease. There is no order among the processes that wait for a key: within a process there
// is. Check always asks the Backend, and Client returns nil.
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

// lookAt asks the Backend who has a key, for those who wait for it.
func (l *Locker) lookAt(ctx context.Context, key string) (notify.Seen, error) {
	claim := wire.One(key)
	holders, err := l.wire.Inspect(ctx, &claim)
	if err != nil {
		return notify.Seen{}, err
	}
	h := holders[0]
	return notify.Seen{Held: h.Held, Token: h.Token, Left: max(h.End.Until(), 0)}, nil
}
