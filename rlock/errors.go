package rlock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Errors for errors.Is. The types below carry the facts, for errors.As. Errors
// of the server (NOPERM, READONLY, OOM, WRONGTYPE, LOADING …) and of the context
// stay reachable through them.
var (
	// ErrHeld: another token holds the lock.
	ErrHeld = errors.New("rlock: lock is held by another")
	// ErrGaveUp: waiting ended before the lock was free, because the context
	// ended or the retry policy said so.
	ErrGaveUp = errors.New("rlock: gave up waiting")
	// ErrAlreadyHeld: the context belongs to a holder of the same key, so that waiting for
	// the key would never end. It matches ErrHeld as well.
	ErrAlreadyHeld error = &reason{"rlock: this context already holds the key", ErrHeld}

	// ErrNotHeld: the lock has ended. ErrReleased, ErrLost, ErrExpired, ErrDetached and
	// ErrClosed say why, and the error of such a lock matches both.
	ErrNotHeld = errors.New("rlock: lock is not held")
	// ErrReleased: the holder released it.
	ErrReleased error = released
	// ErrLost: the server said that the key is gone or has another token.
	ErrLost error = lost
	// ErrExpired: the lease ended, by the local clock, before an extension was
	// confirmed.
	ErrExpired error = expired

	// ErrDetached: Detach has let go of the lock; the keys are still held.
	ErrDetached error = detached

	// ErrClosed: the Locker was closed. The error of a lock that ended with its Locker
	// matches ErrNotHeld as well.
	ErrClosed = errors.New("rlock: locker is closed")

	// ErrInvalid: an argument or option cannot be right. Nothing was sent. The
	// next two match it as well.
	ErrInvalid = errors.New("rlock: invalid argument")
	// ErrDuplicateKey: a set names a key twice.
	ErrDuplicateKey error = &reason{"rlock: duplicate key", ErrInvalid}
	// ErrCrossSlot: a Redis Cluster keeps the keys of a set in different slots.
	ErrCrossSlot error = &reason{"rlock: keys in different slots", ErrInvalid}
)

// Why a lock ends.
var (
	released = &reason{"rlock: lock was released", ErrNotHeld}
	lost     = &reason{"rlock: lock was lost: its key is gone or has another token", ErrNotHeld}
	expired  = &reason{"rlock: lease expired before it was extended", ErrNotHeld}
	detached = &reason{"rlock: lock was detached", ErrNotHeld}
	closed   = &reason{"rlock: locker is closed", errors.Join(ErrNotHeld, ErrClosed)}
)

// reason is a sentinel that may be a special case of another.
type reason struct {
	text string
	kind error
}

func (r *reason) Error() string { return r.text }
func (r *reason) Unwrap() error { return r.kind }

// AcquireError reports a lock that was not acquired. Nothing of it is left on
// the server, or is being removed in the background where a reply was lost.
type AcquireError struct {
	Key       string        // the Redis key that stood in the way; of a set, the first one
	Remaining time.Duration // holder's remaining time by the last look, less what has passed since; NoExpiry when it never expires; 0 when unknown or over
	Attempts  int           // how often the server was asked, see Lock.Attempts
	Waited    time.Duration // from the call to this error
	Err       error         // ErrHeld, ErrGaveUp, ErrExpired, ErrClosed, ErrAlreadyHeld, or the server's or client's error
	Cause     error         // what ended the waiting, such as the context's error; may be nil

	call call // that failed
	held bool // a holder, or others before it, were seen
}

// call is how a call that failed is told of.
type call int

const (
	waiting  call = iota // for a lock
	single               // one attempt
	watching             // WaitFree
)

