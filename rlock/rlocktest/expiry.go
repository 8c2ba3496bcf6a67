package rlocktest

import (
	"maps"
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// sweepInterval is how often the sweep looks for expired keys.
const sweepInterval = 10 * time.Millisecond

type dbKey struct {
	db  int
	key string
}

// expect watches the keys that have a TTL.
func (t *tracker) expect(db int, keys []string) {
	if len(keys) == 0 {
		return
	}
	r := t.redis.DB(db)
	keys = slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return r.TTL(key) <= 0 })
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, key := range keys {
		t.expiring[dbKey{db, key}] = struct{}{}
	}
	if len(t.expiring) > 0 && !t.sweeping && !t.closed {
		t.sweeping = true
		t.sweepers.Go(t.sweep)
	}
}

// expectBroadcast watches the keys whose changes are announced even to clients that have not read them.
func (t *tracker) expectBroadcast(db int, keys []string) {
	var found []string
	t.mu.Lock()
	for _, key := range keys {
		for _, c := range t.conns {
			if c.mode.broadcasts(key) {
				found = append(found, key)
				// A deleted key must not be announced as expired.
				delete(t.expiring, dbKey{db, key})
				break
			}
		}
	}
	t.mu.Unlock()
	t.expect(db, found)
}

// sweep announces expired keys until no watched key is left.
func (t *tracker) sweep() {
	pause := sweepInterval
	for {
		select {
		case <-t.stop:
			return
		case <-time.After(pause):
		}
		start := time.Now()
		if !t.sweepOnce() {
			return
		}
		// With very many keys a sweep takes long, so it lets commands through.
		pause = max(sweepInterval, 4*time.Since(start))
	}
}

// sweepOnce reports whether watched keys are left.
func (t *tracker) sweepOnce() bool {
	// sweepOnce takes the keys out first, and puts back keys that live. Meanwhile a command may set a key,
	// and expect watches it again.
	t.mu.Lock()
	taken := t.expiring
	t.expiring = map[dbKey]struct{}{}
	t.mu.Unlock()

	var gone []string
	dbs := map[int]*miniredis.RedisDB{}
	maps.DeleteFunc(taken, func(k dbKey, _ struct{}) bool {
		// Once for all keys, because this call makes miniredis expire them, and it goes through all its keys.
		r := dbs[k.db]
		if r == nil {
			r = t.redis.DB(k.db)
			dbs[k.db] = r
		}
		if r.TTL(k.key) > 0 {
			return false
		}
		if !r.Exists(k.key) {
			gone = append(gone, k.key)
		}
		return true
	})
	t.invalidate(nil, gone)

	t.mu.Lock()
	defer t.mu.Unlock()
	for k := range taken {
		if t.isWatched(k.key) {
			t.expiring[k] = struct{}{}
		}
	}
	t.sweeping = len(t.expiring) > 0
	return t.sweeping
}

// isWatched reports whether a client wants to know of a change. The caller holds mu.
func (t *tracker) isWatched(key string) bool {
	if len(t.readers[key]) > 0 {
		return true
	}
	for _, c := range t.conns {
		if c.mode.broadcasts(key) {
			return true
		}
	}
	return false
}

// close ends the sweep. The caller makes sure that no command runs any more.
func (t *tracker) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	close(t.stop)
	t.sweepers.Wait()
}
