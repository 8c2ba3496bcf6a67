package rlock

import (
	"context"
	"strconv"
	"time"
)

// EventKind is what has happened to an acquisition or to the lock that came of it.
type EventKind uint8

// The events of one acquisition come in the order of this list. EventContended comes
// at most once. Then comes EventAcquireFailed, and nothing else, or EventAcquired. An
// acquired lock has any number of extensions, and then exactly one of the last five
// events, also if it expires with nobody watching.
//
// A lock that was carried on with Attach starts with EventAttached. What is refused
// before anything is sent, with an *ArgumentError, has no events.
const (
	// EventContended: the first look found the lock held, or another acquisition of
	// the same Locker before this one.
	EventContended EventKind = iota + 1
	// EventAcquired: the lock is held.
	EventAcquired
	// EventAttached: the lock is held, and was before.
	EventAttached
	// EventAcquireFailed: the acquisition has ended without a lock; Err is what the
	// caller gets.
	EventAcquireFailed
	// EventExtended: the lock has a new lease.
	EventExtended
	// EventExtendFailed: an attempt to extend got an error for an answer, or none. The
	// lock is held until its lease ends.
	EventExtendFailed
	// EventReleased: the keys are free by the holder's doing.
	EventReleased
	// EventReleaseFailed: the lock was given up, and the server could not be told. The
	// keys are freed in the background or by a later Release, which have no event of
	// their own, or stay until their lease ends.
	EventReleaseFailed
	// EventLost: the lock ended on its own; Err is ErrLost or ErrExpired.
	EventLost
	// EventDetached: the handle was let go of with Detach.
	EventDetached
	// EventClosed: the Locker was closed while the lock was held.
	EventClosed

	eventKinds // one more than the last
)

var eventNames = [eventKinds]string{
	EventContended:     "contended",
	EventAcquired:      "acquired",
	EventAttached:      "attached",
	EventAcquireFailed: "acquire failed",
	EventExtended:      "extended",
	EventExtendFailed:  "extend failed",
	EventReleased:      "released",
	EventReleaseFailed: "release failed",
	EventLost:          "lost",
	EventDetached:      "detached",
	EventClosed:        "closed",
}

// String returns the kind in words, such as "acquire failed".
func (k EventKind) String() string {
	if k == 0 || k >= eventKinds {
		return "EventKind(" + strconv.Itoa(int(k)) + ")"
	}
	return eventNames[k]
}

// Event is one step of an acquisition. It never has a token in it: whoever has the
// token owns the lock. A field that does not apply is zero.
type Event struct {
	Kind EventKind
	// Key is the Redis key, prefix included; of a set, the first one, or the one that
	// stood in the way.
	Key string
	// Keys are all Redis keys in the order they were asked for. They belong to the
	// lock: do not change them.
	Keys []string
	// Fence is that of the lock, once it is held.
	Fence uint64
	// Attempts is how often the acquisition has looked at the lock so far.
	Attempts int
	// Waited is how long the acquisition took until it was contended, or ended.
	Waited time.Duration
	// Held is how long the lock has been held.
	Held time.Duration
	// Remaining is what is left of the lease, by the local clock: the other holder's until
	// the lock is held, then its own. NoExpiry: it never expires, or nobody knows.
	Remaining time.Duration
	// Local says that the contention is with an acquisition of the same Locker.
	Local bool
	// HandedOver says that the lock came straight from its last holder, who is of the
	// same Locker, without being free in between.
	HandedOver bool
	// Err is why it failed or ended.
	Err error
}

// Observer is told what happens to locks; see WithObserver.
type Observer interface {
	// Observe is called with each event and the context that the lock was acquired
	// with, which is there for its values, such as a trace, and may have ended.
	//
	// The calls for one lock come one after the other, in order, those for several
	// from many goroutines at once. They are made with no mutex held, so Observe may
	// call the lock and its Locker. The goroutine that the event happened in makes them
	// when it is through with it: the caller's before its call returns, or one of the
	// Locker's; or one that is telling another event of that lock. That goroutine waits
	// for Observe, and in the background so do other locks that it looks after: Observe
	// should not block.
	//
	// A panic, or runtime.Goexit, is not recovered: it ends the call. An acquisition then
	// leaves nothing locked, and whatever else the call was to do is done. In a goroutine
	// of the Locker, where a lock is lost or extended automatically, a panic ends the
	// program, as in any goroutine.
	Observe(ctx context.Context, e Event)
}

// ObserverFunc is a function as an Observer.
type ObserverFunc func(ctx context.Context, e Event)

// Observe calls f.
func (f ObserverFunc) Observe(ctx context.Context, e Event) { f(ctx, e) }

// WithObserver has o told what happens to the locks of the Locker, or to the one of a
// call. An observer of a call takes the place of its Locker's. Without one, nothing
// is spent on events.
//
// Each lock is then looked after until it ends, so that its last event comes on time
// whoever has forgotten it.
func WithObserver(o Observer) SharedOption {
	return sharedOption(func(s *settings) error {
		s.observer = o
		if f, is := o.(ObserverFunc); o == nil || is && f == nil {
			return &ArgumentError{"WithObserver", "it is nil; leave the option out to observe nothing"}
		}
		return nil
	})
}