func (e *AcquireError) Error() string {
	var b strings.Builder
	b.WriteString("rlock: ")
	if e.call == watching {
		b.WriteString("wait for ")
	} else {
		b.WriteString("acquire ")
	}
	b.WriteString(quoteKey(e.Key) + ": ")
	switch {
	case e.Err != ErrGaveUp:
		b.WriteString(strings.TrimPrefix(e.Err.Error(), "rlock: "))
	case e.call == single:
		b.WriteString("ended before the answer")
	default:
		b.WriteString("gave up waiting" + e.effort())
	}
	switch {
	case !e.held || e.Err != ErrGaveUp && e.Err != ErrHeld:
	case e.Remaining == NoExpiry:
		b.WriteString("; its holder's lease never ends")
	case e.Remaining > 0:
		fmt.Fprintf(&b, "; its holder's lease ends in %v", max(e.Remaining.Round(time.Millisecond), time.Millisecond))
	}
	if e.Cause != nil {
		fmt.Fprintf(&b, ": %v", e.Cause)
	}
	return b.String()
}

// effort tells how often and for how long a waiter has tried, as far as it did.
func (e *AcquireError) effort() string {
	text := ""
	switch e.Attempts {
	case 0:
	case 1:
		text = " after 1 attempt"
	default:
		text = fmt.Sprintf(" after %d attempts", e.Attempts)
	}
	if waited := e.Waited.Round(time.Millisecond); waited > 0 {
		text += fmt.Sprintf(" in %v", waited)
	}
	return text
}

// Unwrap makes Err and Cause reachable, and ErrHeld where a holder was seen.
func (e *AcquireError) Unwrap() []error {
	list := []error{e.Err}
	if e.Err == ErrGaveUp && e.held {
		list = append(list, ErrHeld)
	}
	if e.Cause != nil {
		list = append(list, e.Cause)
	}
	return list
}

// LockError reports an operation on a lock that did not do what was asked.
type LockError struct {
	Op  string // extend, release, verify, check (also of Inspect), wait for, attach, detach, force release or probe
	Key string // Redis key; of a set, the first one that it is about
	Err error  // ErrReleased, ErrLost, ErrExpired, ErrClosed, or the server's or client's error
}

func (e *LockError) Error() string {
	return "rlock: " + e.Op + " " + quoteKey(e.Key) + ": " + strings.TrimPrefix(e.Err.Error(), "rlock: ")
}

// Unwrap returns Err.
func (e *LockError) Unwrap() error { return e.Err }

// ArgumentError reports an argument or option that was refused before anything
// was sent. It matches ErrInvalid.
type ArgumentError struct {
	Argument string // key, keys, ctx, client, or the option's name
	Reason   string // what is wrong, and what would be right
}

func (e *ArgumentError) Error() string { return "rlock: " + e.Argument + ": " + e.Reason }

// Unwrap returns ErrInvalid.
func (e *ArgumentError) Unwrap() error { return ErrInvalid }

// DuplicateKeyError reports a set that names a key twice. It matches
// ErrDuplicateKey and ErrInvalid.
type DuplicateKeyError struct{ Key string }

func (e *DuplicateKeyError) Error() string {
	return "rlock: key " + quoteKey(e.Key) + " stands twice in the list; name every key once"
}

// Unwrap returns ErrDuplicateKey.
func (e *DuplicateKeyError) Unwrap() error { return ErrDuplicateKey }

// CrossSlotError reports a set that a Redis Cluster cannot take atomically. It
// matches ErrCrossSlot and ErrInvalid.
type CrossSlotError struct {
	Keys  [2]string
	Slots [2]uint16
}

func (e *CrossSlotError) Error() string {
	return fmt.Sprintf("rlock: keys %s (slot %d) and %s (slot %d) are in different slots of the cluster; give them the same {hash tag}, or see WithCrossSlot",
		quoteKey(e.Keys[0]), e.Slots[0], quoteKey(e.Keys[1]), e.Slots[1])
}

// Unwrap returns ErrCrossSlot.
func (e *CrossSlotError) Unwrap() error { return ErrCrossSlot }

// quoteKey shows a key in an error: any bytes are allowed in one, and any length.
func quoteKey(key string) string {
	const most = 80
	if len(key) > most {
		return strconv.Quote(key[:most]) + "…"
	}
	return strconv.Quote(key)
}
