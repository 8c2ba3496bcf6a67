package rlock

import (
	"context"
	"strconv"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/events"
)

// EventKind is what has happened to an acquisition or to the lock that came of it.
type EventKind uint8

// An acquisition has these events, in this order: EventContended at most once, and then either
// EventAcquireFailed, which is its last event, or EventAcquired. After EventAcquired come any number of
// EventExtended and EventExtendFailed, perhaps EventShortLease and EventPolling, and then exactly one of the
// last six events, even if the lock expires and no caller uses it any more.
//
// A lock that Attach has returned starts with EventAttached. A call that is refused with an
// *ArgumentError, before anything is sent, has no events.
const (
	// EventContended: the acquisition found the lock held, or another acquisition of the
	// same Locker before it, for the first time.
	EventContended EventKind = iota + 1
	// EventAcquired: the lock is held.
	EventAcquired
	// EventAttached: Attach has taken over a held lock.
	EventAttached
	// EventAcquireFailed: the acquisition has ended without a lock; Err is what the
	// caller gets.
	EventAcquireFailed
	// EventExtended: the lock has a new lease.
	EventExtended
	// EventExtendFailed: an attempt to extend got an error, or its connection broke. The lock stays held until
	// its lease ends. A server that is silent until then makes no such event: EventExpired comes.
	EventExtendFailed
	// EventShortLease: the lock is extended, and its lease is so short that it may end before the client
	// of Open notices that a connection is dead; Err says what to do. It is told of the first such lock of
	// a Locker that has an observer, right after EventAcquired or EventAttached.
	EventShortLease
	// EventPolling: the user lacks a right for the queue, so nobody of the Locker waits in it any more (see
	// WithQueue); Err says which. It is told of the first lock after that which has an observer, right after
	// EventAcquired or EventAttached.
	EventPolling
	// EventReleased: the holder has released the lock.
	EventReleased
	// EventReleaseFailed: the holder has given the lock up, but the server has not confirmed
	// it. The Locker frees the keys in the background, or a later Release does, without
	// another event. Otherwise the keys stay until their lease ends.
	EventReleaseFailed
	// EventLost: the server says that the key is gone or has another token; Err is ErrLost.
	EventLost
	// EventExpired: the lease has ended, or the time of WithMaxHold; Err is ErrExpired or ErrMaxHold.
	EventExpired
	// EventDetached: Detach has ended the handle, and the lease runs on.
	EventDetached
	// EventClosed: the Locker was closed while the lock was held.
	EventClosed

	eventKinds // one more than the last
)

var eventNames = [eventKinds]string{
	EventContended:     "contended",
	EventAcquired:      "acquired",
	EventAttached:      "attached",
	EventAcquireFailed: "acquire_failed",
	EventExtended:      "extended",
	EventExtendFailed:  "extend_failed",
	EventShortLease:    "short_lease",
	EventPolling:       "polling",
	EventReleased:      "released",
	EventReleaseFailed: "release_failed",
	EventLost:          "lost",
	EventExpired:       "expired",
	EventDetached:      "detached",
	EventClosed:        "closed",
}

// String returns the word for the kind in logs and metrics, such as "acquire_failed".
func (k EventKind) String() string {
	if k == 0 || k >= eventKinds {
		return "EventKind(" + strconv.Itoa(int(k)) + ")"
	}
	return eventNames[k]
}

// Event is one step of an acquisition. A field that does not apply is zero. It never contains a token.
type Event struct {
	Kind       EventKind
	Key        string        // Redis key; of a set, the first one, or the one that stood in the way
	Keys       []string      // all of them, in the order they were asked for; do not change them
	Fence      uint64        // of the lock, once it is held
	Attempts   int           // how often the acquisition has tried so far; see Lock.Attempts
	Waited     time.Duration // from the start of the acquisition until it was contended, or until it ended
	Held       time.Duration // how long the lock has been held
	Remaining  time.Duration // of the holder's lease, by the local clock; NoExpiry: no end is known
	Local      bool          // the contention is with an acquisition of the same Locker
	Contended  bool          // EventContended came before
	HandedOver bool          // it is, or was, also another caller's of this Locker, and never free in between
	Err        error         // why it failed or ended; see Reason
}

// Observer is told what happens to locks; see WithObserver.
type Observer interface {
	// Observe gets each event, and the context that the lock was acquired with, which may have ended:
	// use its values, such as a trace. Observe should not block: the caller, or a goroutine of the
	// Locker, waits for it. The events of one lock come in their order, those of several locks may come
	// at once. No mutex is held, so Observe may call the lock and its Locker.
	//
	// A panic or runtime.Goexit in Observe ends the call that told the event: an acquisition then
	// leaves nothing locked, and any other call has done its work. In a goroutine of the Locker it ends
	// the program, unless that asks for a waiting call, which it ends then.
	Observe(ctx context.Context, e Event)
}

// ObserverFunc makes an Observer of a function.
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// Observers returns an Observer that tells each of all, in their order, but for nil ones. If all are nil, it
// returns nil, which WithObserver refuses. If one of them panics, the others are told all the same.
func Observers(all ...Observer) Observer {
	var some observers
	for _, o := range all {
		if isObserver(o) {
			some = append(some, o)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some
}

// observers are told one after the other.
type observers []Observer

func (all observers) Observe(ctx context.Context, e Event) {
	events.Each(all, func(o Observer) { o.Observe(ctx, e) })
}

// isObserver reports whether there is something to call.
func isObserver(o Observer) bool {
	f, is := o.(ObserverFunc)
	return o != nil && (!is || f != nil)
}
