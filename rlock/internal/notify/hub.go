// Package notify follows what the server says about changed keys: it wakes those who wait
// for one, and finds locks whose key is another's or whose lease somebody else has shortened.
// It also hears of what the server grants to this process.
//
// It never acquires, extends or ends a lock, and does not know what one is, nor of queues and
// scripts: it knows keys and tokens, and tells whoever holds or expects them what it has read
// or heard.
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
	onAll map[*Listener]func() // of OnAll
}

// shard has those who want to know when some of the keys change. A goroutine that holds its
// mutex may take Monitor.mu. A goroutine that holds Monitor.mu must not take its mutex.
type shard struct {
	mu      sync.Mutex
	waiting map[string]*watchList // a list for each Listener
	holding map[string][]holder
}

// holder is told of changes of a key that it holds.
type holder struct {
	monitor *Monitor
	held    Held
}

// NewHub returns a Hub for one client.
func NewHub() *Hub {
	h := &Hub{seed: maphash.MakeSeed(), onAll: map[*Listener]func(){}}
	for i := range h.shards {
		h.shards[i].waiting = map[string]*watchList{}
		h.shards[i].holding = map[string][]holder{}
	}
	return h
}

// OnInvalidations is for rueidis.ClientOption.OnInvalidations. It does not block.
func (h *Hub) OnInvalidations(messages []rueidis.RedisMessage) {
	if messages == nil { // all keys, or the connection is gone
		for i := range h.shards {
			h.shards[i].wakeAll()
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, f := range h.onAll {
			f()
		}
		return
	}
	for _, m := range messages {
		if key, err := m.ToString(); err == nil {
			h.shard(key).wake(key)
		}
	}
}

func (h *Hub) shard(key string) *shard {
	return &h.shards[maphash.String(h.seed, key)%uint64(len(h.shards))]
}

// hold has m told when a key of held changes.
func (h *Hub) hold(m *Monitor, held Held) {
	for _, key := range held.Keys() {
		s := h.shard(key)
		s.mu.Lock()
		s.holding[key] = append(s.holding[key], holder{m, held})
		s.mu.Unlock()
	}
}

// drop undoes hold.
func (h *Hub) drop(held Held) {
	for _, key := range held.Keys() {
		h.shard(key).drop(key, held)
	}
}

func (s *shard) drop(key string, held Held) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.DeleteFunc(s.holding[key], func(other holder) bool { return other.held == held })
	if len(list) == 0 {
		delete(s.holding, key)
		return
	}
	s.holding[key] = list
}

func (s *shard) wake(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for list := s.waiting[key]; list != nil; list = list.other {
		list.listener.SetHeard(true)
		list.head.signal()
	}
	for _, h := range s.holding[key] {
		h.monitor.listener.SetHeard(true)
		h.monitor.changed(h.held)
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
	for _, list := range s.holding {
		for _, h := range list {
			h.monitor.changed(h.held)
		}
	}
}

// Listener is one of those who share a Hub. The waiters of one Listener for one key wait in
// one list. Listeners may use different servers, and know nothing of each other.
type Listener struct {
	hub   *Hub
	heard atomic.Bool
}

// Listen returns another Listener.
func (h *Hub) Listen() *Listener { return &Listener{hub: h} }

// OnAll has f called when all keys may have changed; nil: not any more. f does not block.
func (l *Listener) OnAll(f func()) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	if f == nil {
		delete(l.hub.onAll, l)
		return
	}
	l.hub.onAll[l] = f
}

// Heard reports whether the server tells this Listener of changed keys, as far as is known:
// it has told of one, or SetHeard was called.
func (l *Listener) Heard() bool { return l.heard.Load() }

// SetHeard says whether the server tells of changed keys. It reads before it writes, because
// even a write that changes nothing makes every other processor fetch the value again.
func (l *Listener) SetHeard(heard bool) {
	if l.heard.Load() != heard {
		l.heard.Store(heard)
	}
}
