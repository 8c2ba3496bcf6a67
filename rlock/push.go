package rlock

import (
	"hash/maphash"
	"slices"
	"sync"

	"github.com/redis/rueidis"
)

// Hook tells waiting acquisitions that a key has changed. Open installs one. A
// client that is built elsewhere gets one through its options, and its Locker
// through WithHook:
//
//	hook := rlock.NewHook()
//	client, err := rueidis.NewClient(rueidis.ClientOption{
//		InitAddress:     addresses,
//		OnInvalidations: hook.OnInvalidations,
//	})
//	…
//	locker, err := rlock.New(client, rlock.WithHook(hook))
//
// Without a hook, and where the client has no cache, waiting polls at the pace of
// the retry policy.
type Hook struct {
	seed   maphash.Seed
	shards [16]watchers
}

// watchers are those who wait for some keys to change, in the order in which they
// came.
type watchers struct {
	mu    sync.Mutex
	byKey map[string][]*watch
}

// watch is a place among those who wait for a key. Only the first of them is told
// of a change: it tries its luck while the others wait on, and when it leaves, the
// next one is told. So a change costs a process one attempt, however many wait.
type watch struct {
	of      *watchers
	key     string
	changed chan struct{}
}

// NewHook returns a Hook for one client.
func NewHook() *Hook {
	h := &Hook{seed: maphash.MakeSeed()}
	for i := range h.shards {
		h.shards[i].byKey = map[string][]*watch{}
	}
	return h
}

// OnInvalidations is for rueidis.ClientOption.OnInvalidations. To have a function
// of one's own there too, call both. It does not block.
func (h *Hook) OnInvalidations(messages []rueidis.RedisMessage) {
	if messages == nil { // all keys, or the connection is gone
		for i := range h.shards {
			h.shards[i].wakeAll()
		}
		return
	}
	for _, m := range messages {
		if key, err := m.ToString(); err == nil {
			h.shard(key).wake(key)
		}
	}
}

func (h *Hook) shard(key string) *watchers {
	return &h.shards[maphash.String(h.seed, key)%uint64(len(h.shards))]
}

// watch takes a place among those who wait for key.
func (h *Hook) watch(key string) *watch {
	w := &watch{of: h.shard(key), key: key, changed: make(chan struct{}, 1)}
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	w.of.byKey[key] = append(w.of.byKey[key], w)
	return w
}

// leave gives the place up.
func (w *watch) leave() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	list := w.of.byKey[w.key]
	at := slices.Index(list, w)
	list = slices.Delete(list, at, at+1)
	if len(list) == 0 {
		delete(w.of.byKey, w.key)
		return
	}
	w.of.byKey[w.key] = list
	if at == 0 {
		list[0].signal()
	}
}

// isFirst reports whether nobody stands before w.
func (w *watch) isFirst() bool {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	return w.of.byKey[w.key][0] == w
}

func (w *watch) signal() {
	select {
	case w.changed <- struct{}{}:
	default: // it has a signal to receive already
	}
}

func (w *watchers) wake(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if list := w.byKey[key]; len(list) > 0 {
		list[0].signal()
	}
}

func (w *watchers) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, list := range w.byKey {
		list[0].signal()
	}
}
