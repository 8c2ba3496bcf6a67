package rlockadmin

import (
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Mode says how holders hold a lock, or how a waiter wants it.
type Mode uint8

const (
	Free      Mode = iota // no token holds the lock
	Exclusive             // one holder has the whole lock
	Readers               // any number of readers share it
	Permits               // holders of some of its permits share it
)

var modes = [...]string{Free: "free", Exclusive: "exclusive", Readers: "readers", Permits: "permits"}

// String returns the mode in one word, such as "readers".
func (m Mode) String() string {
	if int(m) < len(modes) {
		return modes[m]
	}
	return fmt.Sprintf("Mode(%d)", m)
}

// State is the answer of the server about a lock.
type State struct {
	Key       string
	Mode      Mode
	Remaining time.Duration // time left of the lease that ends last; rlock.NoExpiry: it never ends
	Permits   int           // in use
	Limit     int           // the highest limit among the holders
	// Holders are in the order in which their leases end. Holders of a shared lock may be missing: their
	// leases have ended, the user may not read them, or the slot of a cluster moves.
	Holders []Holder
	// Waiters are the processes in the queue of the lock, in the order in which they get it, at most the
	// first thousand. A process with several waiting callers is one Waiter. A set that waits for this key is
	// one Waiter. A dead process stays until it is the first. Callers of other libraries and callers that poll
	// stand in no queue. Waiters is empty if the user may not read the queue.
	Waiters []Waiter

	token *string // a pointer, because package fmt would show a string
}

// Token returns the value of the key, or "" if the lock is free. It is the token of the only holder. For a
// shared lock it is a value with which ForceRelease frees the lock for all holders.
func (s State) Token() string { return text(s.token) }

// text returns the text that a pointer points to.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Holder is one holder of a lock.
type Holder struct {
	Owner     string        // the text of rlock.WithOwner, or ""
	Permits   int           // permits of the holder; 0: it has a lock or a reader's share
	Limit     int           // the limit that the holder gave; 0: no permits
	Remaining time.Duration // time left of the lease; rlock.NoExpiry: it never ends

	token *string // a pointer, because package fmt would show a string
}

// Token returns the token of the holder, for ForceRelease. Packages fmt, log/slog and encoding/json do not
// show it.
func (h Holder) Token() string { return text(h.token) }

// Waiter is a process that waits for a lock.
type Waiter struct {
	Owner   string    // the text of rlock.WithOwner, or ""
	Since   time.Time // the beginning of its wait, by the clock of the server
	Mode    Mode      // the mode that the waiter wants
	Permits int       // permits that the waiter wants; 0: no permits
	Limit   int       // the limit that the waiter gave; 0: no permits
}

// stateOf returns the State for the answer of the server about a key.
func stateOf(seen *wire.Seen) State {
	s := State{Key: seen.Key}
	if !seen.Held {
		return s.waitedFor(seen)
	}
	s.Remaining, s.token = max(seen.End.Until(), 0), &seen.Token
	switch {
	case seen.Phase == 0:
		s.Mode = Exclusive
		s.Holders = []Holder{{Owner: wire.OwnerIn(seen.Token), Remaining: s.Remaining, token: s.token}}
	case seen.Reads:
		s.Mode = Readers
	default:
		s.Mode = Permits
	}
	for i := range seen.Sharers {
		sharer := &seen.Sharers[i]
		_, permits, limit := wanted(sharer.Token)
		s.Permits, s.Limit = s.Permits+permits, max(s.Limit, limit)
		s.Holders = append(s.Holders, Holder{
			wire.OwnerIn(sharer.Token), permits, limit, max(sharer.End.Until(), 0), &sharer.Token,
		})
	}
	return s.waitedFor(seen)
}

// waitedFor returns s with the waiters.
func (s State) waitedFor(seen *wire.Seen) State {
	for _, w := range seen.Waiters {
		mode, permits, limit := wanted(w.Token)
		s.Waiters = append(s.Waiters, Waiter{wire.OwnerIn(w.Token), w.Since, mode, permits, limit})
	}
	return s
}

// wanted returns what a token stands for.
func wanted(token string) (mode Mode, permits, limit int) {
	share, _, is := wire.ShareOf(token)
	switch {
	case !is:
		return Exclusive, 0, 0
	case share.Limit == 0:
		return Readers, 0, 0
	}
	return Permits, share.Permits, share.Limit
}
