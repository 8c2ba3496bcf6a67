// Package forced counts the calls that free a key by force, and then look for the locks of this
// process that they have robbed. Whoever gets a lock compares the counts of its keys: a call that has begun
// since may have missed a lock that was on its way.
//
// It does not know what a lock is.
package forced

import (
	"hash/maphash"
	"sync/atomic"
)

// Counts has the counts of all keys. Keys share them by their hashes, so that a count may be of another key
// too.
type Counts struct {
	seed   maphash.Seed
	any    atomic.Bool // a call has begun
	shards [64]struct{ begun, done atomic.Uint64 }
}

// Init makes Counts ready. Its methods may be called from then on.
func (c *Counts) Init() { c.seed = maphash.MakeSeed() }

// Begin counts a call that is going to look for locks of the key. The caller calls End when it has looked.
func (c *Counts) Begin(key string) {
	c.any.Store(true)
	c.shards[c.of(key)].begun.Add(1)
}

// End counts a call that has looked for locks of the key.
func (c *Counts) End(key string) { c.shards[c.of(key)].done.Add(1) }

// Begun returns how many calls have begun for the keys.
func (c *Counts) Begun(keys []string) (n uint64) {
	if c.any.Load() { // or else, as nearly always, no hash is needed
		for _, key := range keys {
			n += c.shards[c.of(key)].begun.Load()
		}
	}
	return n
}

// Done returns how many calls for the keys have ended. It is equal to a later Begun only if all had ended,
// and none has begun since.
func (c *Counts) Done(keys []string) (n uint64) {
	if c.any.Load() {
		for _, key := range keys {
			n += c.shards[c.of(key)].done.Load()
		}
	}
	return n
}

func (c *Counts) of(key string) uint64 {
	return maphash.String(c.seed, key) % uint64(len(c.shards))
}
