package rlock

import (
	"context"
	"strconv"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/events"
)

// EventKind says what has happened to an acquisition, or to the lock of that acquisition.
type EventKind uint8

// An acquisition has these events, in this order:
//
//   - EventContended, at most once.
//   - EventAcquireFailed, which is then the last event, or EventAcquired.
//   - After EventAcquired, any number of EventExtended and EventExtendFailed, and perhaps EventShortLease and
//     EventPolling.
//   - Exactly one of the last six events. It comes even if the lock expires and no caller uses the lock any
//     more.
//
// A lock from Attach starts with EventAttached. A call that fails with an *ArgumentError has no events.
const (
	// EventContended: the acquisition must wait or fail, for the first time. It found the lock held, or
	// another acquisition of the same Locker was in the line in front of it.
	EventContended EventKind = iota + 1
	// EventAcquired: the lock is held.
	EventAcquired
	// EventAttached: Attach has taken over a held lock.
	EventAttached
	// EventAcquireFailed: the acquisition has ended without a lock. Err is the error that the caller gets.
	EventAcquireFailed
	// EventExtended: the lock has a new lease.
	EventExtended
	// EventExtendFailed: an attempt to extend got an error, or its connection broke. The lock stays held
	// until its lease ends. If the server is silent until then, EventExpired comes without this event.
	EventExtendFailed
	// EventShortLease: the Locker extends the lock automatically, but the lease may end before the client of
	// Open notices a dead connection. Err says what to do. The event comes once for a Locker, right after
	// EventAcquired or EventAttached of the first lock that has an observer and a lease that short.
	EventShortLease
	// EventPolling: the user lacks a right for the queue, so all callers of the Locker poll (see WithQueue).
	// Err says which right. The event comes once for a Locker. After the refusal, the first lock
	// with an observer has it, right after EventAcquired or EventAttached.
	EventPolling
	// EventReleased: the holder has released the lock.
	EventReleased
	// EventReleaseFailed: the holder has given the lock up, but the server has not confirmed that. The Locker
	// frees the keys in the background, or a later Release frees them, without another event. Otherwise the
	// keys stay until their lease ends.
	EventReleaseFailed
	// EventLost: the server says that the key is gone or has another token; Err is ErrLost.
	EventLost
	// EventExpired: the lease has ended, or the time of WithMaxHold. Err is ErrExpired or ErrMaxHold.
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

// Event is one step of an acquisition or of its lock. A field that does not apply is zero. An Event never
// contains a token.
type Event struct {
	Kind       EventKind
	Key        string        // Redis key; for a set, the key in the way or the first key
	Keys       []string      // all keys, in the order of the call; do not change the slice
	Fence      uint64        // of the lock, after the grant
	Attempts   int           // how often the acquisition has tried; see Lock.Attempts
	Waited     time.Duration // from the start of the acquisition to its contention or its end
	Held       time.Duration // how long the lock has been held
	Remaining  time.Duration // of the holder's lease, by the local clock; NoExpiry: no end is known
	Local      bool          // the contention is with an acquisition of the same Locker
	Contended  bool          // EventContended came before
	HandedOver bool          // from another caller of this Locker, or shared with one; never free in between
	Err        error         // why it failed or ended; see Reason
}

// Observer is told what happens to locks; see WithObserver.
type Observer interface {
	// Observe gets each event, and the context of the acquisition. That context may have ended: use only its
	// values, such as a trace. Observe should not block, because the caller or a goroutine of the Locker
	// waits for it. The events of one lock come in order. Events of several locks may come at the same time.
	// Observe may call the lock and its Locker, because no mutex is held.
	//
	// A panic or runtime.Goexit in Observe ends the call that told the event. An acquisition then leaves
	// nothing locked, and any other call has done its work. In a goroutine of the Locker the panic ends the
	// program, with one exception: if the goroutine asks the server on behalf of a call that waits, the panic
	// ends that call.
	Observe(ctx context.Context, e Event)
}

// ObserverFunc makes an Observer of a function.
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// Observers returns an Observer that tells each Observer of all, in their order, and skips nil. If all are
// nil, it returns nil, which WithObserver refuses. If one Observer panics, Observers still tells the others.
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

// observers tells its elements one after the other.
type observers []Observer

func (all observers) Observe(ctx context.Context, e Event) {
	events.Each(all, func(o Observer) { o.Observe(ctx, e) })
}

// isObserver reports whether o can be called.
func isObserver(o Observer) bool {
	f, is := o.(ObserverFunc)
	return o != nil && (!is || f != nil)
}
