package rlock

// watch is a place among those who wait for a key. Only the first of them is told
// of a change: it tries its luck while the others wait on, and when it leaves, the
// next one is told. So a change costs a process one attempt, however many wait.
type watch struct {
	of         *watchers
	key        string
	changed    chan struct{}
	next, prev *watch
}

// watchList are those who wait for one key, in the order in which they came.
type watchList struct{ head, tail *watch }

// watch takes a place among those who wait for key.
func (h *Hook) watch(key string) *watch {
	w := &watch{of: h.shard(key), key: key, changed: make(chan struct{}, 1)}
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	list := w.of.waiting[key]
	if list == nil {
		list = &watchList{head: w}
		w.of.waiting[key] = list
	} else {
		w.prev, list.tail.next = list.tail, w
	}
	list.tail = w
	return w
}

// leave gives the place up.
func (w *watch) leave() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	list := w.of.waiting[w.key]
	if w.next == nil {
		list.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	if w.prev != nil {
		w.prev.next = w.next
		return
	}
	if list.head = w.next; list.head == nil {
		delete(w.of.waiting, w.key)
		return
	}
	list.head.signal()
}

// isFirst reports whether nobody stands before w.
func (w *watch) isFirst() bool {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	return w.prev == nil
}

func (w *watch) signal() {
	select {
	case w.changed <- struct{}{}:
	default: // it has a signal to receive already
	}
}
