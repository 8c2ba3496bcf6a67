// Package notify follows what the server says about changed keys. It wakes a caller that waits for a
// changed key. It finds a held lock whose key has another token, or whose lease another client has
// shortened. It also hears of the grants of the server to this process.
//
// The package never acquires, extends or ends a lock. It knows keys and tokens, but not what a lock is, and
// no queues or scripts. It tells the holder or the waiter what it has read or heard.
package notify

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// Hub hears from one client which keys have changed.
type Hub struct {
	seed   maphash.Seed
	shards [16]shard

	mu    sync.Mutex
	onAll map[*Listener]func() // the functions of OnAll
}

// shard has the waiters and the locks of some keys. A goroutine that holds shard.mu may take Monitor.mu. A
// goroutine that holds Monitor.mu must not take shard.mu.
type shard struct {
	mu      sync.Mutex
	waiting map[string]*watchList // by key: one list for each Listener
	holding map[uint64]Held       // the first lock on a key, by the hash of the key; see hold
	// further locks of the same hash: readers, and locks after one that was lost unnoticed
	others map[uint64][]Held
}

// NewHub returns a Hub for one client.
func NewHub() *Hub {
	h := &Hub{seed: maphash.MakeSeed(), onAll: map[*Listener]func(){}}
	for i := range h.shards {
		h.shards[i].waiting = map[string]*watchList{}
		h.shards[i].holding, h.shards[i].others = map[uint64]Held{}, map[uint64][]Held{}
	}
	return h
}

// OnInvalidations is for rueidis.ClientOption.OnInvalidations. It does not block.
func (h *Hub) OnInvalidations(messages []rueidis.RedisMessage) {
	if messages == nil { // all keys, or the connection is gone
		h.wakeAll()
	}
	for _, m := range messages {
		if key, err := m.ToString(); err == nil {
			h.wake(key)
		}
	}
}

// Changed notes that a key may have changed. An empty key means any key. It does not block.
func (h *Hub) Changed(key string) {
	if key == "" {
		h.wakeAll()
		return
	}
	h.wake(key)
}

func (h *Hub) wakeAll() {
	for i := range h.shards {
		h.shards[i].wakeAll()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.onAll {
		f()
	}
}

func (h *Hub) hash(key string) uint64 { return maphash.String(h.seed, key) }

func (h *Hub) shard(hash uint64) *shard { return &h.shards[hash%uint64(len(h.shards))] }

// hold lets the Monitor of held hear of changes of its keys. The Monitor also hears of other keys with the
// same hash. That does no harm, since a message is only a hint, and a map of hashes is a third smaller.
func (h *Hub) hold(held Held) {
	for _, key := range held.Keys() {
		hash := h.hash(key)
		h.shard(hash).hold(hash, held)
	}
}

func (s *shard) hold(hash uint64, held Held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holding[hash] == nil {
		s.holding[hash] = held
		return
	}
	s.others[hash] = append(s.others[hash], held)
}

func (h *Hub) drop(held Held) {
	for _, key := range held.Keys() {
		hash := h.hash(key)
		h.shard(hash).drop(hash, held)
	}
}

func (s *shard) drop(hash uint64, held Held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	others := slices.DeleteFunc(s.others[hash], func(other Held) bool { return other == held })
	if s.holding[hash] == held {
		delete(s.holding, hash)
		if end := len(others) - 1; end >= 0 {
			s.holding[hash] = others[end]
			others = slices.Delete(others, end, end+1)
		}
	}
	if s.others[hash] = others; len(others) == 0 {
		delete(s.others, hash)
	}
}

func (h *Hub) wake(key string) {
	hash := h.hash(key)
	s := h.shard(hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	for list := s.waiting[key]; list != nil; list = list.other {
		list.listener.SetHeard(true)
		list.head.signal()
	}
	if h := s.holding[hash]; h != nil {
		h.Monitor().heard(h)
	}
	for _, h := range s.others[hash] {
		h.Monitor().heard(h)
	}
}

func (s *shard) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, list := range s.waiting {
		for ; list != nil; list = list.other {
			list.head.signal()
		}
	}
	for _, h := range s.holding {
		h.Monitor().changed(h)
	}
	for _, others := range s.others {
		for _, h := range others {
			h.Monitor().changed(h)
		}
	}
}

// Listener is one user of a Hub. The waiters of one Listener for one key wait in one list. Listeners may
// use different servers, and know nothing of each other.
type Listener struct {
	hub   *Hub
	heard atomic.Bool
}

// Listen returns a new Listener.
func (h *Hub) Listen() *Listener { return &Listener{hub: h} }

// OnAll makes the Hub call f when all keys may have changed. nil ends that. f must not block.
func (l *Listener) OnAll(f func()) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	if f == nil {
		delete(l.hub.onAll, l)
		return
	}
	l.hub.onAll[l] = f
}

// Heard reports whether the server tells this Listener of changed keys, as far as is known. It is true once
// the server has told of one, or SetHeard(true) was called.
func (l *Listener) Heard() bool { return l.heard.Load() }

// SetHeard notes whether the server tells of changed keys. It reads before it writes. Even a write that
// changes nothing makes every other processor fetch the value again.
func (l *Listener) SetHeard(heard bool) {
	if l.heard.Load() != heard {
		l.heard.Store(heard)
	}
}
