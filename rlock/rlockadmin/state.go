package rlockadmin

import (
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Mode says how a lock is held, or wanted.
type Mode uint8

const (
	Free      Mode = iota // nobody holds it
	Exclusive             // one holder has the whole lock
	Readers               // any number of readers share it
	Permits               // holders of some of its permits share it
)

var modes = [...]string{Free: "free", Exclusive: "exclusive", Readers: "readers", Permits: "permits"}

// String returns the mode in a word, such as "readers".
func (m Mode) String() string {
	if int(m) < len(modes) {
		return modes[m]
	}
	return fmt.Sprintf("Mode(%d)", m)
}

// State is what the server said about a lock when it was asked.
type State struct {
	Key       string
	Mode      Mode
	Remaining time.Duration // what was left of the lease that ends last; rlock.NoExpiry: it never ends
	Permits   int           // in use
	Limit     int           // how many permits there are, as a holder says; of several numbers, the highest
	// Holders are in the order in which their leases end. A lock that is shared may have none: when their
	// leases have ended, when the user may not read who they are, and while the slot of a cluster moves.
	Holders []Holder
	// Waiters are the processes that wait in the queue of the lock, in the order in which they get it, the
	// first thousand at most. A process with several callers who wait is one Waiter, and so is a set that
	// waits for this key. One that has died stays until the lock would be passed on to it. Callers of other
	// libraries, and those who poll, stand in no queue. A user who may not read the queue sees nobody.
	Waiters []Waiter

	token *string // a pointer, because package fmt would show a string
}

// Token returns the value of the key, "" if the lock is free: the token of its only holder, or, of a lock
// that is shared, a value with which ForceRelease frees it for all.
func (s State) Token() string { return text(s.token) }

// text is what a pointer points to.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// Holder is one who holds a lock.
type Holder struct {
	Owner     string        // what it says about itself, see rlock.WithOwner; "" when it says nothing
	Permits   int           // how many it has; 0: it has no permits
	Limit     int           // how many there are, as it says; 0: it has no permits
	Remaining time.Duration // what was left of its lease; rlock.NoExpiry: it never expires

	token *string // a pointer, because package fmt would show a string
}

// Token returns the token of the holder, for ForceRelease. Packages fmt, log/slog and encoding/json do not
// show it.
func (h Holder) Token() string { return text(h.token) }

// Waiter is a process that waits for a lock.
type Waiter struct {
	Owner   string    // what it says about itself, see rlock.WithOwner; "" when it says nothing
	Since   time.Time // when it began to wait, by the clock of the server
	Mode    Mode      // in which it wants the lock
	Permits int       // how many it wants; 0: it wants no permits
	Limit   int       // how many there are, as it says; 0: it wants no permits
}

// stateOf is what the server has said of a key.
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

// waitedFor returns s with those who wait.
func (s State) waitedFor(seen *wire.Seen) State {
	for _, w := range seen.Waiters {
		mode, permits, limit := wanted(w.Token)
		s.Waiters = append(s.Waiters, Waiter{wire.OwnerIn(w.Token), w.Since, mode, permits, limit})
	}
	return s
}

// wanted tells what a token is for.
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
