package rlock

import (
	"context"
	"hash/maphash"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
)

// Hook hears from the server that keys have changed. It lets waiting acquisitions
// try again at once, and locks notice at once that they were lost: those that are
// extended, and those whose Context was asked for. Open installs one. A
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
// the retry policy, and a loss is noticed by the next extension, as it always is on
// a cluster.
type Hook struct {
	seed   maphash.Seed
	shards [16]watchers
}

// watchers are those who want to know that some keys change.
type watchers struct {
	mu    sync.Mutex
	byKey map[string][]watcher
}

// watcher is told that a key may have changed, on the goroutine that reads from the
// server: it must not block.
type watcher interface{ changed() }

// signal is a watcher that has something to receive after the change.
type signal chan struct{}

func (s signal) changed() {
	select {
	case s <- struct{}{}:
	default: // it has something to receive already
	}
}

// NewHook returns a Hook for one client.
func NewHook() *Hook {
	h := &Hook{seed: maphash.MakeSeed()}
	for i := range h.shards {
		h.shards[i].byKey = map[string][]watcher{}
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

// watch returns a channel that has something to receive after key has changed.
func (h *Hook) watch(key string) (changed <-chan struct{}, stop func()) {
	s := make(signal, 1)
	h.add(key, s)
	return s, func() { h.remove(key, s) }
}

// add has w told when key changes, until it is removed.
func (h *Hook) add(key string, w watcher) {
	shard := h.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	shard.byKey[key] = append(shard.byKey[key], w)
}

func (h *Hook) remove(key string, w watcher) {
	shard := h.shard(key)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	list := shard.byKey[key]
	if i := slices.Index(list, w); i >= 0 {
		last := len(list) - 1
		list[i], list[last] = list[last], nil
		list = list[:last]
	}
	if len(list) == 0 {
		delete(shard.byKey, key)
	} else {
		shard.byKey[key] = list
	}
}

func (w *watchers) wake(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	tell(w.byKey[key])
}

func (w *watchers) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, list := range w.byKey {
		tell(list)
	}
}

func tell(list []watcher) {
	for _, w := range list {
		w.changed()
	}
}

// await waits until the key that stands in the way is free, or worth another try:
// for a push of the server, the end of the holder's lease, or end, whichever comes
// first. Reading the key through the client-side cache is what makes the server
// track it. A push is a hint, as every extension causes one. Where none can be
// expected, it pauses.
func (l *Locker) await(ctx context.Context, key string, pause time.Duration, end instant) error {
	if l.hook == nil || l.uncached.Load() {
		return sleep(ctx, pause, l.closed)
	}
	changed, stop := l.hook.watch(key)
	defer stop()
	for pushed := false; ; pushed = true {
		answer, err := l.scripts.CheckCached(ctx, l.client, gen.CheckParams{Lock: key}, l.defaults.cacheTTL)
		switch {
		case err != nil || answer.Left < 0:
			return sleep(ctx, pause, l.closed)
		case !answer.Value.Valid && answer.Hit && !pushed:
			// The cache has not heard of the holder that was just met. It will soon, or
			// it hears nothing at all: then this is polling.
			return sleep(ctx, pause, l.closed)
		case !answer.Value.Valid:
			return nil
		}
		left := min(answer.Left+time.Millisecond+rand.N(2*time.Millisecond), end.until())
		if left <= 0 {
			return nil
		}
		over, err := receive(ctx, changed, left, l.closed)
		if over || err != nil {
			return err
		}
	}
}

// receive waits for a change, or until d is over.
func receive(ctx context.Context, changed <-chan struct{}, d time.Duration, closing <-chan struct{}) (over bool, err error) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-changed:
		return false, nil
	case <-timer.C:
		return true, nil
	case <-ctx.Done():
		return false, contextError(ctx, nil)
	case <-closing:
		return false, ErrClosed
	}
}
