package rlock

// watch is a place among those of one Locker who wait for a key. Only the first of them
// is told of a change: it tries to acquire while the others wait on, and when it leaves,
// the next one is told. So a change costs a Locker one attempt, however many wait.
// Lockers may use different servers, so each has its own first.
type watch struct {
	of         *watchers
	list       *watchList
	key        string
	changed    chan struct{}
	next, prev *watch
}

// watchList are those of one Locker who wait for one key, in the order in which they
// came.
type watchList struct {
	locker     *Locker
	head, tail *watch
	other      *watchList // of another Locker
}

// watch takes a place among those who wait for key.
func (h *Invalidations) watch(l *Locker, key string) *watch {
	w := &watch{of: h.shard(key), key: key, changed: make(chan struct{}, 1)}
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	first := w.of.waiting[key]
	list := first
	for list != nil && list.locker != l {
		list = list.other
	}
	if list == nil {
		list = &watchList{locker: l, head: w, other: first}
		w.of.waiting[key] = list
	} else {
		w.prev, list.tail.next = list.tail, w
	}
	list.tail, w.list = w, list
	return w
}

// leave gives the place up.
func (w *watch) leave() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	list := w.list
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
		w.of.remove(w.key, list)
		return
	}
	list.head.signal()
}

// remove takes an empty list off those of a key. The caller holds mu.
func (w *watchers) remove(key string, list *watchList) {
	first := w.waiting[key]
	if first == list {
		if list.other == nil {
			delete(w.waiting, key)
		} else {
			w.waiting[key] = list.other
		}
		return
	}
	for first.other != list {
		first = first.other
	}
	first.other = list.other
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
