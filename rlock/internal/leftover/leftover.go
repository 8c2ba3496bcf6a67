// Package leftover remembers tokens that no caller uses any more, although the server may still have keys
// with them.
//
// A lease ends a little earlier here than at the server, because clocks differ. In between, no caller holds
// the key. A caller who is told that the key is held can only come again.
package leftover

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Tokens has the tokens of keys. The zero Tokens has none.
type Tokens struct {
	count atomic.Int32
	mu    sync.Mutex
	of    map[string]entry
	limit int // the count at which Add looks for tokens that are over
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

// Drop forgets a token, because a caller may use it again.
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

// Take returns the tokens that a key may have, once.
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
