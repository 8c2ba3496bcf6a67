package rlock

import "slices"

// watch is a place among those who wait for a key. Only the first of them is told
// of a change: it tries its luck while the others wait on, and when it leaves, the
// next one is told. So a change costs a process one attempt, however many wait.
type watch struct {
	of      *watchers
	key     string
	changed chan struct{}
}

// watch takes a place among those who wait for key.
func (h *Hook) watch(key string) *watch {
	w := &watch{of: h.shard(key), key: key, changed: make(chan struct{}, 1)}
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	w.of.waiting[key] = append(w.of.waiting[key], w)
	return w
}

// leave gives the place up.
func (w *watch) leave() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	list := w.of.waiting[w.key]
	at := slices.Index(list, w)
	list = slices.Delete(list, at, at+1)
	if len(list) == 0 {
		delete(w.of.waiting, w.key)
		return
	}
	w.of.waiting[w.key] = list
	if at == 0 {
		list[0].signal()
	}
}

// isFirst reports whether nobody stands before w.
func (w *watch) isFirst() bool {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	return w.of.waiting[w.key][0] == w
}

func (w *watch) signal() {
	select {
	case w.changed <- struct{}{}:
	default: // it has a signal to receive already
	}
}
