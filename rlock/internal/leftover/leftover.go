// Package leftover remembers tokens that are nobody's any more although the server may still have keys with
// them.
//
// A lease ends a little earlier here than at the server, because clocks differ. In between, nobody holds the
// key, and a caller who is told that it is held can do no more than come again.
package leftover

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Tokens are those of keys. The zero Tokens are none.
type Tokens struct {
	count atomic.Int32
	mu    sync.Mutex
	of    map[string]entry
	limit int // count at which Add looks for those that are over
}

type entry struct {
	tokens []string
	until  clock.Instant
}

// Add notes that keys may have one of the tokens until an instant.
func (t *Tokens) Add(keys, tokens []string, until clock.Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[string]entry{}
	}
	if len(t.of) >= t.limit {
		now := clock.Now()
		maps.DeleteFunc(t.of, func(_ string, e entry) bool { return e.until <= now })
		t.limit = max(2*len(t.of), 64)
	}
	for _, key := range keys {
		t.of[key] = entry{tokens, until}
	}
	t.count.Store(int32(len(t.of)))
}

// Drop forgets a token, because somebody may use it again.
func (t *Tokens) Drop(keys []string, token string) {
	if t.count.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		if slices.Contains(t.of[key].tokens, token) {
			delete(t.of, key)
		}
	}
	t.count.Store(int32(len(t.of)))
}

// Take returns the tokens that a key may have, once; none if it has none of them.
func (t *Tokens) Take(key string) []string {
	if t.count.Load() == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.of[key]
	delete(t.of, key)
	t.count.Store(int32(len(t.of)))
	if !ok || e.until <= clock.Now() {
		return nil
	}
	return e.tokens
}
