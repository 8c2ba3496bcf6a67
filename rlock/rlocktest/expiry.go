package rlocktest

import (
	"maps"
	"slices"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// sweepInterval is how often keys are looked at for having expired.
const sweepInterval = 10 * time.Millisecond

type dbKey struct {
	db  int
	key string
}

// expect watches for the expiry of those keys that have a TTL.
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

// expectBroadcast watches for the expiry of those keys that are announced
// without having been read.
func (t *tracker) expectBroadcast(db int, keys []string) {
	var found []string
	t.mu.Lock()
	for _, key := range keys {
		for _, c := range t.conns {
			if c.mode.broadcasts(key) {
				found = append(found, key)
				// A key that was deleted is not to be announced as expired.
				delete(t.expiring, dbKey{db, key})
				break
			}
		}
	}
	t.mu.Unlock()
	t.expect(db, found)
}

// sweep announces expired keys until there are none left to wait for.
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
		// With very many keys a sweep takes long; commands have to get through.
		pause = max(sweepInterval, 4*time.Since(start))
	}
}

// sweepOnce reports whether there is anything left to wait for.
func (t *tracker) sweepOnce() bool {
	// The keys are taken out first and put back if they live, and not removed
	// if they are dead: meanwhile one may be set and expected again.
	t.mu.Lock()
	taken := t.expiring
	t.expiring = map[dbKey]struct{}{}
	t.mu.Unlock()

	var gone []string
	dbs := map[int]*miniredis.RedisDB{}
	maps.DeleteFunc(taken, func(k dbKey, _ struct{}) bool {
		// Once for all keys, as this is what makes miniredis expire them, for
		// which it goes through all there are.
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

// isWatched tells whether anyone would want to know of a change. The caller
// holds mu.
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

// close ends the sweeping. No command may run any more.
func (t *tracker) close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	close(t.stop)
	t.sweepers.Wait()
}
