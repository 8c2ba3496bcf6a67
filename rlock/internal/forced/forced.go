// Package forced remembers tokens that a call has freed by force. Whoever gets what had such a token has lost
// it: it was on its way to a caller, where the call could not see it.
//
// It does not know what a lock is.
package forced

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Tokens are those that were freed by force. The zero Tokens are none.
type Tokens struct {
	count atomic.Int32
	mu    sync.Mutex
	freed map[string]clock.Instant
}

// remembered is how long a token is remembered: longer than an answer of the server, or a lease that one
// caller has given to another, can be on its way.
const remembered = time.Minute

// Add notes that a token was freed now.
func (t *Tokens) Add(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.freed == nil {
		t.freed = map[string]clock.Instant{}
	}
	now := clock.Now()
	maps.DeleteFunc(t.freed, func(_ string, at clock.Instant) bool { return at.After(remembered) <= now })
	t.freed[token] = now
	t.count.Store(int32(len(t.freed)))
}

// Freed returns when a token was freed last, and reports whether it was.
func (t *Tokens) Freed(token string) (at clock.Instant, was bool) {
	if t.count.Load() == 0 { // as nearly always
		return 0, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	at, was = t.freed[token]
	return at, was && at.After(remembered) > clock.Now()
}
